"""A talk with a model that ends in a result: ask, let it use helpers, correct it, take its answer.

The talk itself calls nobody. It yields what is to be done (a request to a model, or the use of a
helper) and is sent what came of it, so that threads and coroutines share it: `hold` and
`hold_async` are the two ways to do what it yields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from afl.agents.errors import InvalidAnswer, InvalidArguments, ModelError
from afl.agents.model import (
    ANY_TOOL,
    AsyncModelAdapter,
    Message,
    ModelAdapter,
    ModelAnswer,
    ModelRequest,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from afl.agents.tools import content_of
from afl.runtime.agent.definitions import ToolDefinition
from afl.runtime.callables import is_async
from afl.runtime.dispatch import run_alone
from afl.runtime.json_values import NotJson, json_object


@dataclass(frozen=True)
class Helper:
    """A tool that the model may use on its way to the answer."""

    spec: ToolSpec
    #: Takes the arguments as the model wrote them; may be a coroutine function.
    call: Callable[[Any], Any]


@dataclass(frozen=True)
class Use:
    """A helper is to be called."""

    helper: Helper
    call: ToolCall


@dataclass(frozen=True)
class Talk:
    model: str
    system: str
    prompt: str
    #: Tools whose arguments are the result. None: the words of the answer are.
    answers: Mapping[str, ToolDefinition]
    helpers: Mapping[str, Helper] = field(default_factory=dict)
    #: Of one answer.
    max_tokens: int = 4096
    #: How often the model may use helpers before it answers.
    max_turns: int = 10
    #: How often it is told that an answer is no good.
    max_retries: int = 2
    #: Seconds that are left for each answer; None: no limit.
    time_left: Callable[[], float | None] = lambda: None
    #: Whether nobody wants the result any more.
    is_cancelled: Callable[[], bool] = lambda: False


@dataclass
class Tally:
    """What a talk used so far; also known if it failed."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    #: Told of every answer, as a sign of life.
    on_answer: Callable[[], object] = lambda: None

    def add(self, answer: ModelAnswer) -> None:
        self.calls += 1
        self.usage += answer.usage
        self.on_answer()


#: What is to be done, what came of it, and the result at the end.
Course: TypeAlias = Generator[ModelRequest | Use, ModelAnswer | ToolResult, dict[str, Any]]


def hold(talk: Talk, adapter: ModelAdapter, tally: Tally) -> dict[str, Any]:
    """The result. Raises InvalidAnswer, and what the adapter raises."""
    course = _course(talk)
    done: ModelAnswer | ToolResult | None = None
    while True:
        try:
            step = next(course) if done is None else course.send(done)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if isinstance(step, Use):
            done = _used(step)
        else:
            done = adapter.answer(step)
            tally.add(done)


async def hold_async(talk: Talk, adapter: AsyncModelAdapter, tally: Tally) -> dict[str, Any]:
    """Like `hold`, without a thread."""
    course = _course(talk)
    done: ModelAnswer | ToolResult | None = None
    while True:
        try:
            step = next(course) if done is None else course.send(done)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if isinstance(step, Use):
            done = await _used_async(step)
        else:
            done = await adapter.answer_async(step)
            tally.add(done)


# The course


def _course(talk: Talk) -> Course:
    messages = [Message.user(talk.prompt)]
    patience = _Patience(talk)
    while True:
        if talk.is_cancelled():
            raise ModelError(f"{talk.model} is not asked: nobody wants the answer any more")
        answer = yield _request(talk, messages)
        assert isinstance(answer, ModelAnswer)
        found = _judged(talk, answer)
        if isinstance(found, dict):
            return found
        patience.spend(answer, found)
        replies = yield from _replies(talk, answer, found)
        messages += [answer.message, Message.user(*replies)]


def _replies(
    talk: Talk, answer: ModelAnswer, problem: str | None
) -> Generator[ModelRequest | Use, ModelAnswer | ToolResult, list[ToolResult | str]]:
    """What the model is told: a result for each call, for services insist on that; or the problem
    in words."""
    replies: list[ToolResult | str] = []
    for call in answer.tool_calls:
        helper = talk.helpers.get(call.name)
        if helper is None:
            replies.append(ToolResult(call.id, problem or "", is_error=True))
        else:
            result = yield Use(helper, call)
            assert isinstance(result, ToolResult)
            replies.append(result)
    return replies or [problem or ""]


class _Patience:
    """How often the model may still come without an answer."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._turns = self._retries = 0

    def spend(self, answer: ModelAnswer, problem: str | None) -> None:
        """Count an answer that was no result. Raises InvalidAnswer if it was the last one."""
        talk = self._talk
        if problem is None:
            self._turns += 1
            if self._turns > talk.max_turns:
                raise InvalidAnswer(
                    f"{talk.model} came to no answer: it used helpers {self._turns} times, and "
                    f"{talk.max_turns} are allowed"
                )
            return
        self._retries += 1
        # Who declines once declines again.
        if answer.stop is StopReason.REFUSAL or self._retries > talk.max_retries:
            raise InvalidAnswer(
                f"{talk.model} gave no valid answer in {self._retries} attempts: {problem}"
            )


def _request(talk: Talk, messages: list[Message]) -> ModelRequest:
    answers = [each.spec for each in talk.answers.values()]
    helpers = [each.spec for each in talk.helpers.values()]
    must_use = None
    if answers:
        must_use = answers[0].name if len(answers) == 1 and not helpers else ANY_TOOL
    return ModelRequest(
        talk.model,
        tuple(messages),
        talk.system,
        (*answers, *helpers),
        must_use,
        talk.max_tokens,
        talk.time_left(),
    )


def _judged(talk: Talk, answer: ModelAnswer) -> dict[str, Any] | str | None:
    """The result; or what is wrong with the answer; or None if it first wants to use helpers."""
    if answer.stop is StopReason.REFUSAL:
        return f"it declined: {answer.text or 'without a word'}"
    if answer.stop is StopReason.MAX_TOKENS:
        return f"the answer was cut after {talk.max_tokens} tokens; answer in fewer"
    final = [each for each in answer.tool_calls if each.name in talk.answers]
    if final:
        return _checked(talk.answers[final[0].name], final[0])
    if answer.tool_calls and all(each.name in talk.helpers for each in answer.tool_calls):
        return None
    if not talk.answers and not answer.tool_calls:
        return {"text": answer.text}
    return f"answer with the tool {' or '.join(talk.answers) or 'that you are given'}"


def _checked(tool: ToolDefinition, call: ToolCall) -> dict[str, Any] | str:
    try:
        return json_object(tool.shape.checked(call.arguments), "result")
    except (InvalidArguments, NotJson) as problem:
        return f"the arguments of the tool {tool.name} are wrong: {problem}"


# Helpers


def _used(use: Use) -> ToolResult:
    try:
        value = use.helper.call(use.call.arguments)
        if inspect.isawaitable(value):
            value = run_alone(value)
    except Exception as error:  # the model reads it and may try something else
        return _failed(use, error)
    return ToolResult(use.call.id, content_of(value))


async def _used_async(use: Use) -> ToolResult:
    import asyncio  # most processes do without it

    call, arguments = use.helper.call, use.call.arguments
    try:
        # One that blocks must not hold up everybody else on the loop.
        value = call(arguments) if is_async(call) else await asyncio.to_thread(call, arguments)
        if inspect.isawaitable(value):
            value = await value
    except Exception as error:
        return _failed(use, error)
    return ToolResult(use.call.id, content_of(value))


def _failed(use: Use, error: Exception) -> ToolResult:
    return ToolResult(use.call.id, f"{type(error).__name__}: {error}", is_error=True)
