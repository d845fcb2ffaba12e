"""The calls that programs of others make with agent loops: names, defaults and answers."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.loops.agents import Agent
from tests.loops.office import PATIENCE_S, Gate, Office, eventually

import afl
from afl.agents.adapters.scripted import ScriptedAdapter, says
from afl.loops import Prompt, Session
from afl.mailbox import InMemoryMailbox
from afl.runtime import (
    AgentLoop,
    AgentLoopConfig,
    AgentLoopRequest,
    AgentLoopResult,
    LoopGroup,
    MainLoop,
    MainLoopConfig,
    MainLoopRequest,
    MainLoopResult,
    Runnable,
    ShutdownCoordinator,
    wait_until,
)

ROOT = Path(__file__).parents[2]


class Analyst(MainLoop[str, str]):
    def prepare(self, request: str, *, experiment: Any = None) -> tuple[Prompt[str], Session]:
        return Prompt(f"Analyse {request}"), Session()


def test_old_names_are_the_new_ones() -> None:
    assert MainLoop is AgentLoop
    assert MainLoopRequest is AgentLoopRequest
    assert MainLoopResult is AgentLoopResult
    assert MainLoopConfig is AgentLoopConfig


def test_defaults_are_those_that_are_known() -> None:
    run = inspect.signature(AgentLoop.run).parameters
    assert run["max_iterations"].default is None
    assert (run["visibility_timeout"].default, run["wait_time_seconds"].default) == (300, 20)
    assert inspect.signature(AgentLoop.shutdown).parameters["timeout"].default == 30.0


def test_a_loop_takes_the_mailbox_of_its_responses() -> None:
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox("requests")
    responses: InMemoryMailbox[Any, Any] = InMemoryMailbox("responses")
    loop = Analyst(
        adapter=ScriptedAdapter([says("rising")]), requests=requests, responses=responses
    )
    assert isinstance(loop, Runnable)
    requests.send(MainLoopRequest(request="sales"))
    loop.run(max_iterations=1)
    (message,) = responses.receive()
    assert message.body.output == "rising"


def test_a_loop_in_a_thread_is_shut_down_by_the_program(office: Office) -> None:
    loop = Agent(ScriptedAdapter(), office)
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert wait_until(lambda: loop.running, timeout=PATIENCE_S)
    assert loop.shutdown(timeout=5.0)
    thread.join(timeout=PATIENCE_S)
    assert not loop.running
    assert not thread.is_alive()


def test_a_shutdown_waits_for_the_message_in_flight(office: Office) -> None:
    gate = Gate()
    office.ask("sales")
    loop = office.loop(gate)
    thread = threading.Thread(target=loop.run, kwargs={"max_iterations": 1})
    thread.start()
    gate.wait_for(1)
    assert loop.shutdown(timeout=0.0) is False
    gate.may_end.set()
    assert loop.shutdown(timeout=5.0) is True
    assert office.outputs(1) == ["sales"]
    thread.join()


def test_leaving_its_block_shuts_a_loop_down(office: Office) -> None:
    with Agent(ScriptedAdapter(), office) as loop:
        thread = threading.Thread(target=loop.run)
        thread.start()
        eventually(lambda: loop.running)
    assert not loop.running
    thread.join()


def test_a_group_runs_several_loops_and_stops_them(office: Office) -> None:
    loops = [office.loop(str.upper), office.loop(str.upper)]
    group = LoopGroup(loops=loops)
    thread = threading.Thread(target=group.run)
    thread.start()
    eventually(lambda: all(each.running for each in loops))
    office.ask("a", "b", "c")
    assert sorted(office.outputs(3)) == ["A", "B", "C"]
    assert group.shutdown(timeout=5.0)
    thread.join(timeout=PATIENCE_S)
    assert [each.running for each in loops] == [False, False]


def test_a_coordinator_is_given_the_shutdown_of_a_loop(memory_office: Office) -> None:
    ShutdownCoordinator.reset()
    coordinator = ShutdownCoordinator.install()
    loop = memory_office.loop(str.upper)
    coordinator.register(loop.shutdown)
    thread = threading.Thread(target=loop.run)
    thread.start()
    eventually(lambda: loop.running)
    coordinator.trigger()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    ShutdownCoordinator.reset()


ALONE = """
from afl.mailbox import InMemoryMailbox
from afl.runtime import AgentLoop, ShutdownCoordinator
coordinator = ShutdownCoordinator.install()
loop = AgentLoop.from_function(str.upper, requests=InMemoryMailbox())
coordinator.register(loop.shutdown)
loop.heartbeat.add_callback(lambda: print("beats", flush=True))
loop.run()
"""

GROUP = """
from afl.mailbox import InMemoryMailbox
from afl.runtime import AgentLoop, LoopGroup
loops = [AgentLoop.from_function(str.upper, requests=InMemoryMailbox()) for _ in range(2)]
loops[1].heartbeat.add_callback(lambda: print("beats", flush=True))
LoopGroup(loops=loops, health_port=0, watchdog_threshold=720.0).run()
"""


HANGING = """
import threading
from afl.agents.adapters.scripted import ScriptedAdapter, calls
from afl.loops import AgentLoop, Prompt, Session, ToolsSection
from afl.mailbox import InMemoryMailbox
from afl.runtime import LoopGroup

def hang() -> None:
    print("beats", flush=True)
    threading.Event().wait()

class Hanging(AgentLoop):
    def prepare(self, request, *, experiment=None):
        return Prompt("Hang", ToolsSection(hang)), Session()

requests = InMemoryMailbox()
requests.send("first")
loop = Hanging(adapter=ScriptedAdapter([calls("hang", {})]), requests=requests, concurrency=%d)
LoopGroup([loop], shutdown_timeout=1.0).run()
"""


def end_of(code: str) -> int:
    """The exit code of a program that gets a SIGTERM when it beats."""
    environ = {**os.environ, "PYTHONPATH": str(Path(afl.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environ, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "beats\n"
            process.send_signal(signal.SIGTERM)
            return process.wait(PATIENCE_S)
        finally:
            process.kill()


def test_a_single_loop_with_signals_ends_with_success() -> None:
    assert end_of(ALONE) == 0


@pytest.mark.parametrize("concurrency", [1, 100], ids=["thread", "event loop"])
def test_a_tool_that_hangs_keeps_no_process_from_ending(concurrency: int) -> None:
    assert end_of(HANGING % concurrency) == 0


def test_a_group_with_signals_ends_with_success() -> None:
    assert end_of(GROUP) == 0
