"""How `afl mcp` ends, and that runs do not end with it. The protocol is spoken by hand here, so
that all of standard output is seen: each line of it must be a message."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from tests.mcp.conftest import PATIENCE_S, Folder

from afl import open_store
from afl.runtime.entities import RunnerState
from afl.runtime.types import WorkflowId


class Conversation:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def send(self, method: str, params: dict[str, Any], id_: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        line = json.dumps(message if id_ is None else {**message, "id": id_})
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            yield message

    def answer(self, id_: int) -> dict[str, Any]:
        return next(each["result"] for each in self.messages() if each.get("id") == id_)

    def call(self, id_: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.send("tools/call", {"name": tool, "arguments": arguments}, id_)
        found: dict[str, Any] = self.answer(id_)["structuredContent"]
        return found

    def begin_run(self, id_: int) -> None:
        """A call that waits for its run; goes on here when that has begun."""
        params: dict[str, Any] = {
            "name": "Hello",
            "arguments": {"name": "Ada", "wait_seconds": 600},
            "_meta": {"progressToken": "p"},
        }
        self.send("tools/call", params, id_)
        assert any(each["method"] == "notifications/progress" for each in self.messages())


@contextmanager
def talking(folder: Folder) -> Iterator[Conversation]:
    process = subprocess.Popen(
        folder.line("mcp", "program.afl"),
        cwd=folder.path,
        env=folder.environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        conversation = Conversation(process)
        try:
            _greet(conversation)
            yield conversation
        finally:
            process.kill()


def _greet(conversation: Conversation) -> None:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    conversation.send("initialize", params, 0)
    assert conversation.answer(0)["serverInfo"]["name"] == "afl-mcp"
    conversation.send("notifications/initialized", {})


def _registered(conversation: Conversation, folder: Folder) -> None:
    """Registered, so that it is worth waiting for a worker."""
    given = {
        "action": "register",
        "facet_name": "t.Greet",
        "module_uri": "handlers.py",
        "entrypoint": "greet",
    }
    assert conversation.call(1, "afl_manage_handlers", given)["success"]


@pytest.mark.timeout(150)
def test_a_run_outlives_a_server_that_is_killed_while_it_waits(folder: Folder) -> None:
    with talking(folder) as conversation:
        _registered(conversation, folder)
        conversation.begin_run(2)
        conversation.process.kill()
        conversation.process.wait(PATIENCE_S)
    with closing(open_store(folder.url)) as store:
        (run,) = store.get_all_runners()
        assert run.state == RunnerState.RUNNING
        with folder.worker():
            assert store.wait_for_run(WorkflowId(run.workflow_id), PATIENCE_S)
        ended = store.get_run(WorkflowId(run.workflow_id))
        assert ended is not None
        assert ended.state == RunnerState.COMPLETED


def test_a_server_that_is_told_to_stop_answers_and_exits_with_zero(folder: Folder) -> None:
    with talking(folder) as conversation:
        _registered(conversation, folder)
        conversation.begin_run(2)
        conversation.process.send_signal(signal.SIGTERM)
        answer = conversation.answer(2)["structuredContent"]
        assert answer["state"] == "running"
        assert f"afl_runs, workflow_id {answer['workflow_id']}" in answer["note"]
        assert conversation.process.wait(PATIENCE_S) == 0


def test_a_server_ends_when_its_client_has_gone(folder: Folder) -> None:
    with talking(folder) as conversation:
        assert conversation.process.stdin is not None
        conversation.process.stdin.close()
        assert conversation.process.wait(PATIENCE_S) == 0
