"""Work that takes longer than it may."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.work.box import Box, End
from tests.work.running import PATIENCE_S, Gate, Running, eventually
from tests.work.test_processes import is_alive

from afl import telemetry
from afl.clock import FakeClock
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Options
from afl.work.errors import TimedOut
from afl.work.source import InProcess, InThread, Job, OnLoop


def failure_of(box: Box, name: str) -> Any:
    end = box.end_of(name)
    assert end is not None
    assert end.kind == "failed"
    return end.value


def test_a_hung_thread_is_abandoned_replaced_and_reported_with_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    box, gate = Box(), Gate()
    events: list[telemetry.Event] = []
    unsubscribe = telemetry.subscribe(events.append)
    box.put("hangs", gate, timeout_s=0.01)
    box.put("next")
    with Running(Consumer(box, Options(concurrency=1))):
        eventually(box.is_empty)
        gate.may_end.set()
    unsubscribe()
    error = failure_of(box, "hangs")
    assert isinstance(error, TimedOut)
    assert str(error) == "piece hangs took longer than 10ms"
    assert box.end_of("next") == End("done", None)
    report = next(each for each in caplog.messages if each.startswith("thread_abandoned"))
    assert "may_end.wait" in report
    abandoned = [each for each in events if isinstance(each, telemetry.ThreadAbandoned)]
    assert [each.work for each in abandoned] == ["piece hangs"]
    assert "running.Gate.__call__" in abandoned[0].handler


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_what_cannot_be_ended_fails_all_the_same(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process may have become that of another user."""
    box, gate = Box(), Gate()

    def refuse() -> None:
        raise PermissionError("not yours")

    def work(attempt: Attempt) -> None:
        tell = attempt.when_cancelled if how == "cancel" else attempt.when_killed
        tell(refuse)
        gate(attempt)

    box.put("stays", work, timeout_s=0.01)
    with Running(Consumer(box)) as running:
        eventually(box.is_empty)
        eventually(lambda: running.consumer.in_flight == 0)
        gate.may_end.set()
    assert isinstance(failure_of(box, "stays"), TimedOut)
    assert any(each.startswith("attempt_not_ended") for each in caplog.messages)


def test_the_work_is_told_that_nobody_wants_it() -> None:
    box, is_told = Box(), threading.Event()

    def look(attempt: Attempt) -> None:
        assert attempt.cancellation.wait(PATIENCE_S)
        is_told.set()

    box.put("looks", look, timeout_s=0.01)
    with Running(Consumer(box)):
        eventually(box.is_empty)
        assert is_told.wait(PATIENCE_S)


def test_asynchronous_work_is_cancelled() -> None:
    box, is_cancelled = Box(), threading.Event()

    async def wait(_attempt: Attempt) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            is_cancelled.set()

    box.put("waits", Job(OnLoop(wait), timeout_s=0.01))
    with Running(Consumer(box)):
        eventually(box.is_empty)
        assert is_cancelled.wait(PATIENCE_S)
    assert isinstance(failure_of(box, "waits"), TimedOut)


def test_asynchronous_work_that_refuses_to_be_cancelled_is_abandoned() -> None:
    box, may_end = Box(), threading.Event()

    async def refuse(_attempt: Attempt) -> str:
        while not may_end.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue
        return "late"

    box.put("refuses", Job(OnLoop(refuse), timeout_s=0.01))
    with Running(Consumer(box, Options(concurrency=1))):
        eventually(box.is_empty)
        box.put("next")
        eventually(box.is_empty)
        may_end.set()
    assert isinstance(failure_of(box, "refuses"), TimedOut)


def test_a_process_is_killed_with_all_that_it_started() -> None:
    box = Box()
    pids: list[int] = []
    hang = InProcess("tests.work.targets:hang", None, lambda _a, _kind, value: pids.extend(value))
    box.put("hangs", Job(hang, timeout_s=3600))
    box.put("next")
    with Running(Consumer(box, Options(concurrency=1))) as running:
        eventually(lambda: pids)
        # The clock is real: what would take an hour is over at once.
        (attempt,) = running.consumer.attempts()
        attempt.job = Job(hang, timeout_s=0.0)
        run = running.consumer._run
        assert run is not None
        run._watch.expect(0.0)
        eventually(box.is_empty)
        eventually(lambda: not any(map(is_alive, pids)))
    assert isinstance(failure_of(box, "hangs"), TimedOut)


def test_time_counts_from_the_real_start() -> None:
    clock = FakeClock()
    box = Box(lease_s=1e6, clock=clock)
    first, second = Gate(), Gate()
    deadlines: list[Any] = []

    def note(attempt: Attempt) -> str:
        deadlines.append(attempt.deadline)
        return second(attempt)

    box.put("first", first)
    box.put("second", note, timeout_s=60)
    with Running(Consumer(box, Options(threads=1, clock=clock))):
        first.wait_for_begin()
        clock.wait_for_waiters(3)
        clock.advance(100)
        first.may_end.set()
        second.wait_for_begin()
        assert [(each - clock.now()).total_seconds() for each in deadlines] == [60]
        clock.advance(59)
        second.may_end.set()
        eventually(box.is_empty)
    assert box.end_of("second") == End("done", "done")


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_who_gives_no_sign_for_too_long_is_given_up_and_who_does_is_not(kind: str) -> None:
    clock = FakeClock()
    box = Box(lease_s=1e6, clock=clock)
    beats: dict[str, Callable[[], None]] = {}
    may_end = threading.Event()

    def work(attempt: Attempt) -> None:
        beats[attempt.work.id] = attempt.beat
        assert may_end.wait(PATIENCE_S)

    async def wait(attempt: Attempt) -> None:
        beats[attempt.work.id] = attempt.beat
        while not may_end.is_set():
            await asyncio.sleep(0.001)

    how = InThread(work) if kind == "thread" else OnLoop(wait)
    for name in ("silent", "lively"):
        box.put(name, Job(how, patience_s=60))
    with Running(Consumer(box, Options(clock=clock))):
        eventually(lambda: len(beats) == 2)
        for _ in range(3):
            clock.advance(30)
            beats["lively"]()
        eventually(lambda: box.end_of("silent"))
        may_end.set()
        eventually(box.is_empty)
    assert str(failure_of(box, "silent")) == "piece silent gave no sign of progress for 1m"
    assert box.end_of("lively") == End("done", None)


def test_a_late_result_is_dropped() -> None:
    box, gate = Box(), Gate()
    has_ended = threading.Event()

    def work(attempt: Attempt) -> str:
        try:
            return gate(attempt)
        finally:
            has_ended.set()

    box.put("late", work, timeout_s=0.01)
    with Running(Consumer(box)) as running:
        eventually(box.is_empty)
        gate.may_end.set()
        assert has_ended.wait(PATIENCE_S)
        box.put("next")
        eventually(box.is_empty)
        assert running.consumer.leases_lost == 0
    assert isinstance(failure_of(box, "late"), TimedOut)
    assert box.calls.refusals == []


def test_two_that_say_how_it_ended_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that the test above looks for: nobody decides who was first."""
    monkeypatch.setattr(Attempt, "finish", lambda _self: True)
    box, gate = Box(), Gate()
    box.put("late", gate, timeout_s=0.01)
    with Running(Consumer(box)):
        eventually(box.is_empty)
        gate.may_end.set()
        eventually(lambda: box.calls.refusals)


def test_many_hung_threads_leave_room_for_the_next() -> None:
    box, gate = Box(), Gate()
    for number in range(30):
        box.put(f"hangs {number}", gate, timeout_s=0.005)
    box.put("last")
    with Running(Consumer(box, Options(concurrency=3))):
        eventually(box.is_empty)
        gate.may_end.set()
    assert box.end_of("last") == End("done", None)


def test_the_watchdog_can_cancel_and_kill_what_hangs() -> None:
    box = Box()
    pids: list[int] = []

    async def wait(_attempt: Attempt) -> None:
        await asyncio.sleep(3600)

    hang = InProcess("tests.work.targets:hang", None, lambda _a, _kind, value: pids.extend(value))
    box.put("waits", Job(OnLoop(wait)))
    box.put("hangs", Job(hang))
    with Running(Consumer(box)) as running:
        eventually(lambda: pids)
        running.consumer.cancel_all()
        eventually(lambda: box.end_of("waits"))
        assert all(map(is_alive, pids))
        running.consumer.kill_all()
        eventually(box.is_empty)
    assert str(failure_of(box, "waits")) == ("piece waits was cancelled: its worker seemed to hang")
    assert "SIGKILL" in str(failure_of(box, "hangs"))


# Limits that are longer than all calendars, and other reasons for which a beginning may fail

FOR_EVER_S = 3_000_000 * 86_400.0


async def add_later(_attempt: Attempt) -> str:
    return "done"


@pytest.mark.parametrize("how", [InThread(lambda _attempt: "done"), OnLoop(add_later)])
def test_work_may_take_longer_than_there_are_dates(how: InThread | OnLoop) -> None:
    box = Box()
    box.put("long", Job(how, timeout_s=FOR_EVER_S))
    with Running(Consumer(box)):
        eventually(box.is_empty)
    assert box.end_of("long") == End("done", "done")


class NoCalendar(FakeClock):
    """Knows no dates, and so disturbs whoever begins."""

    def now(self) -> Any:
        raise LookupError("no calendar")


@pytest.mark.parametrize(
    "how",
    [
        InThread(lambda _attempt: pytest.fail("it was called")),
        OnLoop(add_later),
        InProcess("tests.work.targets:pid", None, lambda *_anything: None),
    ],
    ids=lambda how: type(how).__name__,
)
def test_what_cannot_begin_ends_and_is_not_held(how: InThread | OnLoop | InProcess) -> None:
    box = Box()
    box.put("never", Job(how, timeout_s=60))
    with Running(Consumer(box, Options(clock=NoCalendar()))) as running:
        eventually(box.is_empty)
        eventually(lambda: running.consumer.in_flight == 0)
    assert str(failure_of(box, "never")) == "no calendar"


def test_what_cannot_begin_in_a_poll_ends_too() -> None:
    box = Box()
    box.put("never", lambda _attempt: pytest.fail("it was called"), timeout_s=60)
    assert Consumer(box, Options(clock=NoCalendar())).poll_once() == 1
    assert str(failure_of(box, "never")) == "no calendar"
