"""Asking a model until it has answered: what it is told about its tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.agents.calling import Blocking, run_blocking
from afl.agents.evaluation import Terms, evaluate
from afl.agents.model import ToolResult
from afl.agents.prompt import Prompt
from afl.agents.sections import ToolsSection
from afl.agents.session import Session


class Mute(Exception):  # noqa: N818 - it says nothing
    def __str__(self) -> str:
        raise RuntimeError("no text")


def returns_a_circle() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


def returns_what_says_nothing() -> Any:
    return Mute()


def returns_no_unicode() -> str:
    return "\udcff.txt"


def raises_no_unicode() -> None:
    raise FileNotFoundError("\udcff.txt")


def raises_what_says_nothing() -> None:
    raise Mute


@pytest.mark.parametrize(
    ("tool", "told", "is_error"),
    [
        (returns_a_circle, "[[...]]", False),
        (returns_what_says_nothing, "a Mute, which cannot be written as text", False),
        (returns_no_unicode, "\\udcff.txt", False),
        (raises_no_unicode, "\\udcff.txt", True),
        (raises_what_says_nothing, "Mute", True),
    ],
)
def test_nothing_that_a_tool_returns_or_raises_ends_the_turn(
    tool: Callable[[], Any], told: str, is_error: bool
) -> None:
    adapter = ScriptedAdapter([calls(tool.__name__, {}), says("done")])
    prompt: Prompt[str] = Prompt("Use it.", ToolsSection(tool))
    work = evaluate(prompt, Session(), Blocking(adapter, lambda _awaitable: None), Terms("model"))
    assert run_blocking(work).output == "done"
    (result,) = adapter.requests[-1].messages[-1].parts
    assert isinstance(result, ToolResult)
    assert (result.content, result.is_error) == (told, is_error)
