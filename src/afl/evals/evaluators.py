"""Evaluators: functions that score outputs.

One takes the output and what is expected, or these and the session of the turn, where what
happened is written: a third parameter that must be given, or is called `session`, gets it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from afl.agents.session import Session
from afl.errors import UsageError
from afl.evals.score import Score, score_of
from afl.loops.agent_loop import run_shared

#: `(output, expected)` or `(output, expected, session)`; may give a coroutine.
Evaluator: TypeAlias = Callable[..., Any]
#: `(output, expected, session)`.
SessionEvaluator: TypeAlias = Callable[[Any, Any, Session], Score]

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: Longer values are cut in reasons.
_LONGEST = 200


def is_session_aware(evaluator: Evaluator) -> bool:
    """Whether it wants to see the session."""
    try:
        parameters = inspect.signature(evaluator).parameters.values()
    except (TypeError, ValueError):  # written in C, and silent about it
        return False
    third = [each for each in parameters if each.kind in _BY_PLACE][2:3]
    return any(each.default is each.empty or each.name == "session" for each in third)


def adapt(evaluator: Evaluator) -> SessionEvaluator:
    """The same evaluator, called with a session whether it wants one or not. One that is a
    coroutine function is waited for."""
    is_aware = is_session_aware(evaluator)

    def adapted(output: Any, expected: Any, session: Session) -> Score:
        verdict = evaluator(output, expected, session) if is_aware else evaluator(output, expected)
        return score_of(run_shared(verdict) if inspect.isawaitable(verdict) else verdict)

    return adapted


def all_of(*evaluators: Evaluator) -> SessionEvaluator:
    """Passes if all do; the value is the mean of theirs."""
    parts = _adapted(evaluators)

    def evaluate(output: Any, expected: Any, session: Session) -> Score:
        scores = [each(output, expected, session) for each in parts]
        value = sum(each.value for each in scores) / len(scores)
        return Score(value, all(each.passed for each in scores), _reasons(scores, passed=False))

    return evaluate


def any_of(*evaluators: Evaluator) -> SessionEvaluator:
    """Passes if one does; the value is the best of theirs."""
    parts = _adapted(evaluators)

    def evaluate(output: Any, expected: Any, session: Session) -> Score:
        scores = [each(output, expected, session) for each in parts]
        passed = any(each.passed for each in scores)
        return Score(max(each.value for each in scores), passed, _reasons(scores, passed=passed))

    return evaluate


def _adapted(evaluators: tuple[Evaluator, ...]) -> list[SessionEvaluator]:
    if not evaluators:
        raise UsageError("name at least one evaluator: there is nothing to decide by")
    return [adapt(each) for each in evaluators]


def _reasons(scores: list[Score], *, passed: bool) -> str:
    """Why it is so: of those that say so, or of all if none does."""
    decisive = [each for each in scores if each.passed is passed] or scores
    return "; ".join(each.reason for each in decisive if each.reason)


# By the output


def exact_match(output: Any, expected: Any) -> Score:
    """The output is what is expected. Objects are compared as the JSON that they would be, in
    which true is no number."""
    if _is_same(output, expected) or _is_same(plain(output), plain(expected)):
        return Score(1.0, True)
    return Score(0.0, False, f"expected {shown(expected)}, got {shown(output)}")


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def contains(output: Any, expected: Any) -> Score:
    """The text of the output has the expected text in it; with a list, all of them. What is no
    text is looked for as JSON."""
    text = _text_of(output)
    wanted = expected if isinstance(expected, list | tuple) else [expected]
    if expected is None or not wanted:
        raise UsageError("contains needs something to look for: nothing is expected")
    missing = [each for each in map(_text_of, wanted) if each not in text]
    if not missing:
        return Score(1.0, True)
    words = ", ".join(map(repr, missing))
    return Score(1 - len(missing) / len(wanted), False, f"{words} not in {shown(output)}")


def matches(output: Any, expected: Any) -> Score:
    """The expectation is a regular expression that is found in the text of the output."""
    if re.search(expected, _text_of(output)):
        return Score(1.0, True)
    return Score(0.0, False, f"{expected!r} is not found in {shown(output)}")


def plain(value: Any) -> Any:
    """As JSON would hold it; the value itself if it cannot."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return value


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else shown(value, longest=None)


def shown(value: Any, longest: int | None = _LONGEST) -> str:
    """For people, on one line."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        text = repr(value)
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"
