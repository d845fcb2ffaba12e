"""Recording ends without keeping those who did the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.work.box import Box, End, Piece
from tests.work.running import PATIENCE_S, eventually

from afl.clock import FakeClock
from afl.errors import StoreClosed, StoreUnavailable
from afl.work.attempts import Attempt
from afl.work.recorder import Ending, Recorder
from afl.work.source import ClaimLost, Room


class Heard:
    """What a recorder says about ends."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.further: list[Piece] = []
        self.reasons: list[Exception] = []

    def room(self) -> Room:
        return Room(1, is_last=False)

    def recorded(self, ending: Ending, further: Sequence[Any]) -> None:
        self.said.append(("recorded", ending.attempt.work.id))
        self.further.extend(further)

    def refused(self, ending: Ending, reason: Exception) -> None:
        self.said.append(("refused", ending.attempt.work.id))
        self.reasons.append(reason)

    def closed(self, ending: Ending, reason: StoreClosed) -> None:
        self.said.append(("closed", ending.attempt.work.id))


class PassingClock(FakeClock):
    """Some time passes between any two looks at it, as on a busy machine."""

    passed_s = 0.0

    def monotonic(self) -> float:
        self.passed_s += 0.001
        return super().monotonic() + self.passed_s


class Bench:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.box = Box(clock=self.clock)
        self.heard = Heard()
        self.recorder = Recorder(self.box, self.heard, self.clock)

    def ending(self, name: str, **how: Any) -> Ending:
        self.box.put(name)
        (piece,) = self.box.claim(1)
        return Ending(Attempt(piece, self.clock), **how)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def bench(clock: FakeClock) -> Iterator[Bench]:
    bench = Bench(clock)
    bench.recorder.start()
    yield bench
    bench.box.is_slow = False
    bench.box.settle()
    bench.recorder.stop(PATIENCE_S)


def test_ends_are_settled_in_their_order(bench: Bench) -> None:
    names = [str(number) for number in range(50)]
    for each in names:
        bench.recorder.put(bench.ending(each))
    eventually(lambda: len(bench.heard.said) == 50)
    assert bench.heard.said == [("recorded", each) for each in names]


def test_all_that_wait_are_written_before_the_first_is_waited_for(bench: Bench) -> None:
    """So that they share a commit."""
    bench.box.is_slow = True
    bench.recorder.put(bench.ending("first"))
    eventually(lambda: bench.box.unsettled == 1)
    for number in range(4):
        bench.recorder.put(bench.ending(str(number)))
    bench.box.settle()
    eventually(lambda: bench.box.unsettled == 4)
    assert bench.heard.said == [("recorded", "first")]


def test_what_comes_along_is_handed_on(bench: Bench) -> None:
    ending = bench.ending("first")
    bench.box.put("second", is_held=True)
    bench.box.follow("first", "second")
    bench.recorder.put(ending)
    eventually(lambda: bench.heard.further)
    assert bench.heard.further == [Piece("second", 1)]


def test_who_writes_may_wait_for_it_and_leaves_what_takes_long(bench: Bench) -> None:
    first, second = bench.ending("first"), bench.ending("second")
    assert bench.recorder.write(first)
    bench.recorder.settle(first)
    assert bench.heard.said == [("recorded", "first")]
    bench.box.is_slow = True
    assert bench.recorder.write(second)
    bench.recorder.settle(second, 0.0)
    assert len(bench.heard.said) == 1
    bench.box.settle()
    eventually(lambda: len(bench.heard.said) == 2)


def test_what_cannot_be_written_now_is_tried_again_and_keeps_nobody(bench: Bench) -> None:
    stuck, other = bench.ending("stuck"), bench.ending("other")
    bench.box.faults["complete"] = StoreUnavailable("for a moment")
    assert not bench.recorder.write(stuck)
    bench.recorder.put(other)
    eventually(lambda: bench.heard.said == [("recorded", "other")])
    bench.clock.wait_for_waiters(1)
    bench.clock.advance(0.05)
    eventually(lambda: len(bench.heard.said) == 2)
    assert bench.box.end_of("stuck") == End("done", None)


@pytest.mark.parametrize("clock", [PassingClock()])
def test_what_falls_due_while_others_are_looked_at_is_not_forgotten(bench: Bench) -> None:
    """Its claim would be kept for as long as the worker lives, and nobody would do it."""
    names = [str(number) for number in range(50)]
    for each in names:
        bench.box.faults["complete"] = StoreUnavailable("for a moment")
        assert not bench.recorder.write(bench.ending(each))

    def are_all_recorded() -> bool:
        bench.clock.advance(0.01)
        return len(bench.heard.said) == len(names)

    eventually(are_all_recorded)
    assert sorted(bench.heard.said) == sorted(("recorded", each) for each in names)


def test_a_lost_claim_is_refused(bench: Bench) -> None:
    ending = bench.ending("first")
    bench.box.steal("first")
    bench.recorder.put(ending)
    eventually(lambda: bench.heard.said == [("refused", "first")])
    assert isinstance(bench.heard.reasons[0], ClaimLost)


def test_a_result_that_cannot_be_taken_is_recorded_as_a_failure(bench: Bench) -> None:
    error = ValueError("no JSON")
    bench.box.faults["complete"] = error
    bench.recorder.put(bench.ending("first"))
    eventually(lambda: bench.heard.said == [("recorded", "first")])
    assert bench.box.end_of("first") == End("failed", error)


@pytest.mark.parametrize("fault", ["fail", "record"])
def test_a_failure_that_cannot_be_taken_is_recorded_as_a_plain_one(
    bench: Bench, fault: str
) -> None:
    """What ends unrecorded is done again."""
    error = LookupError("odd")
    bench.box.faults[fault] = ValueError("no JSON")
    bench.recorder.put(bench.ending("first", error=error))
    eventually(lambda: bench.heard.said == [("recorded", "first")])
    end = bench.box.end_of("first")
    assert end is not None
    assert str(end.value) == "it raised LookupError, which cannot be recorded as it is: no JSON"
    assert end.value.__cause__ is error


def test_a_result_whose_problem_cannot_be_taken_either_is_a_plain_failure(bench: Bench) -> None:
    bench.box.faults.update(complete=ValueError("no JSON"), fail=ValueError("not that either"))
    bench.recorder.put(bench.ending("first"))
    eventually(lambda: bench.heard.said == [("recorded", "first")])
    end = bench.box.end_of("first")
    assert end is not None
    assert "it raised ValueError, which cannot be recorded" in str(end.value)


def test_a_plain_failure_is_tried_again_after_an_outage(bench: Bench) -> None:
    ending = bench.ending("first", error=LookupError("odd"))
    bench.box.faults["fail"] = ValueError("no JSON")
    bench.box.faults["record"] = StoreUnavailable("for a moment")
    assert not bench.recorder.write(ending)
    eventually(lambda: ending.tries == 1)
    bench.clock.wait_for_waiters(1)
    bench.clock.advance(0.05)
    eventually(lambda: bench.heard.said == [("recorded", "first")])


def test_what_cannot_be_recorded_at_all_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_anything: object) -> None:
        raise ValueError("never")

    monkeypatch.setattr(bench.box, "fail", refuse)
    bench.recorder.put(bench.ending("first", error=ValueError("no")))
    eventually(lambda: bench.heard.said == [("refused", "first")])
    assert str(bench.heard.reasons[0]) == "never"


def test_a_failure_whose_claim_is_lost_is_not_recorded_in_another_way(bench: Bench) -> None:
    ending = bench.ending("first", error=ValueError("no"))
    bench.box.steal("first")
    bench.recorder.put(ending)
    eventually(lambda: bench.heard.said == [("refused", "first")])
    assert bench.box.calls.refusals == ["first"]


def test_a_closed_source_is_told(bench: Bench) -> None:
    bench.box.faults["complete"] = StoreClosed("closed")
    bench.recorder.put(bench.ending("first"))
    eventually(lambda: bench.heard.said == [("closed", "first")])


def test_what_hears_of_ends_and_fails_does_not_end_the_recorder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_anything: object) -> None:
        raise ValueError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(bench.heard, "recorded", fail)
        bench.recorder.put(bench.ending("first"))
        eventually(lambda: bench.box.end_of("first"))
        bench.clock.wait_for_waiters(1)
    bench.recorder.put(bench.ending("second"))
    eventually(lambda: bench.heard.said == [("recorded", "second")])
