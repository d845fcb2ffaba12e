"""Loops over mailboxes in a group: probes, drain, and the watchdog."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.loops.office import PATIENCE_S, Gate, Office, Running, eventually

from afl.clock import SYSTEM_CLOCK
from afl.loops import AgentLoop, Turn
from afl.mailbox import FakeMailbox, InMemoryMailbox, MailboxConnectionError
from afl.runtime import LoopGroup, ShutdownCoordinator, StallStage


@pytest.fixture(autouse=True)
def nobody_is_installed() -> Iterator[None]:
    ShutdownCoordinator.reset()
    yield
    ShutdownCoordinator.reset()


@contextmanager
def running(group: LoopGroup) -> Iterator[None]:
    thread = threading.Thread(target=group.run, kwargs={"install_signals": False}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        group.shutdown()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_group_gives_back_what_does_not_end_in_time(office: Office) -> None:
    gate = Gate()
    office.ask("first", "second")
    loop = office.loop(gate)
    group = LoopGroup([loop], shutdown_timeout=10.0, checkpoint_reserve_seconds=9.9)
    with running(group):
        gate.wait_for(1)
    taken = [office.take(), office.take()]
    assert [each.body.request for each in taken] == ["first", "second"]
    assert [each.delivery_count for each in taken] == [1, 1]
    gate.may_end.set()
    assert office.replies.approximate_count() == 0


# Stopping from the inside


def stopping(stop: Callable[[], bool], answers: list[bool]) -> list[Callable[..., Any]]:
    """Work that calls `stop`, done on each kind of thread."""

    def on_a_thread(request: str) -> str:
        answers.append(stop())
        return request

    async def on_the_loop(request: str) -> str:
        return on_a_thread(request)

    async def beside_the_loop(request: str) -> str:
        return await asyncio.to_thread(on_a_thread, request)

    return [on_a_thread, on_the_loop, beside_the_loop]


@pytest.mark.parametrize("where", range(3), ids=["thread", "loop", "beside the loop"])
def test_a_request_may_stop_the_group_that_does_it(memory_office: Office, where: int) -> None:
    """Who waited for the group would be waited for by it, until the request is given back."""
    answers: list[bool] = []
    loop = memory_office.loop(stopping(lambda: group.shutdown(), answers)[where])
    group = LoopGroup([loop])
    memory_office.ask("last")
    group.run(install_signals=False)
    assert answers == [False], "asked, without waiting for itself"
    assert memory_office.outputs(1) == ["last"]
    assert memory_office.requests.approximate_count() == 0


@pytest.mark.parametrize("where", range(3), ids=["thread", "loop", "beside the loop"])
def test_a_request_may_stop_the_loop_that_does_it(memory_office: Office, where: int) -> None:
    answers: list[bool] = []
    stop = stopping(lambda: loop.shutdown(timeout=PATIENCE_S), answers)[where]
    loop = memory_office.loop(stop)
    memory_office.ask("last")
    began = SYSTEM_CLOCK.monotonic()
    loop.run()
    assert answers == [False]
    assert SYSTEM_CLOCK.monotonic() - began < PATIENCE_S
    assert memory_office.outputs(1) == ["last"]


@pytest.mark.parametrize("where", [0, 2], ids=["thread", "beside the loop"])
def test_a_request_may_wait_for_a_loop_that_does_not_wait_for_it(
    memory_office: Office, where: int
) -> None:
    other = AgentLoop.from_function(str.upper, requests=InMemoryMailbox())

    def run_another() -> bool:
        with Running(other):
            eventually(lambda: other.running)
            return other.shutdown(timeout=PATIENCE_S)

    answers: list[bool] = []
    loop = memory_office.loop(stopping(run_another, answers)[where])
    memory_office.ask("first")
    loop.run(max_iterations=1)
    assert answers == [True]


def test_a_loop_says_why_it_cannot_take_work() -> None:
    requests: FakeMailbox[Any, Any] = FakeMailbox()
    loop = AgentLoop.from_function(str.upper, requests=requests)
    assert (loop.in_flight, loop.progress, loop.leases_lost) == (0, 0, 0)
    assert loop.unready_reason is None
    with Running(loop):
        requests.set_connection_error(MailboxConnectionError("the cable is out"))
        eventually(lambda: "the cable is out" in str(loop.unready_reason))
        requests.clear_connection_error()
        eventually(lambda: loop.unready_reason is None)


def test_numbers_of_a_loop_go_on_over_its_runs(memory_office: Office) -> None:
    loop = memory_office.loop(str.upper)
    seen: list[int] = []
    for each in "ab":
        memory_office.ask(each)
        loop.run(max_iterations=1, wait_time_seconds=0)
        seen.append(loop.progress)
    assert 0 < seen[0] < seen[1]


def test_the_watchdog_cancels_a_turn_that_hangs(memory_office: Office) -> None:
    begun: list[str] = []

    def wait(request: str, turn: Turn) -> str:
        begun.append(request)
        assert SYSTEM_CLOCK.wait(turn.cancellation, PATIENCE_S)
        raise TimeoutError("nobody wants it")

    memory_office.ask("first")
    loop = memory_office.loop(wait)
    with Running(loop):
        eventually(lambda: begun)
        loop.rescue(StallStage.CANCELLED)
        (answer,) = memory_office.answers(1)
    assert answer.error == "nobody wants it"
    loop.rescue(StallStage.FORCED)  # what does not run needs no rescue
    loop.checkpoint()


def test_idle_loops_beat(memory_office: Office) -> None:
    loop = memory_office.loop(str.upper)
    beats: list[int] = []
    loop.heartbeat.add_callback(lambda: beats.append(1))
    with Running(loop, wait_time_seconds=0):
        eventually(lambda: len(beats) > 2)
