"""The handlers of a process by name, and one for everything else."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from afl.errors import UsageError
from afl.runtime.dispatch import run_alone
from afl.runtime.json_values import json_object
from afl.runtime.names import handler_for

#: Takes the payload, and may take a context, like every handler.
ToolHandler: TypeAlias = Callable[..., Any]
#: Takes the name of the task and its payload.
DefaultHandler: TypeAlias = Callable[[str, dict[str, Any]], Any]


class ToolRegistry:
    """Who does the tasks of which facet. Safe to use, and to change, from any thread.

    Names are matched as everywhere: exactly first, then by the short name; see
    `afl.runtime.names`. What no name fits goes to the default handler, if there is one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: dict[str, ToolHandler] = {}
        self._default: DefaultHandler | None = None

    def register(self, event_type: str, handler: ToolHandler) -> None:
        """Let a handler do the tasks of a facet, in place of the one it had."""
        if not event_type:
            raise UsageError("a handler needs the name of a facet, such as billing.Pay")
        _require_callable(handler, f"the handler of {event_type}")
        with self._lock:
            self._handlers[event_type] = handler

    def set_default_handler(self, handler: DefaultHandler | None) -> None:
        """Let a handler do what no other does; None takes it away."""
        if handler is not None:
            _require_callable(handler, "the default handler")
        with self._lock:
            self._default = handler

    @property
    def default_handler(self) -> DefaultHandler | None:
        return self._default

    def names(self) -> list[str]:
        """Of all that were registered; the default handler has none."""
        with self._lock:
            return sorted(self._handlers)

    def has_handler(self, name: str) -> bool:
        """Whether `handle` would find anybody, be it the default handler."""
        return self.handler_for(name) is not None

    def handler_for(self, name: str, *, default: bool = True) -> ToolHandler | None:
        """The callable for the payload of such a task, or None. With `default` false, the default
        handler does not count."""
        with self._lock:
            fitting = handler_for(name, self._handlers)
            if fitting is not None:
                return self._handlers[fitting]
            found = self._default if default else None
        return partial(found, name) if found is not None else None

    def handle(self, name: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """Call the handler of such a task and give its result; None if there is no handler. One
        that returns nothing gives `{}`.

        What it raises comes out. Raises NotJson for a result that no step can hold.
        """
        handler = self.handler_for(name)
        if handler is None:
            return None
        result = handler(dict(payload))
        if inspect.isawaitable(result):
            result = run_alone(result)
        return json_object({} if result is None else result, f"result of the handler of {name}")


def _require_callable(handler: object, what: str) -> None:
    if not callable(handler):
        raise UsageError(f"{what} is of type {type(handler).__name__}; expected a function")
