"""Keeping claims."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from tests.work.box import Box, Piece
from tests.work.running import PATIENCE_S, eventually

from afl.clock import FakeClock
from afl.work.attempts import Attempt
from afl.work.leases import LeaseKeeper


class Kept:
    """A box with two claims, and who keeps them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.box = Box(lease_s=30, clock=self.clock)
        self.box.put("one")
        self.box.put("two")
        self.held = [Attempt(each, self.clock) for each in self.box.claim(2)]
        self.lost: list[Attempt] = []
        self.keeper = LeaseKeeper(self.box, lambda: self.held, self.lost.append, self.clock)


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_a_round_renews_all_and_remembers_when_it_asked(kept: Kept) -> None:
    kept.clock.advance(7)
    assert kept.keeper.renew() == 10
    assert kept.box.calls.extensions == [["one", "two"]]
    assert [each.renewed_at for each in kept.held] == [7, 7]


def test_who_is_lost_is_told(kept: Kept) -> None:
    kept.box.steal("one")
    kept.keeper.renew()
    assert kept.lost == [kept.held[0]]


def test_nothing_is_asked_for_nothing(kept: Kept) -> None:
    kept.held = []
    assert kept.keeper.renew() == 10
    assert kept.box.calls.extensions == []


def test_in_an_outage_it_tries_soon_then_ever_more_rarely_but_never_more_rarely_than_usual(
    kept: Kept,
) -> None:
    kept.box.is_out = True
    pauses = [kept.keeper.renew() for _ in range(8)]
    assert pauses == [0.5, 1, 2, 4, 8, 10, 10, 10]
    kept.box.is_out = False
    assert kept.keeper.renew() == 10
    kept.box.is_out = True
    assert kept.keeper.renew() == 0.5


def test_a_lease_that_lapses_unrenewed_is_lost(kept: Kept) -> None:
    kept.box.is_out = True
    kept.clock.advance(29)
    kept.keeper.renew()
    assert kept.lost == []
    kept.clock.advance(1)
    kept.keeper.renew()
    assert kept.lost == kept.held


def test_a_renewal_that_hangs_loses_what_lapses_meanwhile(kept: Kept) -> None:
    """Others may claim it by now, and nobody can say when the source answers."""
    may_answer = threading.Event()
    extend = kept.box.extend

    def hang(works: Sequence[Piece]) -> Sequence[bool]:
        assert may_answer.wait(PATIENCE_S)
        return extend(works)

    kept.box.extend = hang  # type: ignore[method-assign]
    assert kept.keeper.next_lapse(kept.held) == 30
    asking = threading.Thread(target=kept.keeper.renew)
    kept.clock.advance(15)
    asking.start()
    eventually(lambda: kept.keeper.next_lapse(kept.held) == 30)
    kept.clock.advance(14)
    assert kept.keeper.lapsed(kept.held) == []
    kept.clock.advance(1)
    assert kept.keeper.lapsed(kept.held) == kept.held
    may_answer.set()
    asking.join(PATIENCE_S)
    assert kept.keeper.lapsed(kept.held) == []


def test_claims_whose_answer_came_late_are_renewed_at_once(kept: Kept) -> None:
    """Most of their lease may be over by then."""
    kept.keeper.start()
    try:
        kept.clock.wait_for_waiters(1)
        asked_at = kept.clock.monotonic()
        kept.keeper.hold(asked_at)
        kept.clock.advance(9.9)
        kept.keeper.hold(asked_at)
        assert kept.box.calls.extensions == []
        kept.keeper.hold(asked_at - 1)
        kept.box.wait_for_extensions(1)
    finally:
        kept.keeper.stop(PATIENCE_S)


def test_what_has_ended_does_not_lapse(kept: Kept) -> None:
    for each in kept.held:
        each.finish()
    assert kept.keeper.next_lapse(kept.held) is None


def test_after_a_long_sleep_the_source_is_asked_before_anything_is_given_up(kept: Kept) -> None:
    """A process that was frozen may still hold its claims: nobody wanted them."""
    kept.clock.advance(3600)
    kept.keeper.renew()
    assert kept.lost == []


def test_a_source_that_answers_for_too_few_has_renewed_none(kept: Kept) -> None:
    kept.box.extend = lambda works: [True] * (len(works) - 1)  # type: ignore[method-assign]
    kept.clock.advance(7)
    assert kept.keeper.renew() == 0.5
    assert [each.renewed_at for each in kept.held] == [0, 0]


def test_its_thread_outlives_whatever_is_raised_by_those_who_hear_of_a_loss(kept: Kept) -> None:
    """Without it, the leases of all others would lapse."""

    def refuse(attempt: Attempt) -> None:
        kept.lost.append(attempt)
        raise PermissionError("not yours")

    keeper = LeaseKeeper(kept.box, lambda: kept.held, refuse, kept.clock)
    kept.box.steal("one")
    keeper.start()
    for count in (1, 2, 3):
        kept.clock.wait_for_waiters(1)
        kept.clock.advance(10)
        kept.box.wait_for_extensions(count)
    keeper.stop(PATIENCE_S)
    assert len(kept.lost) == 3


def test_its_thread_renews_until_it_is_stopped(kept: Kept) -> None:
    kept.keeper.start()
    for count in (1, 2, 3):
        kept.clock.wait_for_waiters(1)
        kept.clock.advance(10)
        kept.box.wait_for_extensions(count)
    kept.keeper.stop(PATIENCE_S)
    eventually(lambda: kept.clock.waiters == 0)
