"""The seam between a turn and what it calls: every model and every tool is called through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from afl.agents.model import ModelAnswer, ModelRequest, ToolCall, ToolResult
from afl.turns.errors import TurnCancelled as TurnCancelled
from afl.turns.errors import TurnSuspended as TurnSuspended


class TurnRecorder(Protocol):
    """May keep what is called and what came of it, and answer from that instead of calling.

    `call` does it. The methods are coroutines so that threads and event loops share them: in a
    thread `call` blocks and never suspends, and an implementation must await nothing else.
    """

    async def model(
        self, request: ModelRequest, call: Callable[[], Awaitable[ModelAnswer]]
    ) -> ModelAnswer: ...

    async def tool(
        self, tool_call: ToolCall, call: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult: ...


class PlainRecorder:
    """Keeps nothing."""

    async def model(
        self,
        request: ModelRequest,  # noqa: ARG002 - as the port says
        call: Callable[[], Awaitable[ModelAnswer]],
    ) -> ModelAnswer:
        return await call()

    async def tool(
        self,
        tool_call: ToolCall,  # noqa: ARG002 - as the port says
        call: Callable[[], Awaitable[ToolResult]],
    ) -> ToolResult:
        return await call()


PLAIN_RECORDER = PlainRecorder()
