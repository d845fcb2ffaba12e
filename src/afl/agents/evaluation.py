"""Asking a model until it has answered a prompt: it may use tools, and is corrected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from afl.agents.budget import Budget
from afl.agents.calling import Calling
from afl.agents.deadline import Deadline
from afl.agents.errors import InvalidAnswer, InvalidArguments
from afl.agents.listening import Listener, quick, together
from afl.agents.model import (
    ANY_TOOL,
    Message,
    ModelAnswer,
    ModelRequest,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from afl.agents.prompt import Prompt
from afl.agents.recording import PLAIN_RECORDER, TurnCancelled, TurnRecorder, TurnSuspended
from afl.agents.session import ModelAnswered, Session, ToolUsed
from afl.agents.shapes import Field, Shape
from afl.agents.tools import Tool, content_of
from afl.clock import SYSTEM_CLOCK, Clock
from afl.error_text import text_of
from afl.errors import UsageError
from afl.turns.effects import current_effect
from afl.turns.errors import JournalMismatch, JournalUnavailable, OutcomeUnknown, StaleTurn

Output = TypeVar("Output")

#: What a tool raises that is not for the model: the turn goes on elsewhere, or not at all.
_LEAVING = (
    TurnSuspended,
    TurnCancelled,
    StaleTurn,
    JournalMismatch,
    JournalUnavailable,
    OutcomeUnknown,
)
#: The tool whose argument is the answer, if that has a type.
ANSWER_TOOL = "answer"


@dataclass(frozen=True)
class PromptResponse(Generic[Output]):
    """What came of a prompt."""

    prompt_name: str
    #: What the turn is for: an object of the prompt's type, or the words of the model.
    output: Output | None
    #: The last words of the model.
    text: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Terms:
    """Under which a prompt is evaluated."""

    #: Unless the prompt names one.
    model: str
    budget: Budget = field(default_factory=Budget)
    deadline: Deadline | None = None
    recorder: TurnRecorder = PLAIN_RECORDER
    #: Gets the words of the model as they come.
    listener: Listener | None = None
    #: How often the model may use tools before it answers, and be told that an answer is no good.
    max_rounds: int = 50
    max_corrections: int = 2
    is_cancelled: Callable[[], bool] = lambda: False
    #: Called whenever the turn moves on.
    on_progress: Callable[[], object] = lambda: None
    clock: Clock = SYSTEM_CLOCK


async def evaluate(
    prompt: Prompt[Output], session: Session, calling: Calling, terms: Terms
) -> PromptResponse[Output]:
    """Raises InvalidAnswer, BudgetExceeded, DeadlineExceeded, TurnCancelled, TurnSuspended, and
    what the adapter raises."""
    return await _Evaluation(prompt, session, calling, terms).run()


class _Evaluation(Generic[Output]):
    def __init__(
        self, prompt: Prompt[Output], session: Session, calling: Calling, terms: Terms
    ) -> None:
        self._prompt = prompt
        self._session = session
        self._calling = calling
        self._terms = terms
        self._model = prompt.model or terms.model
        self._tools: dict[str, Tool] = {}
        self._answer = None if prompt.output_type is None else _answer_shape(prompt)
        self._listener = _counted(terms)
        self._usage = Usage()
        self._rounds = self._corrections = 0

    async def run(self) -> PromptResponse[Output]:
        text = await self._calling.function(self._prompt.render)
        self._tools = await self._calling.function(self._prompt.tools)
        if self._answer is not None and ANSWER_TOOL in self._tools:
            raise UsageError(f"a tool of the prompt {self._prompt.name} is called {ANSWER_TOOL}")
        messages = [Message.user(text)]
        while True:
            answer = await self._ask(tuple(messages))
            found, problem = self._judged(answer)
            if found is not None:
                return found
            self._count(answer, problem)
            results = [await self._reply(call, problem) for call in answer.tool_calls]
            reply = Message.user(*results) if results else Message.user(problem or "")
            messages += [answer.message, reply]

    # The model

    async def _ask(self, messages: tuple[Message, ...]) -> ModelAnswer:
        self._require_wanted()
        terms = self._terms
        request = self._request(messages)
        began = terms.clock.monotonic()

        async def call() -> ModelAnswer:
            terms.budget.begin(self._model)
            answer = await self._calling.model(request, self._listener)
            terms.budget.record(self._model, answer.usage)
            return answer

        answer = await terms.recorder.model(request, call)
        self._usage += answer.usage
        self._session.append(ModelAnswered(request, answer, terms.clock.monotonic() - began))
        terms.on_progress()
        return answer

    def _request(self, messages: tuple[Message, ...]) -> ModelRequest:
        terms, prompt = self._terms, self._prompt
        specs = [each.spec for each in self._tools.values()]
        must_use = None
        if self._answer is not None:
            must_use = ANY_TOOL if specs else ANSWER_TOOL
            specs.append(_answer_spec(self._answer))
        left = None if terms.deadline is None else terms.deadline.require_rest(terms.clock)
        return ModelRequest(
            self._model, messages, prompt.system, tuple(specs), must_use, prompt.max_tokens, left
        )

    def _require_wanted(self) -> None:
        if self._terms.is_cancelled():
            raise TurnCancelled(f"the turn of {self._prompt.name} was cancelled")

    # Its answers

    def _judged(self, answer: ModelAnswer) -> tuple[PromptResponse[Output] | None, str | None]:
        """The response, or what is wrong with the answer; neither if it first wants tools."""
        if answer.stop is StopReason.REFUSAL:
            return None, f"it declined: {answer.text or 'without a word'}"
        if answer.stop is StopReason.MAX_TOKENS:
            limit = self._prompt.max_tokens
            return None, f"the answer was cut after {limit} tokens; answer in fewer"
        if self._answer is not None:
            return self._typed(answer, self._answer)
        return (None, None) if answer.tool_calls else (self._response(answer, answer.text), None)

    def _typed(
        self, answer: ModelAnswer, shape: Shape
    ) -> tuple[PromptResponse[Output] | None, str | None]:
        final = next((each for each in answer.tool_calls if each.name == ANSWER_TOOL), None)
        if final is None:
            return None, None if answer.tool_calls else f"answer with the tool {ANSWER_TOOL}"
        try:
            read = shape.read(final.arguments)
        except InvalidArguments as problem:
            return None, f"the arguments of the tool {ANSWER_TOOL} are wrong: {problem}"
        return self._response(answer, getattr(read, read.__struct_fields__[0])), None

    def _response(self, answer: ModelAnswer, output: Any) -> PromptResponse[Output]:
        return PromptResponse(self._prompt.name, output, answer.text, self._usage)

    def _count(self, answer: ModelAnswer, problem: str | None) -> None:
        """Raises InvalidAnswer if this was the last chance."""
        terms = self._terms
        if problem is None:
            self._rounds += 1
            if self._rounds > terms.max_rounds:
                raise InvalidAnswer(
                    f"{self._model} came to no answer: it used tools {self._rounds} times, and "
                    f"{terms.max_rounds} are allowed"
                )
            return
        self._corrections += 1
        # Who declines once declines again.
        if answer.stop is StopReason.REFUSAL or self._corrections > terms.max_corrections:
            raise InvalidAnswer(
                f"{self._model} gave no valid answer in {self._corrections} attempts: {problem}"
            )

    # Tools

    async def _reply(self, call: ToolCall, problem: str | None) -> ToolResult:
        """What the model is told about a tool call: services insist on an answer to each."""
        tool = self._tools.get(call.name)
        if problem is not None or tool is None:
            return ToolResult(call.id, problem or f"there is no tool {call.name}", is_error=True)
        self._require_wanted()
        clock = self._terms.clock
        began = clock.monotonic()
        try:
            result = await self._terms.recorder.tool(call, partial(self._use, tool, call))
        except OutcomeUnknown as unknown:  # of a recorder that has nobody to ask
            if _is_repeat():
                raise  # whoever called this agent as a tool asks again
            result = _failed(call, unknown)
        self._session.append(ToolUsed(call, result, clock.monotonic() - began))
        self._terms.on_progress()
        return result

    async def _use(self, tool: Tool, call: ToolCall) -> ToolResult:
        try:
            value = await self._calling.function(partial(tool.call, call.arguments))
        except _LEAVING:
            raise
        except Exception as error:
            if isinstance(error, OSError) and _is_repeat():
                # Nobody was reached now; who was reached before may have acted.
                raise OutcomeUnknown(text_of(error)) from error
            return _failed(call, error)  # the model reads it and may try something else
        return ToolResult(call.id, content_of(value))


def _counted(terms: Terms) -> Listener | None:
    """Each word is progress."""
    if terms.listener is None:
        return None
    return together(quick(lambda _: terms.on_progress()), terms.listener)


def _is_repeat() -> bool:
    """Whether this is part of a call that was made before, and nobody knows what came of it."""
    effect = current_effect()
    return effect is not None and effect.is_repeat


def _failed(call: ToolCall, error: Exception) -> ToolResult:
    return ToolResult(call.id, text_of(error), is_error=True)


def _answer_shape(prompt: Prompt[Any]) -> Shape:
    try:
        shape = Shape([Field(ANSWER_TOOL, prompt.output_type)])
        _ = shape.schema  # a type that has none is found here, and not at the first call
    except (TypeError, ValueError) as problem:
        raise UsageError(
            f"no answer to the prompt {prompt.name} can be a {prompt.output_type}: {problem}"
        ) from None
    return shape


def _answer_spec(shape: Shape) -> ToolSpec:
    return ToolSpec(ANSWER_TOOL, "Give the answer. Use this when you are done.", shape.schema)
