"""Workflows as tools."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from tests.mcp.inside import backend_with, called, client_of, do_one, talk

from afl.mcp.backend import Backend
from afl.runtime.entities import ServerDefinition, ServerState

SHOP = """
namespace shop

schema Line { sku: String, count: Long }

event facet Pack(sku: String) => (parcel: String)

/**
 * Packs two parcels.
 * @param lines what was ordered
 * @return parcels their ids
 */
workflow Send(
    lines: [Line],
    gift: Boolean = false,
    note: String = "thank" ++ "s",
    weights: [Double] = [1.5]
) => (parcels: [String]) andThen {
    one = Pack(sku = "a")
    two = Pack(sku = one.parcel)
    yield Send(parcels = [one.parcel, two.parcel])
}
"""

LINES = [{"sku": "a", "count": 1}]


async def _tools(client: Client) -> dict[str, Any]:
    return {each.name: each for each in (await client.list_tools()).tools}


def _runs(backend: Backend) -> int:
    return len(backend.store.get_all_runners())


def test_arguments_come_from_parameters_types_defaults_and_doc_comments() -> None:
    async def main(client: Client) -> None:
        tool = (await _tools(client))["Send"]
        assert tool.description.startswith("Packs two parcels.")
        schema = tool.input_schema
        assert schema["required"] == ["lines"]
        assert schema["additionalProperties"] is False
        properties = schema["properties"]
        assert properties["lines"]["description"] == "what was ordered"
        line = properties["lines"]["items"]
        assert line["properties"] == {"sku": {"type": "string"}, "count": {"type": "integer"}}
        assert line["required"] == ["sku", "count"]
        assert properties["gift"] == {"type": "boolean", "default": False}
        assert properties["note"] == {"type": "string", "default": "thanks"}
        assert properties["weights"]["default"] == [1.5]
        assert set(properties) - {"lines", "gift", "note", "weights"} == {
            "wait_seconds",
            "idempotency_key",
        }
        outputs = tool.output_schema["properties"]["outputs"]["properties"]
        assert outputs == {"parcels": {"description": "[String]: their ids"}}

    talk(backend_with(SHOP), main)


def test_progress_arrives_while_workers_do_the_run_and_outputs_at_its_end() -> None:
    backend = backend_with(SHOP)
    reports: list[tuple[float, str | None]] = []

    async def told(progress: float, total: float | None = None, message: str | None = None) -> None:
        reports.append((progress, message))
        do_one(backend, "shop.Pack", {"parcel": f"p{len(reports)}"})

    async def main(client: Client) -> None:
        result = await client.call_tool("Send", {"lines": LINES}, progress_callback=told)
        assert result.structured_content["outputs"] == {"parcels": ["p1", "p2"]}

    talk(backend, main)
    assert reports == [
        (0, "0 done, 0 running, 1 waiting"),
        (1, "1 done, 0 running, 1 waiting"),
    ]


def test_the_same_key_is_the_same_run_and_other_inputs_are_refused() -> None:
    backend = backend_with(SHOP)

    async def main(client: Client) -> None:
        given = {"lines": LINES, "wait_seconds": 0, "idempotency_key": "k"}
        first = await called(client, "Send", **given)
        again = await called(client, "Send", **given)
        assert first["workflow_id"] == again["workflow_id"]
        other = await called(client, "Send", **{**given, "lines": []})
        assert not other["success"]
        assert "has other inputs" in other["error"]

    talk(backend, main)
    assert _runs(backend) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "lines: is missing"),
        ({"lines": [{"sku": 1, "count": 1}]}, "lines[0].sku: expected String"),
        ({"lines": LINES, "gfit": True}, "did you mean 'gift'?"),
        ({"lines": LINES, "wait_seconds": -1}, "Invalid wait_seconds"),
        ({"lines": LINES, "wait_seconds": True}, "Invalid wait_seconds"),
        ({"lines": LINES, "idempotency_key": ""}, "Invalid idempotency_key"),
    ],
)
def test_wrong_arguments_are_told_and_start_nothing(given: dict[str, Any], told: str) -> None:
    backend = backend_with(SHOP)

    async def main(client: Client) -> None:
        result = await client.call_tool("Send", given)
        assert result.is_error
        assert told in result.structured_content["error"]

    talk(backend, main)
    assert _runs(backend) == 0


def test_a_run_that_nobody_serves_is_told_at_once_and_stays() -> None:
    backend = backend_with(SHOP)

    async def main(client: Client) -> None:
        answer = await called(client, "Send", lines=LINES, wait_seconds=600)
        assert answer["success"]
        assert answer["unserved"] == ["shop.Pack"]
        assert "Nobody serves shop.Pack" in answer["note"]
        do_one(backend, "shop.Pack", {"parcel": "1"})
        do_one(backend, "shop.Pack", {"parcel": "2"})
        over = await called(client, "afl_runs", workflow_id=answer["workflow_id"])
        assert over["outputs"] == {"parcels": ["1", "2"]}
        assert "unserved" not in over

    talk(backend, main)


def test_workflows_of_the_same_name_are_called_with_their_namespaces() -> None:
    other = "namespace store\nworkflow Send() => (x: Long) andThen { yield Send(x = 1) }"
    backend = backend_with(SHOP, other)

    async def main(client: Client) -> None:
        assert {"shop_Send", "store_Send"} <= set(await _tools(client))
        assert (await called(client, "store_Send"))["outputs"] == {"x": 1}
        lost = await called(client, "Send")
        assert "it is one of shop_Send, store_Send now" in lost["error"]

    talk(backend, main)


def test_parameters_that_are_called_as_ours_keep_their_names() -> None:
    text = """
    workflow Wait(wait_seconds: Long, idempotency_key: String) => (x: Long) andThen {
        yield Wait(x = $.wait_seconds)
    }
    """

    async def main(client: Client) -> None:
        properties = (await _tools(client))["Wait"].input_schema["properties"]
        assert {"afl_wait_seconds", "afl_idempotency_key"} <= set(properties)
        answer = await called(
            client, "Wait", wait_seconds=-5, idempotency_key="", afl_wait_seconds=1
        )
        assert answer["outputs"] == {"x": -5}

    talk(backend_with(text), main)


def test_a_program_that_was_run_as_text_is_a_tool_and_its_newest_version_counts() -> None:
    backend = backend_with()
    old = "workflow W() => (x: Long) andThen { yield W(x = 1) }"
    new = "workflow W() => (x: Long) andThen { yield W(x = 2) }"

    async def main(client: Client) -> None:
        assert "W" not in await _tools(client)
        for text, expected in ((old, 1), (new, 2)):
            ran = await called(client, "afl_execute_workflow", source=text, workflow_name="W")
            assert ran["outputs"] == {"x": expected}
            assert (await called(client, "W"))["outputs"] == {"x": expected}

    talk(backend, main)


def test_a_given_program_counts_before_those_of_the_store() -> None:
    given = "workflow W() => (x: Long) andThen { yield W(x = 1) }"
    stored = "workflow W() => (x: Long) andThen { yield W(x = 2) }"

    async def main(client: Client) -> None:
        await called(client, "afl_execute_workflow", source=stored, workflow_name="W")
        assert (await called(client, "W"))["outputs"] == {"x": 1}

    talk(backend_with(given), main)


# Leaving while a call waits


def _with_worker(backend: Backend) -> None:
    """It is worth waiting: somebody is there who could do it."""
    server = ServerDefinition("s", "g", "n", "s", state=ServerState.RUNNING)
    server.handlers, server.ping_time = ["shop.Pack"], backend.store.now_ms()
    backend.store.save_server(server)


def test_when_the_server_stops_whoever_waits_is_answered_and_the_run_goes_on() -> None:
    backend = backend_with(SHOP)
    _with_worker(backend)

    async def told(progress: float, total: float | None = None, message: str | None = None) -> None:
        backend.request_stop()

    async def main(client: Client) -> None:
        given = {"lines": LINES, "wait_seconds": 600}
        result = await client.call_tool("Send", given, progress_callback=told)
        assert result.structured_content["state"] == "running"
        assert "unserved" not in result.structured_content

    talk(backend, main)
    assert _runs(backend) == 1


def test_a_caller_that_leaves_leaves_the_run_and_nothing_else() -> None:
    backend = backend_with(SHOP)
    _with_worker(backend)

    async def main() -> None:
        async with client_of(backend) as client, anyio.create_task_group() as group:
            begun = anyio.Event()

            async def told(
                progress: float, total: float | None = None, message: str | None = None
            ) -> None:
                begun.set()

            async def call() -> None:
                given = {"lines": LINES, "wait_seconds": 600}
                await client.call_tool("Send", given, progress_callback=told)

            group.start_soon(call)
            with anyio.fail_after(20):
                await begun.wait()
            group.cancel_scope.cancel()

    anyio.run(main)
    assert backend.calls == 0
    assert _runs(backend) == 1
