"""What becomes of work when a consumer is asked to stop."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.work.box import Box, End, Piece
from tests.work.running import PATIENCE_S, Gate, Running, eventually
from tests.work.test_processes import is_alive

from afl.clock import FakeClock
from afl.errors import StoreClosed, StoreUnavailable
from afl.work import run
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Options
from afl.work.source import NO_ROOM, InProcess, Job, OnLoop


def test_nothing_is_claimed_after_a_stop() -> None:
    box, gate = Box(), Gate()
    box.put("runs", gate, then=["follows"])
    box.put("follows", is_held=True)
    with Running(Consumer(box)) as running:
        gate.wait_for_begin()
        running.stop.set()
        eventually(lambda: running.consumer.attempts()[0].is_running)
        box.put("waits")
        gate.may_end.set()
        running.join()
    assert box.end_of("runs") == End("done", "done")
    assert box.waiting() == ["follows", "waits"]
    assert box.claims_of("waits") == box.claims_of("follows") == 0


def test_what_was_not_begun_is_given_back_at_once_in_one_call_and_in_order() -> None:
    box, gate = Box(), Gate()
    box.put("runs", gate)
    names = [str(number) for number in range(5)]
    for each in names:
        box.put(each)
    with Running(Consumer(box, Options(concurrency=6, threads=1))) as running:
        gate.wait_for_begin()
        running.stop.set()
        eventually(lambda: box.calls.releases)
        assert not running.has_ended.is_set()
        assert box.waiting() == names
        gate.may_end.set()
    assert box.calls.releases == [names]
    assert [box.claims_of(each) for each in names] == [0] * 5
    assert box.end_of("runs") == End("done", "done")


def test_work_that_a_record_brings_after_the_stop_is_given_back() -> None:
    box, gate = Box(), Gate()
    box.put("runs", gate, then=["follows"])
    box.put("follows", is_held=True)
    box.is_slow = True
    with Running(Consumer(box)) as running:
        gate.wait_for_begin()
        gate.may_end.set()
        eventually(lambda: running.consumer.attempts()[0].is_over)
        running.stop.set()
        eventually(lambda: box.settle())
        running.join()
    assert box.waiting() == ["follows"]
    assert box.claims_of("follows") == 0


def test_leases_are_kept_until_the_last_record_is_durable() -> None:
    clock = FakeClock()
    box, gate = Box(lease_s=30, clock=clock), Gate()
    box.put("runs", gate)
    with Running(Consumer(box, Options(clock=clock, drain_s=3600))) as running:
        gate.wait_for_begin()
        running.stop.set()
        eventually(lambda: not box.is_waited_for)
        clock.wait_for_waiters(4)  # the run drains; keeper, recorder and watch wait
        box.is_slow = True
        gate.may_end.set()
        eventually(lambda: running.consumer.attempts()[0].is_over)
        eventually(lambda: clock.waiters == 3)  # the recorder waits for the box
        for count in range(1, 10):
            clock.wait_for_waiters(3)
            clock.advance(10)
            box.wait_for_extensions(count)
        eventually(lambda: box.settle())
        running.join()
    assert box.end_of("runs") == End("done", "done")
    assert box.calls.refusals == []


def test_a_renewer_that_stops_with_the_claims_would_lose_running_work() -> None:
    """The mistake that the test above looks for: the keeper ends when the drain begins."""
    clock = FakeClock()
    box, gate = Box(lease_s=30, clock=clock), Gate()
    box.put("runs", gate)
    consumer = Consumer(box, Options(clock=clock, drain_s=3600))
    with Running(consumer) as running:
        gate.wait_for_begin()
        running_now = consumer._run
        assert running_now is not None
        running_now._keeper.stop(PATIENCE_S)
        running.stop.set()
        clock.wait_for_waiters(2)
        clock.advance(31)
        assert box.waiting() == ["runs"]
        gate.may_end.set()


class Stubborn:
    """Work that goes on although nobody wants it."""

    def __init__(self) -> None:
        self.gate = Gate()

    def in_thread(self, attempt: Attempt) -> str:
        return self.gate(attempt)

    async def on_loop(self, _attempt: Attempt) -> str:
        self.gate.has_begun.set()
        while not self.gate.may_end.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue
        return "late"


@pytest.mark.parametrize("asked", ["checkpoint", "time"])
def test_when_the_time_is_over_all_that_runs_is_ended_and_given_back(asked: str) -> None:
    box, gate = Box(), Gate()
    is_cancelled = threading.Event()
    pids: list[int] = []

    async def wait(_attempt: Attempt) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            is_cancelled.set()
            raise

    def look(attempt: Attempt) -> None:
        gate.has_begun.set()
        assert attempt.cancellation.wait(PATIENCE_S)

    hang = InProcess("tests.work.targets:hang", None, lambda _a, _kind, value: pids.extend(value))
    box.put("thread", look)
    box.put("loop", Job(OnLoop(wait)))
    box.put("process", Job(hang))
    drain_s = 0.01 if asked == "time" else 3600.0
    with Running(Consumer(box, Options(drain_s=drain_s))) as running:
        gate.wait_for_begin()
        eventually(lambda: pids)
        running.stop.set()
        if asked == "checkpoint":
            running.consumer.checkpoint()
        running.join()
    assert is_cancelled.is_set()
    eventually(lambda: not any(map(is_alive, pids)))
    assert box.calls.releases == [["thread", "loop", "process"]]
    assert box.waiting() == ["thread", "loop", "process"]
    assert box.ends() == {"thread": None, "loop": None, "process": None}


@pytest.mark.parametrize("kind", ["in_thread", "on_loop"])
def test_work_that_does_not_end_is_left_behind_and_its_result_dropped(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_GRACE_S", 0.01)
    box, stubborn = Box(), Stubborn()
    if kind == "in_thread":
        box.put("hangs", stubborn.in_thread)
    else:
        box.put("hangs", Job(OnLoop(stubborn.on_loop)))
    with Running(Consumer(box, Options(drain_s=0))) as running:
        stubborn.gate.wait_for_begin()
        running.stop.set()
        running.join()
    assert box.waiting() == ["hangs"]
    thief = box.steal("hangs")
    stubborn.gate.may_end.set()
    box.complete(thief, "by another", NO_ROOM).result()
    assert box.end_of("hangs") == End("done", "by another")


def test_a_stop_before_the_run_claims_nothing() -> None:
    box = Box()
    box.put("waits")
    stop = threading.Event()
    stop.set()
    Consumer(box).run(stop)
    assert box.calls.claims == []


def test_work_that_is_claimed_while_the_stop_comes_is_given_back() -> None:
    stop = threading.Event()

    class LateBox(Box):
        def claim(self, limit: int) -> list[Piece]:
            claimed = list(super().claim(limit))
            stop.set()
            return claimed

    box = LateBox()
    box.put("first")
    box.put("second")
    Consumer(box).run(stop)
    assert box.waiting() == ["first", "second"]
    assert box.calls.releases == [["first", "second"]]


def test_an_outage_during_the_drain_is_waited_for() -> None:
    box, gate = Box(), Gate()
    box.put("runs", gate)
    box.put("waits")
    with Running(Consumer(box, Options(concurrency=2, threads=1))) as running:
        gate.wait_for_begin()
        box.is_out = True
        running.stop.set()
        gate.may_end.set()
        eventually(lambda: running.consumer.attempts()[0].is_over)
        box.is_out = False
        running.join()
    assert box.end_of("runs") == End("done", "done")
    assert box.waiting() == ["waits"]


def test_what_cannot_be_given_back_while_a_drain_goes_on_is_tried_again_soon() -> None:
    """And not only when the time of the drain is over: nobody else can have it until then."""
    box, gate = Box(), Gate()
    box.put("runs", gate)
    box.put("ends", then=["next"])
    box.put("next", is_held=True)
    box.is_slow = True
    with Running(Consumer(box, Options(concurrency=2))) as running:
        gate.wait_for_begin()
        eventually(lambda: box.unsettled)
        running.stop.set()
        eventually(lambda: not box.is_waited_for)
        box.faults["release"] = StoreUnavailable("away for a moment")
        box.settle()
        eventually(lambda: "next" in box.waiting())
        box.is_slow = False
        gate.may_end.set()


def test_an_outage_until_the_end_does_not_keep_it_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "_LAST_S", 0.05)
    box, gate = Box(), Gate()
    box.put("runs", gate)
    box.put("waits")
    with Running(Consumer(box, Options(concurrency=2, threads=1, drain_s=0.05))) as running:
        gate.wait_for_begin()
        box.is_out = True
        gate.may_end.set()
        running.stop.set()
        running.join()
    assert box.ends() == {"runs": None, "waits": None}


def test_a_source_that_was_closed_ends_the_run() -> None:
    box = Box()
    with Running(Consumer(box)) as running:
        eventually(lambda: box.calls.waits)
        box.faults["claim"] = StoreClosed("the store is closed")
        box.put("first")
        running.join()
        assert isinstance(running.error, StoreClosed)


def test_who_closes_the_source_and_stops_at_once_is_not_told_so() -> None:
    box, gate = Box(), Gate()
    box.put("first", gate)
    with Running(Consumer(box)) as running:
        gate.wait_for_begin()
        running.stop.set()
        for call in ("complete", "release"):
            box.faults[call] = StoreClosed("the store is closed")
        gate.may_end.set()
        running.join()
        assert running.error is None
