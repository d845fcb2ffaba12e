"""Evaluators that look at what happened in the turn, and not at its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from afl.agents.session import Session
from afl.evals.evaluators import SessionEvaluator
from afl.evals.score import Score

E = TypeVar("E")


def tool_called(name: str) -> SessionEvaluator:
    """The tool was used."""
    return tool_call_count(name, min_count=1)


def tool_not_called(name: str) -> SessionEvaluator:
    """The tool was not used."""
    return tool_call_count(name, max_count=0)


def tool_call_count(
    name: str, min_count: int = 0, max_count: int | None = None
) -> SessionEvaluator:
    """The tool was used so many times."""

    def evaluate(_output: Any, _expected: Any, session: Session) -> Score:
        count = sum(each.name == name for each in session.tool_uses)
        is_enough = count >= min_count and (max_count is None or count <= max_count)
        reason = f"{name} was used {count} times, not {_range(min_count, max_count)}"
        return _verdict(is_enough, reason)

    return evaluate


def all_tools_succeeded() -> SessionEvaluator:
    """No tool answered with an error."""

    def evaluate(_output: Any, _expected: Any, session: Session) -> Score:
        failed = [each for each in session.tool_uses if each.is_error]
        words = "; ".join(f"{each.name} failed: {each.result.content}" for each in failed)
        return _verdict(not failed, words)

    return evaluate


def token_usage_under(max_tokens: int) -> SessionEvaluator:
    """All models together used at most so many tokens."""

    def evaluate(_output: Any, _expected: Any, session: Session) -> Score:
        used = session.usage.total
        return _verdict(used <= max_tokens, f"{used} tokens were used, more than {max_tokens}")

    return evaluate


def slice_contains(
    kind: type[E], predicate: Callable[[E], bool] = lambda _entry: True, min_count: int = 1
) -> SessionEvaluator:
    """The session has so many entries of a type that fit."""

    def evaluate(_output: Any, _expected: Any, session: Session) -> Score:
        count = sum(bool(predicate(each)) for each in session[kind])
        reason = f"{count} entries of {kind.__name__} fit, fewer than {min_count}"
        return _verdict(count >= min_count, reason)

    return evaluate


def _verdict(passed: bool, reason: str) -> Score:
    return Score(float(passed), passed, "" if passed else reason)


def _range(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"
