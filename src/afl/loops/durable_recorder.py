"""Models and tools of an agent, called through the journal of its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from afl.agents.budget import Budget
from afl.agents.model import ModelAnswer, ModelRequest, ToolCall, ToolResult
from afl.agents.prompt import Prompt
from afl.agents.tools import content_of
from afl.loops.answers import answer_from_json, answer_to_json
from afl.turns.effects import UNDECLARED, Policy
from afl.turns.errors import ToolFailed
from afl.turns.journal import Turn


class JournalRecorder:
    """A `TurnRecorder`. What the journal has is not asked for, but it was paid for: `budget`
    counts it."""

    def __init__(self, turn: Turn, prompt: Prompt[Any], budget: Budget) -> None:
        self._turn = turn
        self._prompt = prompt
        self._budget = budget

    async def model(
        self, request: ModelRequest, call: Callable[[], Awaitable[ModelAnswer]]
    ) -> ModelAnswer:
        fresh: list[ModelAnswer] = []

        async def ask() -> Any:
            fresh.append(await call())
            return answer_to_json(fresh[0])

        value = await self._turn.model_async(ask, name=request.model)
        if fresh:
            return fresh[0]
        answer = answer_from_json(value)
        self._budget.begin(request.model)
        self._budget.record(request.model, answer.usage)
        return answer

    async def tool(
        self, tool_call: ToolCall, call: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        async def use() -> str:
            result = await call()
            if result.is_error:
                raise ToolFailed(result.content)
            return result.content

        try:
            content = await self._turn.tool_async(
                tool_call.name,
                tool_call.arguments,
                use,
                call_id=tool_call.id,
                policy=self._policy(tool_call.name),
            )
        except ToolFailed as failure:
            return ToolResult(tool_call.id, str(failure), is_error=True)
        # A person who settled it may have given any value.
        return ToolResult(tool_call.id, content_of(content))

    def _policy(self, name: str) -> Policy:
        tool = self._prompt.tools().get(name)
        return UNDECLARED if tool is None else tool.policy
