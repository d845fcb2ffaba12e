"""What boxes on servers have in common: waiting for news, closing, and the time of tests."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TypeAlias

from afl.db.remote_bell import RemoteBell
from afl.errors import StoreClosed, StoreUnavailable

#: How long a wait may sleep through an outage that it found by itself; the bell ends it earlier.
_OUTAGE_S = 1.0
#: Only the fallback: a connection that is dead and does not know it yet brings no news.
_LOOK_S = 15.0


#: Milliseconds that are added to the server's time. Only tests have another.
Offset: TypeAlias = Callable[[], int]


def no_offset() -> int:
    return 0


class RemoteBox(ABC):
    """`let_go` is called once, at the end."""

    def __init__(
        self,
        name: str,
        place: str,
        bell: RemoteBell,
        let_go: Callable[[], None],
        offset: Offset,
    ) -> None:
        self.name = name
        self.place = place
        self._bell = bell
        self._let_go = let_go
        self._topic = f"mailbox:{name}"
        self._offset = offset
        self._lock = threading.Lock()
        self._is_quiet = False
        self._is_closed = False

    @abstractmethod
    def _seconds_left(self) -> float:
        """Until something can be taken without anybody's doing: 0 now, infinite never."""

    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        self._require_open()
        stop = threading.Event() if stop is None else stop
        clock = self._bell.clock
        deadline = inf if timeout is None else clock.monotonic() + timeout
        seen = self._bell.count(self._topic)
        left_s = self._seconds_left()
        while left_s > 0:
            patience_s = deadline - clock.monotonic()
            if patience_s <= 0 or self._is_over(stop):
                return False
            self._bell.wait(self._topic, seen, min(patience_s, left_s, _LOOK_S), stop)
            if self._is_over(stop):
                return False
            seen = self._bell.count(self._topic)
            left_s = self._seconds_left_if_reached()
        return not self._is_over(stop)

    def _seconds_left_if_reached(self) -> float:
        # A wait outlives an outage: the bell rings when the server is back.
        with suppress(StoreUnavailable):
            return self._seconds_left()
        return _OUTAGE_S

    def _is_over(self, stop: threading.Event) -> bool:
        return self._is_quiet or stop.is_set()

    def end_waits(self) -> None:
        self._is_quiet = True
        self._nudge()

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self.end_waits()
        self._let_go()

    def _nudge(self) -> None:
        self._bell.nudge(self._topic)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(f"the mailbox {self.name} was closed; whoever uses it must stop")
