"""What the requests of an agent are, as its code says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from afl.errors import UsageError
from afl.loops.agent_loop import AgentLoop


def request_type_of(target: Callable[..., Any]) -> Any:
    """Of a class: the first in `AgentLoop[Request, Output]`; of a function: the annotation of its
    first parameter. Any if the code says nothing that JSON can be."""
    found = _of_class(target) if inspect.isclass(target) else _of_function(target)
    return found if _is_json(found) else Any


def require_json(request_type: Any, agent: str) -> None:
    """Raise UsageError for a type that no request can have."""
    if not _is_json(request_type):
        raise UsageError(
            f"requests of {agent} cannot be {request_type!r}: give a dataclass, a msgspec struct, "
            "or another type that msgspec reads from JSON"
        )


def _of_class(loop: type[Any]) -> Any:
    for each in loop.__mro__:
        for base in getattr(each, "__orig_bases__", ()):
            if isinstance(get_origin(base), type) and issubclass(get_origin(base), AgentLoop):
                return get_args(base)[0]
    return Any


def _of_function(function: Callable[..., Any]) -> Any:
    try:
        hints = get_type_hints(function)
        first = next(iter(inspect.signature(function).parameters))
    except (NameError, StopIteration, TypeError, ValueError):
        return Any  # names that only type checkers know, no parameters, or written in C
    return hints.get(first, Any)


def _is_json(kind: Any) -> bool:
    if isinstance(kind, TypeVar):
        return False
    try:
        msgspec.json.schema(kind)
    except (TypeError, RuntimeError):
        return False
    return True
