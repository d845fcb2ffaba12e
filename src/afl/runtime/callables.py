"""What can be known about a callable before it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def takes_context(call: Callable[..., Any]) -> bool:
    """Whether it has a second positional parameter that has no default or is called `context`."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # written in C, and silent about it
        return False
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is second.empty or second.name == "context"


def is_async(call: Callable[..., Any]) -> bool:
    """Whether it is a coroutine function, or an object that is called like one."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(type(call), "__call__", None)  # noqa: B004 - asked of its class, as a call does
    )
