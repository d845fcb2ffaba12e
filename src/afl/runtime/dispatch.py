"""Calling a handler: what it is given, what it may return.

A handler takes the payload, and a `HandlerContext` if it has a place for one: a second positional
parameter that has no default or is called `context`. It may be a coroutine function.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from afl.runtime.entities import TaskDefinition
from afl.runtime.json_values import json_object
from afl.runtime.loading import Handler
from afl.runtime.tracing import handling
from afl.runtime.types import copied
from afl.turns.effects import Effect, causing

#: Runs what an asynchronous handler returns to its end. Workers share one event loop.
Runner: TypeAlias = Callable[[Awaitable[Any]], Any]


def _nothing(*_args: object) -> None:
    """What a context does where nobody listens."""


@dataclass(frozen=True)
class HandlerContext:
    """What a handler can know and do beside its work. Safe to use from any thread."""

    task: TaskDefinition
    #: When the task is given up, in UTC; None if it may take as long as it likes.
    deadline: datetime | None = None
    on_heartbeat: Callable[[], object] = _nothing
    on_update: Callable[[Mapping[str, Any]], object] = _nothing
    on_log: Callable[[str, str], object] = _nothing
    cancellation: threading.Event = field(default_factory=threading.Event)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt: hand it on to whatever must not happen twice."""
        return self.task.idempotency_key

    @property
    def attempt(self) -> int:
        """Which one this is, counted from 1; those of workers that died since the last failure
        count as well."""
        return self.task.failures + max(self.task.deliveries, 1)

    @property
    def task_id(self) -> str:
        return self.task.uuid

    @property
    def step_id(self) -> str:
        return self.task.step_id

    @property
    def workflow_id(self) -> str:
        return self.task.workflow_id

    @property
    def facet_name(self) -> str:
        return self.task.name

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more: return soon."""
        return self.cancellation.is_set()

    def heartbeat(self) -> None:
        """Say that the work goes on, where it takes long."""
        self.on_heartbeat()

    def update(self, partial: Mapping[str, Any]) -> None:
        """Show a part of the result before the end."""
        self.on_update(partial)

    def log(self, message: str, level: str = "info") -> None:
        """Write to the log of the run."""
        self.on_log(message, level)


def run_alone(awaitable: Awaitable[Any]) -> Any:
    """Run an awaitable in an event loop of its own."""
    import asyncio  # most handlers do without it

    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


def invoke(
    handler: Handler, task: TaskDefinition, context: HandlerContext | None, run: Runner = run_alone
) -> dict[str, Any]:
    """Let the handler do the task; `context` may be None for one that takes none. What it raises
    comes out; raises NotJson for a result that no step can hold."""
    with handling(task), _keyed(task):
        result = _called(handler, task, context)
        if inspect.isawaitable(result):
            result = run(result)
        return _checked(handler, result)


async def invoke_async(
    handler: Handler, task: TaskDefinition, context: HandlerContext
) -> dict[str, Any]:
    """Like `invoke`, on the event loop of whoever awaits it."""
    with handling(task), _keyed(task):
        result = _called(handler, task, context)
        if inspect.isawaitable(result):
            result = await result
        return _checked(handler, result)


def _keyed(task: TaskDefinition) -> AbstractContextManager[object]:
    """Let `ToolClient` and `@idempotent` find the key, whatever the handler calls."""
    key = task.idempotency_key
    return causing(Effect("", key, task.name)) if key else nullcontext()


def _called(handler: Handler, task: TaskDefinition, context: HandlerContext | None) -> Any:
    payload = {
        **copied(task.data or {}),
        "_facet_name": task.name,
        "_handler_metadata": copied(dict(handler.metadata)),
    }
    return handler.call(payload, context) if handler.takes_context else handler.call(payload)


def _checked(handler: Handler, result: Any) -> dict[str, Any]:
    return json_object({} if result is None else result, f"result of handler {handler.label}")
