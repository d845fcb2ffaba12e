"""Waiting because a service asked for it: who hears it from one call spares all others."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from weakref import WeakValueDictionary

from afl.clock import Clock


class Pause:
    """The time until which a service wants to be left alone. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0

    def ask(self, seconds: float) -> None:
        """Nobody calls for so long; a longer time that was asked for before stays."""
        with self._lock:
            self._until = max(self._until, self._clock.monotonic() + seconds)

    def left(self) -> float:
        """Seconds until calls are welcome."""
        return max(0.0, self._until - self._clock.monotonic())


_lock = threading.Lock()
_pauses: WeakValueDictionary[Hashable, Pause] = WeakValueDictionary()


def shared_pause(clock: Clock, *place: Hashable) -> Pause:
    """The pause of all in this process who call the same place, as long as one of them lives."""
    with _lock:
        pause = _pauses.get((clock, *place))
        if pause is None:
            pause = _pauses[(clock, *place)] = Pause(clock)
        return pause
