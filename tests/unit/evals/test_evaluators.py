from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from afl.agents.adapters.scripted import says
from afl.agents.model import ModelRequest, ToolCall, ToolResult, Usage
from afl.agents.session import ModelAnswered, Session, ToolUsed
from afl.errors import UsageError
from afl.evals import (
    Score,
    adapt,
    all_of,
    all_tools_succeeded,
    any_of,
    contains,
    exact_match,
    is_session_aware,
    matches,
    slice_contains,
    token_usage_under,
    tool_call_count,
    tool_called,
    tool_not_called,
)


@dataclass(frozen=True)
class Answer:
    words: tuple[str, ...]


def good(_output: Any, _expected: Any) -> Score:
    return Score(1.0, True, "good")


def half(_output: Any, _expected: Any) -> Score:
    return Score(0.5, False, "half")


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_score_is_from_0_to_1(value: float) -> None:
    with pytest.raises(UsageError, match=r"from 0 .* to 1"):
        Score(value, True)


# By the output


@pytest.mark.parametrize(
    ("output", "expected", "is_passed"),
    [
        ("a", "a", True),
        ("a", "b", False),
        (Answer(("x",)), Answer(("x",)), True),
        (Answer(("x",)), {"words": ["x"]}, True),
        (Answer(("x",)), {"words": ["y"]}, False),
        (1, 1.0, True),
        ((1, 2), [1, 2], True),
        ({1, 2}, {2, 1}, True),
        (1, True, False),
        (False, 0, False),
        ({"ok": [1]}, {"ok": [True]}, False),
        ({"ok": [True]}, {"ok": [True]}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1], [1, 1], False),
    ],
)
def test_an_exact_match_is_what_is_expected(output: Any, expected: Any, is_passed: bool) -> None:
    assert exact_match(output, expected).passed is is_passed


def test_a_mismatch_says_what_was_expected_and_what_came() -> None:
    score = exact_match(Answer(("x" * 1000,)), "y")
    assert score.reason.startswith('expected "y", got {"words":["x')
    assert len(score.reason) < 300


@pytest.mark.parametrize(
    ("output", "expected", "value"),
    [
        ("one two", "two", 1.0),
        ("one two", "three", 0.0),
        ("one two", ["one", "three"], 0.5),
        (Answer(("three",)), "three", 1.0),
        ({"ok": True}, True, 1.0),
        ("ok: True", True, 0.0),
        ("it costs 42", 42, 1.0),
        ({"lines": [{"sku": "tea"}]}, {"sku": "tea"}, 1.0),
    ],
)
def test_contains_looks_for_texts(output: Any, expected: Any, value: float) -> None:
    score = contains(output, expected)
    assert (score.value, score.passed) == (value, value == 1.0)


@pytest.mark.parametrize("nothing", [[], (), None])
def test_contains_refuses_to_look_for_nothing(nothing: Any) -> None:
    with pytest.raises(UsageError, match="nothing is expected"):
        contains("None of these fits", nothing)


def test_a_pattern_is_looked_for() -> None:
    assert matches("order 42 is sent", r"order \d+").passed
    assert not matches("no order", r"order \d+").passed


# Together


def test_all_of_needs_all_and_has_their_mean() -> None:
    score = all_of(good, half)("o", "e", Session())
    assert score == Score(0.75, False, "half")
    assert all_of(good, good)("o", "e", Session()).passed


def test_any_of_needs_one_and_has_the_best() -> None:
    assert any_of(half, good)("o", "e", Session()) == Score(1.0, True, "good")
    assert any_of(half, half)("o", "e", Session()) == Score(0.5, False, "half; half")


@pytest.mark.parametrize("combine", [all_of, any_of])
def test_nothing_cannot_be_combined(combine: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="at least one"):
        combine()


def test_yes_and_no_are_scores() -> None:
    assert adapt(lambda output, expected: output == expected)("a", "a", Session()) == Score(1, True)
    with pytest.raises(UsageError, match="returns a Score"):
        adapt(lambda _output, _expected: 0.7)("a", "a", Session())


def test_an_evaluator_may_be_a_coroutine_function() -> None:
    async def later(output: Any, _expected: Any, session: Session) -> Score:
        await asyncio.sleep(0)
        return Score(1.0, True, f"{output} {len(session)}")

    assert adapt(later)("a", "a", Session()) == Score(1.0, True, "a 0")


# Who sees the session


def needs_third(_output: Any, _expected: Any, _what: Session) -> Score:
    return Score(1, True)


def may_have_session(_output: Any, _expected: Any, session: Session | None = None) -> Score:
    return Score(1, session is not None)


def has_other_third(_output: Any, _expected: Any, tolerance: float = 0.1) -> Score:
    return Score(1, tolerance == 0.1)


class Callable3:
    def __call__(self, _output: Any, _expected: Any, _session: Session) -> Score:
        return Score(1, True)


@pytest.mark.parametrize(
    ("evaluator", "is_aware"),
    [
        (needs_third, True),
        (may_have_session, True),
        (has_other_third, False),
        (Callable3(), True),
        (good, False),
        (tool_called("x"), True),
        (all_of(good), True),
        (max, False),
    ],
)
def test_a_third_parameter_gets_the_session(evaluator: Callable[..., Any], is_aware: bool) -> None:
    assert is_session_aware(evaluator) is is_aware


@pytest.mark.parametrize("evaluator", [needs_third, may_have_session, has_other_third, good])
def test_adapted_evaluators_are_called_as_they_want_to_be(evaluator: Callable[..., Any]) -> None:
    assert adapt(evaluator)("o", "e", Session()).passed


# By what happened


def session_with(*uses: tuple[str, bool]) -> Session:
    session = Session()
    for name, is_error in uses:
        session.append(ToolUsed(ToolCall("1", name, {}), ToolResult("1", "hm", is_error)))
    return session


def passes(evaluator: Callable[..., Score], session: Session) -> bool:
    return evaluator(None, None, session).passed


def test_uses_of_a_tool_are_counted() -> None:
    session = session_with(("search", False), ("search", False), ("send", True))
    assert passes(tool_called("search"), session)
    assert not passes(tool_called("delete"), session)
    assert passes(tool_not_called("delete"), session)
    assert not passes(tool_not_called("send"), session)
    assert passes(tool_call_count("search", 2, 2), session)
    assert not passes(tool_call_count("search", 3), session)
    assert not passes(tool_call_count("search", max_count=1), session)
    reason = tool_call_count("search", 3, 4)(None, None, session).reason
    assert reason == "search was used 2 times, not 3 to 4"


def test_tools_that_failed_are_named() -> None:
    assert passes(all_tools_succeeded(), session_with(("search", False)))
    score = all_tools_succeeded()(None, None, session_with(("search", False), ("send", True)))
    assert (score.passed, score.reason) == (False, "send failed: hm")


def test_tokens_of_all_models_count() -> None:
    session = Session()
    for _ in range(2):
        answer = says("hi", Usage(30, 20))
        session.append(ModelAnswered(ModelRequest("m", []), answer))
    assert passes(token_usage_under(100), session)
    assert not passes(token_usage_under(99), session)


def test_entries_of_a_session_are_looked_for() -> None:
    session = session_with(("search", False), ("send", True))
    assert passes(slice_contains(ToolUsed), session)
    assert passes(slice_contains(ToolUsed, lambda each: each.is_error), session)
    assert not passes(slice_contains(ToolUsed, lambda each: each.is_error, 2), session)
    assert not passes(slice_contains(ModelAnswered), session)
