"""Handlers in a process of their own: what is sent there, and what is done with it.

The process loads the registration by itself, so code that is not trusted, or that ends the
process, never gets into the worker. What the handler says meanwhile comes back as messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from afl.clock import SYSTEM_CLOCK, now_ms
from afl.error_text import kind_of, message_of, text_of
from afl.runtime import tracing
from afl.runtime.dispatch import HandlerContext, invoke
from afl.runtime.entities import HandlerRegistration, Isolation, TaskDefinition
from afl.runtime.json_values import json_object
from afl.runtime.loading import Handler
from afl.runtime.registrations import HandlerLoadError, RegistrationLoader
from afl.work.attempts import Attempt, deadline_after
from afl.work.source import InProcess

#: Sends a message to the worker: its kind, and a value that is JSON.
Send = Callable[[str, Any], object]

_HEARTBEAT, _UPDATE, _LOG, _HANDLED = "heartbeat", "update", "log", "handled"


# Here


def in_process(
    handler: Handler, task: TaskDefinition, on_message: Callable[[Attempt, str, Any], object]
) -> InProcess:
    """How a task is done by a handler whose registration asks for a process of its own.

    `on_message` hears what the handler says; `tell` knows what that means.
    """
    timeout_ms = task.timeout_ms or handler.timeout_ms
    argument = {
        **handler.recipe,
        "task": asdict(task),
        "timeout_ms": timeout_ms,
        "is_traced": tracing.is_on(),
    }
    return InProcess(f"{__name__}:call", argument, on_message)


def tell(context: HandlerContext, kind: str, value: Any) -> None:
    """Do what a handler asked of its context, there."""
    if kind == _HEARTBEAT:
        context.heartbeat()
    elif kind == _UPDATE:
        context.update(value)
    elif kind == _LOG:
        context.log(*value)
    elif kind == _HANDLED:
        tracing.handled(context.task, **value)


# There


def call(argument: Mapping[str, Any], send: Send) -> dict[str, Any]:
    """Load the registration and let its handler do the task. Raises HandlerLoadError, NotJson,
    and what the handler raises."""
    handler = _loaded(argument)
    task = TaskDefinition(**argument["task"])
    context = HandlerContext(
        task,
        deadline=_deadline(argument["timeout_ms"]),
        on_heartbeat=partial(send, _HEARTBEAT, None),
        on_update=lambda partial_: send(_UPDATE, _json(task, partial_)),
        on_log=lambda message, level: send(_LOG, [message, level]),
    )
    with _told(send) if argument["is_traced"] else nullcontext():
        return invoke(handler, task, context)


@contextmanager
def _told(send: Send) -> Iterator[None]:
    """Say when a call began and ended: the trace is written where tracing is set up."""
    began = now_ms(SYSTEM_CLOCK)
    error: str | None = None
    try:
        yield
    except BaseException as problem:
        error = f"{kind_of(problem)}: {message_of(problem)}"
        raise
    finally:
        send(_HANDLED, {"began": began, "ended": now_ms(SYSTEM_CLOCK), "error": error})


def check(argument: Mapping[str, Any], _send: Send) -> str | None:
    """Load a registration as `call` does, and nothing else: what is wrong with it, or None."""
    try:
        _loaded(argument)
    except HandlerLoadError as error:
        return text_of(error)
    return None


def _loaded(argument: Mapping[str, Any]) -> Handler:
    # Here it is as good as any other: this is the process of its own.
    given = {**argument["registration"], "isolation": Isolation.THREAD}
    return _loader(tuple(argument["allowed"])).load(HandlerRegistration(**given))


@lru_cache(maxsize=8)
def _loader(allowed: tuple[str, ...]) -> RegistrationLoader:
    return RegistrationLoader([Path(each) for each in allowed])


def _deadline(timeout_ms: int) -> datetime | None:
    return deadline_after(timeout_ms / 1000, SYSTEM_CLOCK) if timeout_ms else None


def _json(task: TaskDefinition, partial_: Mapping[str, Any]) -> dict[str, Any]:
    return json_object(partial_, f"partial result of {task.name}")
