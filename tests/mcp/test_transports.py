"""Each tool and each resource, over both transports, by the official client."""

from __future__ import annotations

import anyio
import pytest
from tests.mcp.conftest import Folder, http_server, names
from tests.mcp.tour import Tour, whole_tour

from afl.mcp.resources import RESOURCES
from afl.mcp.tools import TOOLS


async def _all_was_seen(tour: Tour) -> None:
    """What the server offers is what was called and read: nothing was left out."""
    offered = names((await tour.client.list_tools()).tools)
    assert tour.called == offered == {*TOOLS, "Hello", "Broken", "Asking"}
    listed = (await tour.client.list_resources()).resources
    templates = (await tour.client.list_resource_templates()).resource_templates
    uris = {str(each.uri) for each in listed} | {each.uri_template for each in templates}
    assert tour.seen == uris == {each.uri for each in RESOURCES}


@pytest.mark.timeout(150)
def test_every_tool_and_every_resource_answers_over_stdio(folder: Folder) -> None:
    async def main() -> None:
        async with folder.stdio() as client:
            await _all_was_seen(await whole_tour(client, folder))

    anyio.run(main)


@pytest.mark.timeout(150)
def test_every_tool_and_every_resource_answers_over_http(folder: Folder) -> None:
    async def main() -> None:
        async with server.client(server.operator) as client:
            await _all_was_seen(await whole_tour(client, folder))

    with http_server(folder) as server:
        anyio.run(main)
