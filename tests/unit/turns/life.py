"""A turn that is begun again and again, on a clock that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afl.clock import FakeClock
from afl.turns import Kind, MemoryTurns, NewTurn, Turn
from afl.turns.values import encode


class Hasty(FakeClock):
    """Whoever sleeps is awake at once, and it is later."""

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Life:
    """One turn, begun again and again."""

    def __init__(self) -> None:
        self.clock = Hasty()
        self.store = MemoryTurns(clock=self.clock)
        self.id = self.store.accept(NewTurn("loop", encode("hello"))).id
        self.done: list[Any] = []

    def begin(self) -> Turn:
        record = self.store.begin(self.id, "ann", 30_000)
        return Turn(self.store, record, clock=self.clock)

    def does(self, what: Any) -> Callable[[], Any]:
        def act() -> Any:
            self.done.append(what)
            return what

        return act

    def crashes(self, what: Any) -> Callable[[], Any]:
        def act() -> Any:
            self.done.append(what)
            raise KeyboardInterrupt

        return act

    def wake(self) -> Turn:
        """Begin it again although what it waits for has not come; it has read its journal."""
        self.store.wake(self.id)
        return self.begin()

    def ids(self) -> list[str]:
        """Of the tools that were called, in their order."""
        entries = self.store.read(self.id)
        return [each.call_id for each in entries if each.kind is Kind.TOOL_INTENT]

    def kinds(self) -> list[Kind]:
        return [each.kind for each in self.store.read(self.id)]
