"""Turn stores on servers: what they have in common."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from afl.clock import Clock
from afl.db.batching import Batching
from afl.db.remote_bell import RemoteBell
from afl.db.sharing import Held
from afl.errors import StoreClosed
from afl.turns.stored import StoredTurns

T = TypeVar("T")

#: Milliseconds since 1970 in place of the server's time. Only tests have one.
Told: TypeAlias = Callable[[], int]


class RemoteTurns(StoredTurns):
    """Changes that wait together are committed together. Others in this process may use the same
    connections."""

    def __init__(self, clock: Clock, told: Told | None) -> None:
        super().__init__(clock)
        self._told: Callable[[], int | None] = _nothing if told is None else told
        self._closing = threading.Lock()

    @property
    @abstractmethod
    def _place(self) -> Held: ...

    @property
    @abstractmethod
    def _bell(self) -> RemoteBell: ...

    @property
    @abstractmethod
    def _writer(self) -> Batching[Any]: ...

    def now_ms(self) -> int:
        return self._look(lambda shelf: shelf.now_ms())

    def close(self) -> None:
        """Write what was asked for, and let go; others in this process may go on."""
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        try:
            self._writer.close()
        finally:
            for each in self._all_awaited():
                self._bell.nudge(each)
            self._place.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(
                f"the turns on {self._place.place} were closed; whoever uses them must stop"
            )
        self._place.check()


def _nothing() -> None:
    return None
