"""A source that cannot be reached for a while, and claims that are lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from tests.work.box import Box, End, Piece
from tests.work.running import PATIENCE_S, Gate, Running, eventually, parked
from tests.work.test_consumer import Told
from tests.work.test_processes import is_alive

from afl import telemetry
from afl.clock import FakeClock
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Options
from afl.work.recorder import Recorder
from afl.work.source import NO_ROOM, InProcess, Job, OnLoop


def test_an_outage_makes_it_unready_and_never_ends_it() -> None:
    box = Box()
    consumer = Consumer(box)
    box.is_out = True
    with Running(consumer):
        reason = "work cannot be claimed: the box cannot be reached"
        eventually(lambda: consumer.unready_reason == reason)
        box.put("first")
        box.is_out = False
        eventually(box.is_empty)
        assert consumer.unready_reason is None


def test_an_outage_while_it_waits_for_work_is_survived() -> None:
    box = Box()
    consumer = Consumer(box, Options(poll_interval_s=0.001))
    with Running(consumer):
        for _ in range(5):
            box.is_out = True
            eventually(lambda: "cannot be reached" in str(consumer.unready_reason))
            box.is_out = False
            eventually(lambda: consumer.unready_reason is None)
        box.put("first")
        eventually(box.is_empty)


class SlowBox(Box):
    """Does not answer claims until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def claim(self, limit: int) -> Sequence[Piece]:
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE_S)
        return super().claim(limit)


def test_it_is_ready_once_a_claim_was_answered_and_not_before() -> None:
    box = SlowBox()
    consumer = Consumer(box)
    assert consumer.unready_reason is None
    with Running(consumer):
        assert box.is_asked.wait(PATIENCE_S)
        assert consumer.unready_reason == "starting: its first claim is not answered yet"
        box.may_answer.set()
        eventually(lambda: box.is_waited_for)
        assert consumer.unready_reason is None


def test_who_counts_its_polls_may_wait_within_them() -> None:
    box = SlowBox()
    consumer = Consumer(box)
    with Running(consumer, max_iterations=1):
        assert box.is_asked.wait(PATIENCE_S)
        assert consumer.unready_reason is None
        box.may_answer.set()


def test_who_never_got_an_answer_says_nothing_after_its_run() -> None:
    box, stop = Box(), threading.Event()
    stop.set()
    consumer = Consumer(box)
    consumer.run(stop)
    assert box.calls.claims == []
    assert consumer.unready_reason is None


def test_an_end_that_cannot_be_recorded_now_is_recorded_later() -> None:
    box, gate = Box(), Gate()
    box.put("first", gate)
    with Running(Consumer(box)) as running:
        gate.wait_for_begin()
        box.is_out = True
        gate.may_end.set()
        eventually(lambda: running.consumer.attempts()[0].is_over)
        assert running.consumer.in_flight == 1
        box.is_out = False
        eventually(box.is_empty)
    assert box.end_of("first") == End("done", "done")
    assert box.claims_of("first") == 1


def test_an_outage_between_writing_and_durable_is_survived() -> None:
    box = Box()
    box.is_slow = True
    box.put("first")
    with Running(Consumer(box)):
        eventually(lambda: box.unsettled)
        box.is_out = True
        box.settle()  # it was written, but never committed
        box.is_slow = box.is_out = False
        eventually(box.is_empty)
    assert box.end_of("first") == End("done", None)


def test_dropping_an_end_in_an_outage_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that the tests above look for."""
    monkeypatch.setattr(Recorder, "_try_again", lambda *_anything: None)
    box, gate = Box(), Gate()
    box.put("first", gate)
    with Running(Consumer(box, Options(drain_s=0))) as running:
        gate.wait_for_begin()
        box.is_out = True
        gate.may_end.set()
        eventually(lambda: running.consumer.attempts()[0].is_over)
        box.is_out = False
    assert box.end_of("first") is None


# Claims that are lost


def test_what_was_claimed_so_long_ago_that_it_may_be_lost_is_not_begun() -> None:
    clock = FakeClock()
    box = Box(lease_s=15.0, clock=clock)
    box.is_slow = True
    box.put("first", then=["second"])
    box.put("second", is_held=True)
    with Running(Consumer(box, Options(concurrency=1, clock=clock))):
        eventually(lambda: box.unsettled)
        clock.advance(15.0)
        box.is_slow = False
        box.settle()
        eventually(box.is_empty)
    assert box.calls.releases == [["second"]]
    assert box.claims_of("second") == 1, "what is given back was not handed out"


@pytest.mark.parametrize("kind", ["thread", "loop", "process"])
def test_a_lost_claim_cancels_the_attempt(kind: str) -> None:
    clock = FakeClock()
    box, told = Box(lease_s=30, clock=clock), Told()
    has_begun, is_cancelled = threading.Event(), threading.Event()
    pids: list[int] = []

    def look(attempt: Attempt) -> None:
        has_begun.set()
        assert attempt.cancellation.wait(PATIENCE_S)
        is_cancelled.set()

    async def wait(_attempt: Attempt) -> None:
        has_begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            is_cancelled.set()

    def note(_attempt: Attempt, _kind: str, value: list[int]) -> None:
        pids.extend(value)
        has_begun.set()

    if kind == "thread":
        box.put("lost", look)
    elif kind == "loop":
        box.put("lost", Job(OnLoop(wait)))
    else:
        box.put("lost", Job(InProcess("tests.work.targets:hang", None, note)))
    events: list[telemetry.Event] = []
    unsubscribe = telemetry.subscribe(events.append)
    consumer = Consumer(box, Options(clock=clock), told)
    with Running(consumer):
        assert has_begun.wait(PATIENCE_S)
        thief = box.steal("lost")
        parked(clock)
        clock.advance(10)
        eventually(lambda: consumer.leases_lost == 1)
        if kind == "process":
            eventually(lambda: not any(map(is_alive, pids)))
        else:
            assert is_cancelled.wait(PATIENCE_S)
        eventually(lambda: consumer.in_flight == 0)
        box.complete(thief, "by another", NO_ROOM).result()
    unsubscribe()
    assert box.end_of("lost") == End("done", "by another")
    assert told.heard == [("began", "lost", None), ("lost", "lost", None)]
    assert [each.facts()["work"] for each in events if each.name == "claim_lost"] == ["piece lost"]


def test_a_result_whose_claim_is_lost_is_dropped_and_counted() -> None:
    box, gate, told = Box(), Gate(), Told()
    box.put("lost", gate)
    consumer = Consumer(box, observer=told)
    with Running(consumer):
        gate.wait_for_begin()
        thief = box.steal("lost")
        gate.may_end.set()
        eventually(lambda: consumer.leases_lost == 1)
        eventually(lambda: consumer.in_flight == 0)
        box.complete(thief, "by another", NO_ROOM).result()
    assert box.end_of("lost") == End("done", "by another")
    assert told.heard[-1] == ("lost", "lost", None)


def test_leases_are_renewed_all_in_one_call_every_third_of_a_lease() -> None:
    clock = FakeClock()
    box, gate = Box(lease_s=30, clock=clock), Gate()
    for number in range(3):
        box.put(str(number), gate)
    with Running(Consumer(box, Options(clock=clock))):
        for count in range(1, 5):
            parked(clock)
            clock.advance(10)
            box.wait_for_extensions(count)
        gate.may_end.set()
        eventually(box.is_empty)
    assert box.calls.extensions == [["0", "1", "2"]] * 4
    assert box.calls.refusals == []


def test_a_short_outage_of_renewals_loses_nothing() -> None:
    clock = FakeClock()
    box, gate = Box(lease_s=30, clock=clock), Gate()
    box.put("first", gate)
    consumer = Consumer(box, Options(clock=clock, concurrency=1))
    with Running(consumer):
        gate.wait_for_begin()
        box.is_out = True
        parked(clock)
        clock.advance(10)
        parked(clock)
        clock.advance(5)
        box.is_out = False
        while not box.calls.extensions:
            parked(clock)
            clock.advance(1)
        gate.may_end.set()
        eventually(box.is_empty)
    assert box.end_of("first") == End("done", "done")
    assert consumer.leases_lost == 0


def test_a_lease_that_lapses_in_an_outage_cancels_the_attempt() -> None:
    """Nobody can say whether others have begun, so this one must end."""
    clock = FakeClock()
    box = Box(lease_s=30, clock=clock)
    has_begun, is_cancelled = threading.Event(), threading.Event()

    def look(attempt: Attempt) -> None:
        has_begun.set()
        assert attempt.cancellation.wait(PATIENCE_S)
        is_cancelled.set()

    box.put("first", look)
    consumer = Consumer(box, Options(clock=clock, concurrency=1))
    with Running(consumer):
        assert has_begun.wait(PATIENCE_S)
        box.is_out = True
        while not is_cancelled.is_set() and clock.monotonic() < 60:
            parked(clock)
            clock.advance(1)
        assert is_cancelled.wait(PATIENCE_S)
        assert clock.monotonic() >= 30
        eventually(lambda: consumer.leases_lost == 1)
        box.put("first")  # whatever becomes of it
        box.is_out = False


def test_a_lease_that_lapses_while_its_renewal_hangs_cancels_the_attempt() -> None:
    clock = FakeClock()
    is_asked, may_answer = threading.Event(), threading.Event()

    class HangingBox(Box):
        def extend(self, works: Sequence[Piece]) -> Sequence[bool]:
            is_asked.set()
            assert may_answer.wait(PATIENCE_S)
            return super().extend(works)

    box, gate = HangingBox(lease_s=30, clock=clock), Gate()
    box.put("first", gate)
    consumer = Consumer(box, Options(clock=clock, concurrency=1))
    with Running(consumer):
        gate.wait_for_begin()
        parked(clock)
        clock.advance(10)
        assert is_asked.wait(PATIENCE_S)
        clock.wait_for_waiters(3)  # all but the keeper
        clock.advance(20)
        eventually(lambda: consumer.leases_lost == 1)
        may_answer.set()
        gate.may_end.set()


def test_a_keeper_survives_whatever_the_source_raises() -> None:
    clock = FakeClock()
    box, gate = Box(lease_s=30, clock=clock), Gate()
    box.put("first", gate)
    with Running(Consumer(box, Options(clock=clock, concurrency=1))):
        gate.wait_for_begin()
        box.faults["extend"] = ValueError("a defect")
        parked(clock)
        clock.advance(10)
        eventually(lambda: "extend" not in box.faults)
        while not box.calls.extensions:
            parked(clock)
            clock.advance(1)
        gate.may_end.set()
        eventually(box.is_empty)


def test_the_same_piece_claimed_again_is_another_attempt() -> None:
    """A lost attempt whose thread hangs must not disturb the next one, even in this process."""
    clock = FakeClock()
    box = Box(lease_s=30, clock=clock)
    gates = [Gate(), Gate()]
    pieces: list[Piece] = []

    def work(attempt: Attempt) -> str:
        pieces.append(attempt.work)
        return f"{gates[len(pieces) - 1](attempt)} {len(pieces)}"

    box.put("first", work)
    consumer = Consumer(box, Options(clock=clock, concurrency=1))
    with Running(consumer):
        gates[0].wait_for_begin()
        box.release([pieces[0]])  # as an operator would
        parked(clock)
        clock.advance(10)
        gates[1].wait_for_begin()
        gates[0].may_end.set()
        gates[1].may_end.set()
        eventually(box.is_empty)
    assert box.calls.refusals == []
    assert pieces[0].fence < pieces[1].fence
