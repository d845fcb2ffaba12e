"""How many signals there were, although each is heard of in more than one way."""

from __future__ import annotations

from collections import Counter


class Received:
    """Signals so far. Lists are only appended to, which takes no lock: handlers may do it."""

    def __init__(self) -> None:
        #: Those that frameworks handed over.
        self.delegated: list[int] = []
        #: Those that our handlers got, and those that the socket told of: the same ones, but
        #: either may be late, or miss some.
        self.handled: list[int] = []
        self.told: list[int] = []
        self._called_for = 0

    def __len__(self) -> int:
        told, handled = Counter(self.told), Counter(self.handled)
        return len(self.delegated) + (told | handled).total()

    def first(self) -> int | None:
        return next(iter((*self.delegated, *self.told, *self.handled)), None)

    def is_waiting_for_handlers(self) -> bool:
        """Whether the main thread has not run the handlers of signals that came; says so once.

        A signal that comes just before the main thread waits is handled when the wait ends, which
        may be never.
        """
        told = len(self.told)
        is_late = told > max(len(self.handled), self._called_for)
        self._called_for = max(told, self._called_for)
        return is_late
