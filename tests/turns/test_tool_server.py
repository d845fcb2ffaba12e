"""The server of a tool dies in the middle of a call, and comes back: the effect happens once."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.loops.office import PATIENCE_S, Office, Running
from tests.turns.tooled import Tooled

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.clock import SYSTEM_CLOCK
from afl.loops import tool
from afl.turns import MemoryTurns, OutcomeUnknown, current_effect

_ROOT = Path(__file__).parents[2]


@contextmanager
def supervised(folder: Path, dies: str) -> Iterator[list[int]]:
    """Runs the server, again and again; gives the exit codes."""
    command = [sys.executable, "-m", "tests.turns.keyed_process", str(folder), dies]
    codes: list[int] = []
    processes = [subprocess.Popen(command, cwd=_ROOT)]
    over = threading.Event()

    def watch() -> None:
        while True:
            codes.append(processes[-1].wait())
            if over.is_set():
                return
            processes.append(subprocess.Popen(command, cwd=_ROOT))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield codes
    finally:
        over.set()
        processes[-1].kill()
        watcher.join(PATIENCE_S)


def connected(folder: Path) -> socket.socket:
    """What could not be sent can be tried again, whatever it is."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while True:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(folder / "line"))
            return line
        except (FileNotFoundError, ConnectionRefusedError):
            line.close()
            assert SYSTEM_CLOCK.monotonic() < deadline
            SYSTEM_CLOCK.sleep(0.02)


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_server_that_dies_in_a_call_acts_once(
    memory_office: Office, folder: Path, dies: str
) -> None:
    @tool(idempotent=True)
    def charge(amount: int) -> str:
        effect = current_effect()
        assert effect is not None
        asked = {"amount": amount, "key": effect.key}
        with connected(folder) as line, line.makefile("rw") as file:
            try:
                file.write(json.dumps(asked) + "\n")
                file.flush()
                return str(json.loads(file.readline()))
            except (OSError, ValueError) as error:
                raise OutcomeUnknown("the server died") from error

    adapter = ScriptedAdapter([calls("charge", {"amount": 30}), says("done")])
    agent = Tooled(adapter, memory_office, charge, turns=MemoryTurns())
    memory_office.ask("first")
    with supervised(folder, dies) as codes, Running(agent):
        assert memory_office.outputs(1) == ["done"]
        assert codes == [-9]
    assert (folder / "ledger").read_text().splitlines() == ["30"]
    assert agent.sessions[-1].tool_uses[0].result.content == "charged 30"
