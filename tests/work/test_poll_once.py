"""One poll on the thread of the caller."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.work.box import Box, End
from tests.work.test_consumer import Told

from afl.clock import FakeClock
from afl.errors import StoreUnavailable
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Options
from afl.work.errors import TimedOut
from afl.work.source import InProcess, Job, OnLoop


def test_it_does_what_it_claims_in_order_and_starts_no_thread() -> None:
    box = Box()
    seen: list[tuple[str, int]] = []
    before = set(threading.enumerate())

    def note(attempt: Attempt) -> None:
        seen.append((attempt.work.id, threading.get_ident()))
        assert before.issuperset(threading.enumerate())

    async def note_later(attempt: Attempt) -> None:
        await asyncio.sleep(0)
        note(attempt)

    box.put("first", note)
    box.put("second", Job(OnLoop(note_later)))
    box.put("third", note)
    consumer = Consumer(box, Options(concurrency=2))
    assert [consumer.poll_once() for _ in range(3)] == [2, 1, 0]
    me = threading.get_ident()
    assert seen == [("first", me), ("second", me), ("third", me)]
    assert box.is_empty()
    assert before.issuperset(threading.enumerate())


def test_what_a_result_makes_possible_is_for_the_next_poll() -> None:
    box = Box()
    box.put("first", then=["second"])
    box.put("second", is_held=True)
    consumer = Consumer(box)
    assert consumer.poll_once() == 1
    assert box.waiting() == ["second"]


def test_work_in_a_process_is_done_too() -> None:
    box = Box()
    echo = InProcess("tests.work.targets:echo", [1], lambda *_anything: None)
    box.put("first", Job(echo))
    assert Consumer(box).poll_once() == 1
    assert box.end_of("first") == End("done", {"echoed": [1]})


def test_errors_are_recorded_and_the_rest_is_done() -> None:
    box, told, error = Box(), Told(), SystemExit(1)

    def fail(_attempt: Attempt) -> None:
        raise error

    box.put("fails", fail)
    box.put("works")
    assert Consumer(box, observer=told).poll_once() == 2
    assert box.end_of("fails") == End("failed", error)
    assert box.end_of("works") == End("done", None)
    assert told.heard[1] == ("ended", "fails", error)


def test_what_took_too_long_is_failed_after_it() -> None:
    clock = FakeClock()
    box = Box(lease_s=100, clock=clock)
    box.put("slow", lambda _attempt: clock.advance(5), timeout_s=4)
    Consumer(box, Options(clock=clock)).poll_once()
    end = box.end_of("slow")
    assert end is not None
    assert isinstance(end.value, TimedOut)
    assert str(end.value) == "piece slow took longer than 4s"


def test_leases_are_renewed_between_pieces_and_at_signs_of_progress() -> None:
    clock = FakeClock()
    box = Box(lease_s=30, clock=clock)

    def long(attempt: Attempt) -> None:
        for _ in range(10):
            clock.advance(11)
            attempt.beat()

    box.put("first", long)
    box.put("second")
    consumer = Consumer(box, Options(clock=clock))
    assert consumer.poll_once() == 2
    assert box.calls.extensions[0] == ["first", "second"]
    assert box.claims_of("second") == 1
    assert box.is_empty()


def test_a_claim_that_was_lost_meanwhile_is_not_begun() -> None:
    clock = FakeClock()
    box = Box(lease_s=30, clock=clock)

    def long(_attempt: Attempt) -> None:
        clock.advance(31)
        box.steal("second")

    box.put("first", long)
    box.put("second", lambda _attempt: pytest.fail("it is somebody else's"))
    consumer = Consumer(box, Options(clock=clock))
    assert consumer.poll_once() == 2
    assert consumer.leases_lost == 1
    assert box.end_of("second") is None


def test_a_result_whose_claim_is_lost_is_dropped() -> None:
    box = Box()
    box.put("first", lambda attempt: box.steal(attempt.work.id))
    consumer = Consumer(box)
    consumer.poll_once()
    assert consumer.leases_lost == 1
    assert box.end_of("first") is None


def test_a_short_outage_is_waited_for() -> None:
    box = Box()
    box.put("first")
    box.faults["complete"] = StoreUnavailable("for a moment")
    assert Consumer(box).poll_once() == 1
    assert box.end_of("first") == End("done", None)


def test_a_long_outage_comes_out() -> None:
    box = Box(lease_s=0.01)

    def cut(_attempt: Attempt) -> None:
        box.is_out = True

    box.put("first", cut)
    with pytest.raises(StoreUnavailable):
        Consumer(box).poll_once()


def test_an_interrupt_is_for_the_caller_and_all_is_given_back() -> None:
    box = Box()

    def interrupt(_attempt: Attempt) -> None:
        raise KeyboardInterrupt

    box.put("first", interrupt)
    box.put("second")
    with pytest.raises(KeyboardInterrupt):
        Consumer(box).poll_once()
    assert box.waiting() == ["first", "second"]


def test_what_the_source_cannot_take_is_a_failure() -> None:
    box, error = Box(), ValueError("no JSON")
    box.put("first")
    box.faults["complete"] = error
    Consumer(box).poll_once()
    assert box.end_of("first") == End("failed", error)


def test_a_failure_that_the_source_cannot_take_is_a_plain_one() -> None:
    box, told = Box(), Told()

    def fail(_attempt: Attempt) -> None:
        raise LookupError("odd")

    box.put("first", fail)
    box.faults["fail"] = ValueError("no JSON")
    Consumer(box, observer=told).poll_once()
    end = box.end_of("first")
    assert end is not None
    assert str(end.value) == "it raised LookupError, which cannot be recorded as it is: no JSON"
    assert told.heard[-1] == ("ended", "first", end.value)


def test_what_cannot_be_recorded_at_all_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box()

    def refuse(*_anything: object) -> None:
        raise ValueError("never")

    monkeypatch.setattr(box, "complete", refuse)
    monkeypatch.setattr(box, "fail", refuse)
    box.put("first")
    assert Consumer(box).poll_once() == 1
    assert box.end_of("first") is None
