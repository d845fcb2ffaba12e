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
from typing import Any

import pytest
from tests.engine.profile import IS_STORM
from tests.loops.office import PATIENCE_S, Office, Running, eventually
from tests.turns.agent import PLAN
from tests.turns.tooled import Tooled

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.clock import SYSTEM_CLOCK
from afl.loops import tool
from afl.turns import MemoryTurns, OutcomeUnknown, ToolClient, current_effect

_ROOT = Path(__file__).parents[2]


@contextmanager
def supervised(module: str, *words: str, fds: tuple[int, ...] = ()) -> Iterator[list[int]]:
    """Runs a server, again and again; gives the exit codes."""
    command = [sys.executable, "-m", f"tests.turns.{module}", *words]
    codes: list[int] = []
    processes = [subprocess.Popen(command, cwd=_ROOT, pass_fds=fds)]
    over = threading.Event()

    def watch() -> None:
        while True:
            codes.append(processes[-1].wait())
            if over.is_set():
                return
            processes.append(subprocess.Popen(command, cwd=_ROOT, pass_fds=fds))

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
    with supervised("keyed_process", str(folder), dies) as codes, Running(agent):
        assert memory_office.outputs(1) == ["done"]
        assert codes == [-9]
    assert (folder / "ledger").read_text().splitlines() == ["30"]
    assert agent.sessions[-1].tool_uses[0].result.content == "charged 30"


# Over HTTP, at every effect of a turn


def shop_tools(client: ToolClient) -> list[Any]:
    def asked(effect: str, **arguments: Any) -> str:
        response = client.post(f"/{effect}", json=arguments)
        response.raise_for_status()
        return str(response.json()["receipt"])

    @tool(idempotent=True)
    def reserve(item: str) -> str:
        return asked("reserve", item=item)

    @tool(idempotent=True)
    def charge(amount: int) -> str:
        return asked("charge", amount=amount)

    @tool(idempotent=True)
    def fax(text: str) -> str:
        return asked("fax", text=text)

    @tool(idempotent=True)
    def ship(item: str) -> str:
        return asked("ship", item=item)

    return [reserve, charge, fax, ship]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sides", ["before,after"] if IS_STORM else ["before", "after"])
def test_a_shop_that_dies_at_every_effect_of_a_turn_does_each_once(
    memory_office: Office, folder: Path, sides: str
) -> None:
    """Before it acts, and after its answer is kept: in a storm both, for each of five effects."""
    plan = PLAN if IS_STORM else PLAN[:2]
    script = [calls(name, arguments) for name, arguments in plan]
    adapter = ScriptedAdapter([*script, says("done")])
    with socket.create_server(("127.0.0.1", 0)) as line:
        client = ToolClient(base_url=f"http://127.0.0.1:{line.getsockname()[1]}", timeout=60.0)
        agent = Tooled(adapter, memory_office, *shop_tools(client), turns=MemoryTurns())
        memory_office.ask("first")
        words = (str(line.fileno()), str(folder), sides)
        with client, supervised("mortal_shop", *words, fds=(line.fileno(),)) as codes:
            with Running(agent):
                eventually(lambda: memory_office.replies.approximate_count(), patience_s=240)
            assert memory_office.outputs(1) == ["done"]
            assert codes == [-9] * len(plan) * len(sides.split(","))
    ledger = (folder / "ledger").read_text().splitlines()
    assert [tuple(json.loads(each)) for each in ledger] == plan
    results = [each.result.content for each in agent.sessions[-1].tool_uses]
    assert results == [f"receipt of {name}" for name, _ in plan]
