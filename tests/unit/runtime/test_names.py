"""Which handler a task belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.runtime.names import handler_for, is_short, short_name

NAMES = st.sampled_from(["Pay", "a.Pay", "b.Pay", "a.b.Pay", "Ship", "a.Ship", "b.Ship"])


@pytest.mark.parametrize(
    ("name", "short"), [("Pay", "Pay"), ("a.Pay", "Pay"), ("a.b.Pay", "Pay"), ("", "")]
)
def test_the_short_name_stands_behind_the_last_dot(name: str, short: str) -> None:
    assert short_name(name) == short
    assert is_short(short)
    assert is_short(name) == (name == short)


@pytest.mark.parametrize(
    ("task", "handlers", "chosen"),
    [
        ("a.Pay", ["a.Pay"], "a.Pay"),
        ("a.Pay", ["Pay", "a.Pay", "b.Pay"], "a.Pay"),
        ("a.Pay", ["Pay", "b.Pay"], "Pay"),
        ("a.b.Pay", ["Pay"], "Pay"),
        ("a.Pay", ["b.Pay"], None),
        ("a.Pay", ["a.PayNow", "a", "ay"], None),
        ("Pay", ["a.Pay", "Pay"], "Pay"),
        ("Pay", ["a.Pay", "a.Ship"], None),
        ("Pay", ["a.Pay", "b.Pay"], None),
        ("c.Pay", ["a.Pay", "b.Pay", "Pay"], "Pay"),
        ("b.Pay", ["a.Pay", "b.Pay", "Pay"], "b.Pay"),
        ("Pay", ["a.Ship"], None),
        ("Pay", [], None),
        ("pay", ["Pay"], None),
    ],
)
def test_an_exact_name_wins_then_a_short_one(
    task: str, handlers: list[str], chosen: str | None
) -> None:
    assert handler_for(task, handlers) == chosen


@given(task=NAMES, handlers=st.sets(NAMES))
def test_whoever_is_chosen_is_known_and_ends_in_the_same_name(
    task: str, handlers: set[str]
) -> None:
    chosen = handler_for(task, handlers)
    if chosen is None:
        assert not {task, short_name(task)} & handlers
    else:
        assert chosen in handlers
        assert short_name(chosen) == short_name(task)
