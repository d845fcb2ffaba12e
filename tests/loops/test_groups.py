"""Loops over mailboxes in a group: probes, drain, and the watchdog."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.loops.office import PATIENCE_S, Gate, Office, Running, eventually

from afl.clock import SYSTEM_CLOCK
from afl.loops import AgentLoop, Turn
from afl.mailbox import FakeMailbox, MailboxConnectionError
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
