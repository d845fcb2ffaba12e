"""A model that says what it is told to."""

from __future__ import annotations

import asyncio

import pytest

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says, speaks
from afl.agents.budget import Budget
from afl.agents.errors import BudgetExceeded, ModelRefused, ModelUnavailable
from afl.agents.model import (
    AsyncModelAdapter,
    Message,
    ModelAdapter,
    ModelAnswer,
    ModelRequest,
    StopReason,
    Text,
    ToolCall,
    Usage,
)

HELLO = ModelRequest("m", [Message.user("hello")])


def test_entries_answer_one_request_each() -> None:
    def echo(request: ModelRequest) -> ModelAnswer:
        (part,) = request.messages[-1].parts
        assert isinstance(part, Text)
        return says(part.text)

    adapter = ScriptedAdapter([calls("find", {"a": 1}), ModelUnavailable("away"), echo])
    first = adapter.answer(HELLO)
    assert first.tool_calls == (ToolCall("call", "find", {"a": 1}),)
    assert first.stop is StopReason.TOOL_USE
    with pytest.raises(ModelUnavailable, match="away"):
        adapter.answer(HELLO)
    assert asyncio.run(adapter.answer_async(HELLO)).text == "hello"
    with pytest.raises(ModelRefused, match="no answer to request 4"):
        adapter.answer(HELLO)
    assert adapter.requests == [HELLO] * 4


def test_a_default_answers_for_ever() -> None:
    adapter = ScriptedAdapter([says("first")], default=says("again"))
    assert [adapter.answer(HELLO).text for _ in range(3)] == ["first", "again", "again"]


def test_a_budget_holds_here_too() -> None:
    budget = Budget(max_tokens=5)
    adapter = ScriptedAdapter(default=says("x", Usage(3, 2)), budget=budget)
    adapter.answer(HELLO)
    with pytest.raises(BudgetExceeded):
        adapter.answer(HELLO)


def test_it_is_an_adapter_in_both_ways() -> None:
    assert isinstance(ScriptedAdapter(), ModelAdapter)
    assert isinstance(ScriptedAdapter(), AsyncModelAdapter)


def test_an_answer_that_says_nothing_can_still_be_a_turn() -> None:
    assert ModelAnswer(()).message == Message.assistant("(no answer)")


def test_words_come_one_after_the_other_for_who_listens() -> None:
    adapter = ScriptedAdapter([speaks("It ", "is", usage=Usage(1, 2)), speaks("a", "b"), says("x")])
    heard: list[str] = []
    answer = adapter.stream(HELLO, heard.append)
    assert (heard, answer.text, answer.usage) == (["It ", "is"], "It is", Usage(1, 2))
    assert adapter.answer(HELLO).text == "ab"
    # An answer that is whole in the script is whole for everybody.
    assert asyncio.run(adapter.stream_async(HELLO, heard.append)).text == "x"
    assert heard == ["It ", "is"]


def test_words_may_break_off() -> None:
    heard: list[str] = []
    with pytest.raises(ModelUnavailable):
        ScriptedAdapter([speaks("half", ModelUnavailable("cut"))]).stream(HELLO, heard.append)
    assert heard == ["half"]
