"""Deadlines, and budgets of turns."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from afl.agents.budget import Price
from afl.agents.deadline import Deadline, DeadlineExceeded, earliest
from afl.agents.turn_budget import TurnBudget
from afl.clock import FakeClock
from afl.errors import UsageError


def test_a_deadline_knows_what_is_left_and_what_has_gone() -> None:
    clock = FakeClock()
    deadline = Deadline.after(10, clock=clock)
    clock.advance(4)
    assert (deadline.remaining(clock), deadline.elapsed(clock)) == (6, 4)
    assert deadline.require_rest(clock) == 6
    clock.advance(7)
    assert deadline.remaining(clock) == 0
    with pytest.raises(DeadlineExceeded, match="is over"):
        deadline.require_rest(clock)


@pytest.mark.parametrize(
    ("expires_at", "reason"),
    [
        (datetime(2030, 1, 1), "needs a time zone"),  # noqa: DTZ001
        (datetime(2023, 1, 1, tzinfo=UTC), "leaves less than a second"),
        (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(milliseconds=900), "less than a second"),
    ],
    ids=["naive", "past", "now"],
)
def test_a_deadline_that_makes_no_sense_is_refused(expires_at: datetime, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Deadline.create(expires_at, clock=FakeClock())


def test_a_deadline_travels_as_json() -> None:
    clock = FakeClock()
    deadline = Deadline.create(clock.now() + timedelta(minutes=1), clock=clock)
    assert msgspec.json.decode(msgspec.json.encode(deadline), type=Deadline) == deadline


def test_the_earliest_deadline_holds() -> None:
    clock = FakeClock()
    soon, late = Deadline.after(1, clock=clock), Deadline.after(2, clock=clock)
    assert earliest(late, None, soon) is soon
    assert earliest(None, None) is None


@pytest.mark.parametrize("name", ["max_tokens", "max_cost", "max_calls", "max_seconds"])
def test_a_budget_with_which_nothing_could_be_done_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is 0"):
        TurnBudget(**{name: 0})


@pytest.mark.parametrize("name", ["max_tokens", "max_cost", "max_calls", "max_seconds"])
def test_a_limit_that_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is nan"):
        TurnBudget(**{name: math.nan})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["max_tokens", "max_cost", "max_calls", "max_seconds"])
def test_an_infinite_limit_is_none(name: str) -> None:
    """As it also travels: JSON has no infinity."""
    assert TurnBudget(**{name: math.inf}) == TurnBudget()  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [1e12, 1e300])
def test_a_time_that_no_calendar_has_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="expected at most 1e\\+11, or None"):
        TurnBudget(max_seconds=seconds)


def test_the_longest_time_of_a_budget_can_be_a_deadline() -> None:
    seconds = TurnBudget(max_seconds=1e11).max_seconds
    assert seconds is not None
    assert Deadline.after(seconds).remaining() > 0


@pytest.mark.parametrize("seconds", [1e12, math.inf, math.nan])
def test_a_deadline_that_no_calendar_has_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="no deadline: it is beyond the year 9999"):
        Deadline.after(seconds, clock=FakeClock())


def test_each_account_of_a_budget_is_a_fresh_one() -> None:
    budget = TurnBudget(max_calls=1)
    prices = {"claude": Price(1, 1)}
    for _ in range(2):
        budget.opened(prices).begin("claude")
