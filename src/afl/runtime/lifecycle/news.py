"""What wakes the thread that supervises a group."""

from __future__ import annotations

import threading

from afl.clock import Clock, condition_of


class News:
    """Ends the wait of one thread when a stop is asked for, and when anybody has news."""

    def __init__(self, stop: threading.Event, clock: Clock) -> None:
        self._stop = stop
        self._clock = clock
        # That of the event, so that its setting wakes us too.
        self._changed = condition_of(stop)
        self._told = 0
        self._seen = (0, False)

    def tell(self) -> None:
        """End the wait, or the next one. Not for signal handlers: it takes a lock."""
        with self._changed:
            self._told += 1
            self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Wait for what has not been seen yet, at most so many seconds."""
        with self._changed:
            self._clock.wait_for(self._changed, lambda: self._now() != self._seen, timeout)
            self._seen = self._now()

    def _now(self) -> tuple[int, bool]:
        return self._told, self._stop.is_set()
