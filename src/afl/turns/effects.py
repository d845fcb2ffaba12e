"""Side effects: what may be done when nobody knows whether one happened, and under which key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from afl.ids import stable_id


@dataclass(frozen=True)
class Done:
    """The effect happened; this is what the tool returned, or would have."""

    value: Any = None


@dataclass(frozen=True)
class NotDone:
    """The effect did not happen, and will not: it may be tried again."""


@dataclass(frozen=True)
class Policy:
    """What a tool says about its effects. Unless it says something, a call that was interrupted
    waits for a person."""

    #: Asked twice with the same key, it acts once; or it has no effects.
    idempotent: bool = False
    #: Called with the key of an interrupted call: `Done`, `NotDone`, or None if it cannot tell.
    reconcile: Callable[[str], Any] | None = None


UNDECLARED = Policy()


def effect_key(turn_id: str, call_id: str) -> str:
    """The idempotency key of a tool call: the same however often the turn is resumed."""
    return stable_id("effect", turn_id, call_id)


def plan_key(turn_id: str, name: str, arguments: str) -> str:
    """What a call is for, whatever id the model gave it: finds calls that are planned again."""
    return stable_id("plan", turn_id, name, arguments)


# While a tool runs


@dataclass(eq=False)
class Effect:
    """The tool call, or the work of a handler, that the running code is part of."""

    #: Empty for that of a handler, which is in no journal.
    call_id: str
    key: str
    name: str = ""
    #: The call that it is part of, if a tool uses tools.
    outer: Effect | None = None
    #: Whether it was made before, and nobody knows what came of that: then what could not be sent
    #: says nothing about the effect.
    is_repeat: bool = False
    _requests: Iterator[int] = field(default_factory=lambda: count(1), repr=False)

    def next_key(self) -> str:
        """For one request to a server. The first has the key of the call; a tool that asks for
        several things has one for each, in their order."""
        number = next(self._requests)
        return self.key if number == 1 else stable_id("request", self.key, str(number))


_current: ContextVar[Effect | None] = ContextVar("afl_effect", default=None)


def current_effect() -> Effect | None:
    """None outside of tools of a durable turn and of handlers."""
    return _current.get()


class causing:  # noqa: N801 - used like a function
    """Let `current_effect()` be this one."""

    __slots__ = ("_effect", "_token")

    def __init__(self, effect: Effect) -> None:
        self._effect = effect

    def __enter__(self) -> Effect:
        self._token = _current.set(self._effect)
        return self._effect

    def __exit__(self, *_error: object) -> None:
        _current.reset(self._token)
