"""What a consumer does with work while all is well."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.work.box import Box, End, Piece, Settled
from tests.work.running import PATIENCE_S, Gate, Running, eventually, parked

from afl.clock import FakeClock
from afl.errors import ConfigurationError
from afl.runtime.heartbeat import Heartbeat
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Options
from afl.work.event_loop import shared_loop
from afl.work.source import NO_ROOM, InProcess, InThread, Job, OnLoop, Room


class Told:
    """An observer that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, BaseException | None]] = []

    def began(self, work: Piece, attempt: Attempt) -> None:
        self.heard.append(("began", work.id, None))

    def ended(self, work: Piece, attempt: Attempt, error: BaseException | None) -> None:
        self.heard.append(("ended", work.id, error))

    def lost(self, work: Piece, attempt: Attempt) -> None:
        self.heard.append(("lost", work.id, None))


async def wait_a_moment(_attempt: Attempt) -> str:
    await asyncio.sleep(0)
    return "waited"


def test_work_of_every_kind_is_done_and_recorded() -> None:
    box = Box()
    said: list[tuple[str, Any]] = []
    target = "tests.work.targets:echo"
    box.put("thread", lambda _attempt: "ran")
    box.put("loop", Job(OnLoop(wait_a_moment)))
    box.put("process", Job(InProcess(target, [1, 2], lambda _a, *what: said.append(what))))
    with Running(Consumer(box)):
        eventually(box.is_empty)
    assert box.ends() == {
        "thread": End("done", "ran"),
        "loop": End("done", "waited"),
        "process": End("done", {"echoed": [1, 2]}),
    }
    assert said == [("saw", 1), ("saw", 2)]


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_what_work_raises_is_its_end_and_nothing_else(raised: BaseException) -> None:
    box = Box()

    def fail(_attempt: Attempt) -> None:
        raise raised

    async def fail_later(_attempt: Attempt) -> None:
        raise raised

    box.put("thread", fail)
    box.put("loop", Job(OnLoop(fail_later)))
    with Running(Consumer(box)):
        eventually(box.is_empty)
        box.put("after")
        eventually(box.is_empty)
    assert box.end_of("thread") == End("failed", raised)
    assert box.end_of("loop") == End("failed", raised)
    assert box.end_of("after") == End("done", None)


def test_what_a_task_of_a_handler_raises_does_not_end_the_shared_loop() -> None:
    async def leave(_attempt: Attempt) -> None:
        async def exit_process() -> None:
            raise SystemExit(3)

        await asyncio.gather(asyncio.create_task(exit_process()))

    box = Box()
    box.put("leaves", Job(OnLoop(leave)))
    box.put("stays", Job(OnLoop(wait_a_moment)))
    with Running(Consumer(box)):
        eventually(lambda: box.end_of("stays") and box.end_of("leaves"))
    end = box.end_of("leaves")
    assert end is not None
    assert end.kind == "failed"


def test_work_that_comes_later_is_done_at_once() -> None:
    box = Box()
    with Running(Consumer(box, Options(poll_interval_s=3600))):
        eventually(lambda: box.calls.waits)
        box.put("late")
        eventually(box.is_empty)


def test_no_more_is_in_hand_than_may_be() -> None:
    box, gates = Box(), [Gate() for _ in range(6)]
    for number, gate in enumerate(gates):
        box.put(str(number), gate)
    consumer = Consumer(box, Options(concurrency=3))
    with Running(consumer):
        for gate in gates[:3]:
            gate.wait_for_begin()
        assert consumer.in_flight == 3
        assert [each.work.id for each in consumer.attempts()] == ["0", "1", "2"]
        gates[1].may_end.set()
        gates[3].wait_for_begin()
        assert not gates[4].has_begun.is_set()
        for gate in gates:
            gate.may_end.set()
        eventually(box.is_empty)
    assert consumer.in_flight == 0


def test_work_waits_for_a_thread_where_threads_are_fewer_than_slots() -> None:
    box, gates = Box(), [Gate() for _ in range(3)]
    for number, gate in enumerate(gates):
        box.put(str(number), gate)
    consumer = Consumer(box, Options(concurrency=3, threads=1))
    with Running(consumer):
        for gate in gates:
            gate.wait_for_begin()
            assert sum(each.is_running for each in consumer.attempts()) == 1
            gate.may_end.set()
        eventually(box.is_empty)


def test_a_result_brings_what_it_makes_possible() -> None:
    box = Box()
    box.put("first", then=["second"])
    box.put("second", then=["third"], is_held=True)
    box.put("third", is_held=True)
    with Running(Consumer(box, Options(poll_interval_s=3600))):
        eventually(lambda: box.end_of("third"))
    assert box.claims_of("second") == 1


def test_who_is_full_is_given_what_waits_along_with_a_result() -> None:
    box = Box()
    for number in range(5):
        box.put(str(number))
    with Running(Consumer(box, Options(concurrency=1, poll_interval_s=3600))):
        eventually(box.is_empty)
        eventually(lambda: box.calls.waits)
    assert box.calls.rooms == [Room(1, is_last=True)] * 5
    assert box.calls.claims == [1, 1], "the first one, and when nothing came along any more"
    assert [box.claims_of(str(each)) for each in range(5)] == [1] * 5


def test_who_is_full_asks_by_itself_from_time_to_time() -> None:
    """What others have abandoned does not come along with results."""
    clock = FakeClock()
    box = Box(lease_s=15.0, clock=clock)
    box.put("first", lambda _attempt: clock.advance(6))
    box.put("second")
    with Running(Consumer(box, Options(concurrency=1, clock=clock))):
        eventually(box.is_empty)
    assert box.calls.rooms == [Room(1, is_last=False), Room(1, is_last=True)]
    assert box.calls.claims[:2] == [1, 1]


def test_who_has_other_places_asks_for_what_waits_by_itself() -> None:
    box = Box()
    box.put("only")
    with Running(Consumer(box, Options(concurrency=2))):
        eventually(box.is_empty)
    assert box.calls.rooms == [Room(1, is_last=False)]


def test_who_stops_is_given_nothing_along() -> None:
    box, gate = Box(), Gate()
    box.put("first", gate)
    box.put("second")
    consumer = Consumer(box, Options(concurrency=1))
    with Running(consumer) as running:
        gate.wait_for_begin()
        running.stop.set()
        gate.may_end.set()
        eventually(lambda: box.end_of("first"))
    assert box.calls.rooms == [NO_ROOM]
    assert box.claims_of("second") == 0


def test_the_observer_hears_of_begin_and_recorded_end() -> None:
    box, told, error = Box(), Told(), ValueError("no")

    def fail(_attempt: Attempt) -> None:
        raise error

    box.put("fails", fail)
    with Running(Consumer(box, observer=told)):
        eventually(lambda: len(told.heard) == 2)
    assert told.heard == [("began", "fails", None), ("ended", "fails", error)]


def test_an_observer_that_fails_disturbs_nobody() -> None:
    class Broken(Told):
        def began(self, work: Piece, attempt: Attempt) -> None:
            raise ValueError("began")

        def ended(self, work: Piece, attempt: Attempt, error: BaseException | None) -> None:
            raise ValueError("ended")

    box = Box()
    for number in range(10):
        box.put(str(number))
    with Running(Consumer(box, observer=Broken())):
        eventually(box.is_empty)
    assert all(end == End("done", None) for end in box.ends().values())


def test_what_the_source_says_instead_of_a_job_is_the_failure_of_the_work() -> None:
    box, error = Box(), ValueError("nobody can do this")
    box.faults["job"] = error
    box.put("first")
    box.put("second")
    with Running(Consumer(box)):
        eventually(box.is_empty)
    assert box.end_of("first") == End("failed", error)
    assert box.end_of("second") == End("done", None)


def test_a_result_that_the_source_cannot_take_is_a_failure() -> None:
    box, error = Box(), ValueError("this is no JSON")
    box.faults["complete"] = error
    box.put("first")
    with Running(Consumer(box)):
        eventually(box.is_empty)
    assert box.end_of("first") == End("failed", error)


class Picky(Box):
    """Takes no failure, of whatever kind."""

    fails_refused = 0

    def fail(self, work: Piece, error: BaseException) -> Settled:
        self.fails_refused += 1
        raise ValueError("nor is this")


def test_an_end_that_the_source_cannot_take_at_all_ends_nothing_else() -> None:
    box = Picky(lease_s=0.05)
    box.faults = {"complete": ValueError("this is no JSON")}
    box.put("first")
    with Running(Consumer(box)):
        eventually(box.is_empty)  # it comes back when its lease has lapsed
    assert box.end_of("first") == End("done", None)
    assert box.fails_refused == 2, "once as it is, and once as a plain one"


def test_a_run_ends_after_its_polls_and_with_what_they_brought() -> None:
    box, gate = Box(), Gate()
    box.put("first", gate, then=["second"])
    box.put("second", is_held=True)
    with Running(Consumer(box), max_iterations=1) as running:
        gate.wait_for_begin()
        assert not running.has_ended.is_set()
        gate.may_end.set()
        running.join()
    assert box.end_of("first") == End("done", "done")
    assert box.waiting() == ["second"]
    assert len(box.calls.claims) == 1


def test_a_consumer_can_run_again() -> None:
    box = Box()
    consumer = Consumer(box)
    for number in range(3):
        box.put(str(number))
        with Running(consumer):
            eventually(box.is_empty)


def test_errors_of_the_source_come_out_when_all_is_at_rest() -> None:
    box, gate, error = Box(), Gate(), ValueError("a defect")
    box.put("first", gate)
    consumer = Consumer(box, Options(concurrency=2))
    with Running(consumer) as running:
        gate.wait_for_begin()
        eventually(lambda: box.calls.waits)
        box.faults["claim"] = error
        box.put("second")
        eventually(lambda: "claim" not in box.faults)
        assert not running.has_ended.is_set()
        gate.may_end.set()
        running.join()
        assert running.error is error
    assert box.end_of("first") == End("done", "done")
    assert box.waiting() == ["second"]


def test_a_notice_makes_it_look_again() -> None:
    box = Box()
    consumer = Consumer(box, Options(poll_interval_s=3600))
    with Running(consumer):
        eventually(lambda: box.calls.waits == 1)
        consumer.notify()
        eventually(lambda: len(box.calls.claims) == 2)


def test_signs_of_work_are_progress() -> None:
    box, may_end = Box(), threading.Event()

    def work(attempt: Attempt) -> int:
        attempt.beat()
        may_end.wait(10)
        return attempt.signs

    box.put("first", work)
    consumer = Consumer(box)
    with Running(consumer):
        eventually(lambda: consumer.progress >= 2)
        before = consumer.progress
        may_end.set()
        eventually(lambda: consumer.progress > before)
        eventually(box.is_empty)
    assert box.end_of("first") == End("done", 1)


def test_round_trips_and_ends_are_beats() -> None:
    beats: list[None] = []
    heartbeat = Heartbeat()
    heartbeat.add_callback(lambda: beats.append(None))
    box = Box()
    with Running(Consumer(box, Options(heartbeat=heartbeat))):
        eventually(lambda: beats)
        count = len(beats)
        box.put("first")
        eventually(lambda: len(beats) >= count + 2)


def test_a_blocked_event_loop_does_not_look_alive() -> None:
    """Beats go through the shared loop while it has work, so a handler that blocks it stops
    them; the thread that polls goes on."""
    heartbeat = Heartbeat()
    box, gate = Box(), Gate()

    async def block(attempt: Attempt) -> None:
        gate(attempt)

    box.put("blocks", Job(OnLoop(block)))
    options = Options(heartbeat=heartbeat, poll_interval_s=0.005)
    beats: list[None] = []
    with Running(Consumer(box, options)):
        gate.wait_for_begin()
        heartbeat.add_callback(lambda: beats.append(None))
        polls = len(box.calls.claims)
        eventually(lambda: len(box.calls.claims) > polls + 5)
        # One that was on its way may have come; the polls since then brought none.
        assert len(beats) <= 1
        gate.may_end.set()
        eventually(lambda: len(beats) > 1)


def full(clock: FakeClock, heartbeat: Heartbeat, how: Job) -> Consumer[Piece]:
    """One whose slots are all taken by such work, and who looks every 5 seconds."""
    box = Box(lease_s=3600, clock=clock)
    box.put("takes all", how)
    options = Options(concurrency=1, heartbeat=heartbeat, poll_interval_s=5, clock=clock)
    return Consumer(box, options)


def test_calls_that_wait_in_all_slots_are_no_silence() -> None:
    """Thousands may wait there for minutes, and nothing hangs."""
    clock, has_begun, may_end = FakeClock(), threading.Event(), asyncio.Event()
    heartbeat = Heartbeat(clock)

    async def wait(_attempt: Attempt) -> None:
        has_begun.set()
        await may_end.wait()

    with Running(full(clock, heartbeat, Job(OnLoop(wait)))):
        assert has_begun.wait(PATIENCE_S)
        for _ in range(3):
            parked(clock)
            clock.advance(5)
            eventually(lambda: heartbeat.elapsed() == 0)
        shared_loop().call_soon(may_end.set)


@pytest.mark.parametrize("place", ["thread", "loop"])
def test_work_that_blocks_all_that_there_is_gives_no_sign_of_life(place: str) -> None:
    clock, gate = FakeClock(), Gate()
    heartbeat = Heartbeat(clock)

    async def block(attempt: Attempt) -> None:
        gate(attempt)

    how = InThread(gate) if place == "thread" else OnLoop(block)
    with Running(full(clock, heartbeat, Job(how))):
        gate.wait_for_begin()
        for _ in range(3):
            parked(clock)
            clock.advance(5)
        parked(clock)
        assert heartbeat.elapsed() == 15
        gate.may_end.set()


def test_a_loop_that_only_others_use_says_nothing_about_a_consumer() -> None:
    heartbeat, box, gate = Heartbeat(), Box(), Gate()
    box.put("waits", Job(OnLoop(wait_a_moment)))
    consumer = Consumer(box, Options(heartbeat=heartbeat, poll_interval_s=0.005))
    beats: list[None] = []
    with Running(consumer):
        eventually(box.is_empty)
        eventually(lambda: consumer.in_flight == 0)
        shared_loop().call_soon(lambda: gate(None))
        gate.wait_for_begin()
        heartbeat.add_callback(lambda: beats.append(None))
        eventually(lambda: len(beats) > 3)
        gate.may_end.set()


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"threads": 0}, {"poll_interval_s": 0.0}])
def test_numbers_with_which_nothing_is_done_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        Options(**options)
