"""Who may do what over HTTP."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from tests.acceptance.in_process import afl
from tests.mcp.conftest import Folder, HttpServer, http_server, make_folder, names

from afl import open_store
from afl.errors import ConfigurationError
from afl.mcp.access import OPERATOR, READER, Address, Tokens, tokens_for

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return make_folder(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="module")
def server(place: Folder) -> Iterator[HttpServer]:
    with http_server(place) as found:
        yield found


async def _post(url: str, message: dict[str, Any], **headers: str) -> httpx2.Response:
    usual = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient() as http:
        return await http.post(url, json=message, headers={**usual, **headers})


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic dTpw"}]
)
def test_without_a_good_token_nothing_is_answered(
    server: HttpServer, headers: dict[str, str]
) -> None:
    async def main() -> None:
        answer = await _post(server.url, INITIALIZE, **headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")

    anyio.run(main)


def test_another_host_name_is_refused(server: HttpServer) -> None:
    async def main() -> None:
        token = f"Bearer {server.operator}"
        answer = await _post(server.url, INITIALIZE, Authorization=token, Host="evil.example")
        assert answer.status_code == 421

    anyio.run(main)


@pytest.mark.parametrize("is_legacy", [False, True])
def test_who_only_looks_is_not_offered_what_acts_and_cannot_do_it(
    server: HttpServer, place: Folder, is_legacy: bool
) -> None:
    async def main() -> None:
        async with server.client(server.reader, is_legacy=is_legacy) as client:
            offered = names((await client.list_tools()).tools)
            assert offered == {
                *("afl_compile", "afl_validate", "afl_runs"),
                *("afl_manage_handlers", "afl_turns"),
            }
            for tool, arguments in ACTS.items():
                await _is_refused(client, tool, arguments)
            listed = await client.call_tool("afl_manage_handlers", {"action": "list"})
            assert not listed.is_error
            assert (await client.read_resource("afl://runners")).contents

    anyio.run(main)
    store = open_store(place.url)
    assert store.list_handler_registrations() == []
    assert store.get_all_runners() == []
    store.close()


#: A call of each tool that would change something.
ACTS: dict[str, dict[str, Any]] = {
    "Hello": {"name": "x"},
    "afl_execute_workflow": {"source": "workflow W()", "workflow_name": "W"},
    "afl_resume_workflow": {"workflow_id": "x"},
    "afl_continue_step": {"step_id": "x"},
    "afl_retry_step": {"step_id": "x"},
    "afl_manage_runner": {"runner_id": "x", "action": "cancel"},
    "afl_manage_handlers": {"action": "register", "facet_name": "t.F", "module_uri": "os"},
    "afl_turns": {"action": "cancel", "turn_id": "x"},
}


async def _is_refused(client: Client, tool: str, arguments: dict[str, Any]) -> None:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert "needs the operator's token" in result.structured_content["error"]


def test_a_session_of_the_operator_is_nobody_elses(server: HttpServer) -> None:
    async def main() -> None:
        begun = await _post(server.url, INITIALIZE, Authorization=f"Bearer {server.operator}")
        assert begun.status_code == 200
        session = begun.headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        found = {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
        own = await _post(server.url, listing, Authorization=f"Bearer {server.operator}", **found)
        assert "afl_manage_runner" in own.text
        stolen = await _post(server.url, listing, Authorization=f"Bearer {server.reader}", **found)
        assert stolen.status_code == 404

    anyio.run(main)


# Before it serves


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "0.0.0.0:0"], "--token-file"),
        (["--http", "0.0.0.0:0", "--token-file", "none"], "cannot be read"),
        (["--http", "somewhere"], "expected PORT or HOST:PORT"),
        (["--token-file", "operator"], "tokens are for --http"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_is(
    arguments: list[str], told: str
) -> None:
    ended = afl("mcp", *arguments)
    assert ended.code == 2
    assert told in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["--store", "memory:"], "a store in memory"), (["--read-only"], "afl.db")],
)
def test_a_store_that_nobody_could_use_is_refused(
    folder: Folder, arguments: list[str], told: str
) -> None:
    ended = subprocess.run(
        folder.line("mcp", *arguments),
        cwd=folder.path,
        env=folder.environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 2
    assert told in ended.stderr
    assert ended.stdout == ""
    assert not (folder.path / "afl.db").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_tokens_are_made_for_loopback_only(host: str) -> None:
    with pytest.raises(ConfigurationError, match="can be reached from elsewhere"):
        tokens_for(Address(host, 1), Tokens())
    given = Tokens("o" * 20, None)
    assert tokens_for(Address(host, 1), given) == (given, False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_on_loopback_both_tokens_are_made(host: str) -> None:
    made, is_made = tokens_for(Address(host, 1), Tokens())
    assert is_made
    assert made.operator
    assert made.reader
    assert made.operator != made.reader


def test_a_token_has_its_role_and_no_other_text_has_any() -> None:
    tokens = Tokens("operator-token-1", "reader-token-123")
    assert tokens.role_of("operator-token-1") is OPERATOR
    assert tokens.role_of("reader-token-123") is READER
    assert Tokens("operator-token-1", is_read_only=True).role_of("operator-token-1") is READER
    for wrong in ("", "operator-token-", "operator-token-12", "None", "ö"):
        assert tokens.role_of(wrong) is None
        assert Tokens().role_of(wrong) is None


def test_tokens_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "operator").write_text("operator-token-1\n")
    (tmp_path / "short").write_text("secret\n")
    found = Tokens.read(tmp_path / "operator", None)
    assert found == Tokens("operator-token-1")
    for wrong in ("short", "none"):
        with pytest.raises(ConfigurationError, match=f"token file .*{wrong}"):
            Tokens.read(tmp_path / wrong, None)
    with pytest.raises(ConfigurationError, match="the same token"):
        Tokens.read(tmp_path / "operator", tmp_path / "operator")


def test_tokens_are_not_shown_by_repr() -> None:
    assert "operator-token-1" not in repr(Tokens("operator-token-1"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", Address("127.0.0.1", 8080)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("[::1]:80", Address("::1", 80)),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "1:x", "70000", "²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected PORT or HOST:PORT"):
        Address.parse(text)
