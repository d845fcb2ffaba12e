"""Values of calls: code gets the same the first time and after each resume, or hears why not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from tests.unit.turns.life import Life

from afl.errors import UsageError
from afl.turns import Done, Kind, Policy, ToolFailed, Turn, TurnSuspended


@dataclass
class Order:
    id: int
    price: float | None = None


class Colour(StrEnum):
    RED = "red"


VALUES = [
    (Order(7), {"id": 7, "price": None}),
    (datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01T00:00:00Z"),
    ({"red"}, ["red"]),
    ((1, (2, None)), [1, [2, None]]),
    (b"x", "eA=="),
    (Colour.RED, "red"),
    ({"a": [1, 2.5, -0.0, True, None, "ü"]}, {"a": [1, 2.5, -0.0, True, None, "ü"]}),
    (2**70, 2**70),
    ("text", "text"),
    ("null", "null"),
    ("not \udcff Unicode", "not ? Unicode"),
    (None, None),
]


@pytest.mark.parametrize(("given", "got"), VALUES, ids=repr)
def test_code_gets_what_it_will_get_when_it_is_resumed(life: Life, given: Any, got: Any) -> None:
    for _ in range(2):
        turn = life.begin()
        for found in (turn.model(lambda: given), turn.tool("look", {}, lambda: given)):
            assert (type(found), found) == (type(got), got)


def test_what_was_found_out_about_a_call_is_such_a_value_too(life: Life) -> None:
    policy = Policy(reconcile=lambda _: Done(Order(7)))
    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("order", {}, life.crashes("ordered"), policy=policy)
    for _ in range(2):
        found = life.begin().tool("order", {}, life.does("never"), policy=policy)
        assert found == {"id": 7, "price": None}


def test_what_code_got_is_its_own(life: Life) -> None:
    kept = {"items": [1]}
    turn = life.begin()
    turn.tool("look", {}, lambda: kept)["items"].append(2)
    assert kept == {"items": [1]}


ODD = [math.nan, math.inf, {"a": [1.0, -math.inf]}, (math.nan,), Order(1, math.nan)]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_numbers_that_json_does_not_have_are_refused(life: Life, odd: Any) -> None:
    with pytest.raises(UsageError, match="use None or a text in their place"):
        life.begin().model(lambda: odd)
    assert life.kinds() == []
    with pytest.raises(UsageError, match="use None or a text in their place"):
        life.begin().tool("rate", {}, lambda: odd)


@pytest.mark.parametrize("odd", [math.nan, {1: "one"}, object()], ids=["nan", "keys", "object"])
def test_a_tool_whose_result_cannot_be_kept_has_not_failed(life: Life, odd: Any) -> None:
    """It has acted. Told that it failed, somebody would plan the effect anew."""

    def charge(turn: Turn) -> Any:
        def act() -> Any:
            life.done.append("paid")
            return odd

        return turn.tool("charge", {}, act)

    with pytest.raises(UsageError):
        charge(life.begin())
    assert life.kinds() == [Kind.TOOL_INTENT]
    with pytest.raises(TurnSuspended):  # a person says what it returned
        charge(life.begin())
    assert life.done == ["paid"]


def test_a_tool_may_say_anything_when_it_fails(life: Life) -> None:
    def fail() -> None:
        raise OSError("no such file: \udcff")

    for _ in range(2):
        with pytest.raises(ToolFailed) as failure:
            life.begin().tool("read", {}, fail)
        assert str(failure.value) == "no such file: ?"
