"""Which handler a task belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.errors import UsageError
from afl.runtime.names import (
    AmbiguousHandler,
    handler_for,
    is_short,
    require_unambiguous,
    short_name,
)

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
        ("Pay", ["a.Pay", "a.Ship"], "a.Pay"),
        ("Pay", ["a.Ship"], None),
        ("Pay", [], None),
        ("pay", ["Pay"], None),
    ],
)
def test_an_exact_name_wins_then_a_short_one(
    task: str, handlers: list[str], chosen: str | None
) -> None:
    assert handler_for(task, handlers) == chosen


def test_two_handlers_that_fit_are_an_error_and_never_a_guess() -> None:
    with pytest.raises(AmbiguousHandler, match=r"'Pay' fits the handlers a\.Pay, b\.Pay"):
        handler_for("Pay", ["b.Pay", "a.Pay"])


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("a.Pay", []),
        ("a.Pay", ["b.Pay", "c.Pay"]),
        ("Pay", ["a.Pay"]),
        ("a.Pay", ["Pay", "a.Pay"]),
        ("Pay", ["Pay", "a.Pay", "b.Ship", "c.Ship"]),
    ],
)
def test_names_that_cannot_be_confused_are_fine(name: str, others: list[str]) -> None:
    require_unambiguous(name, others)


@pytest.mark.parametrize(
    ("name", "others"), [("Pay", ["a.Pay", "b.Pay"]), ("b.Pay", ["Pay", "a.Pay"])]
)
def test_a_short_name_beside_two_namespaces_is_refused(name: str, others: list[str]) -> None:
    with pytest.raises(UsageError, match=r"the short name 'Pay' fits the handlers a\.Pay, b\.Pay"):
        require_unambiguous(name, others)


@given(task=NAMES, handlers=st.sets(NAMES))
def test_whoever_is_chosen_is_known_and_ends_in_the_same_name(
    task: str, handlers: set[str]
) -> None:
    try:
        chosen = handler_for(task, handlers)
    except AmbiguousHandler:
        assert is_short(task)
        return
    if chosen is None:
        assert not {task, short_name(task)} & handlers
    else:
        assert chosen in handlers
        assert short_name(chosen) == short_name(task)
