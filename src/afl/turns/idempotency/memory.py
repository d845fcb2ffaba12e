"""Keys that live as long as the process: for one server, and for tests."""

from __future__ import annotations

import threading

from afl.clock import SYSTEM_CLOCK, Clock, now_ms

#: After so many changes, what is older than its time is deleted.
_SWEEP = 1000


class MemoryCells:
    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cells: dict[str, tuple[bytes, int]] = {}
        self._changes = 0

    def now_ms(self) -> int:
        return now_ms(self._clock)

    def get(self, key: str) -> bytes | None:
        with self._lock:
            value, until = self._cells.get(key, (b"", 0))
            return value if until > self.now_ms() else None

    def swap(self, key: str, old: bytes | None, new: bytes | None, ttl_ms: int) -> bool:
        with self._lock:
            value, until = self._cells.get(key, (b"", 0))
            now = self.now_ms()
            if (value if until > now else None) != old:
                return False
            self._cells.pop(key, None)
            if new is not None:
                self._cells[key] = (new, now + ttl_ms)
            self._sweep(now)
            return True

    def _sweep(self, now: int) -> None:
        self._changes += 1
        if self._changes % _SWEEP == 0:
            self._cells = {key: each for key, each in self._cells.items() if each[1] > now}

    def close(self) -> None:
        """There is nothing to let go of."""
