"""Wake-ups: whoever waits for news of a database file hears of it within milliseconds.

- Topics are names that writers and waiters agree on; nothing is known about them here.
- In the process a condition variable wakes; between processes a datagram to a socket beside the
  file; and if both fail, or a foreign program writes, a look at the file every half second.
- A wake-up is a hint to look, never the news itself: it may come for nothing, and it carries no
  data. Nothing is lost with a process that dies before it could ring.

Waiting without losing a wake-up goes in this order:

    seen = bell.count(topic)
    if not look_for_work():
        bell.wait(topic, seen, timeout)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.listener import Listener
from afl.db.sockets import send, wake_folder
from afl.db.waiting import WaitingRoom


class Bell:
    """The wake-ups of one database file in this process.

    `version` tells a number that changes when other processes have changed the file, or None if
    it cannot tell now. `guard` raises where the bell must not be used.
    """

    def __init__(
        self,
        path: str,
        version: Callable[[], int | None],
        *,
        clock: Clock = SYSTEM_CLOCK,
        poll_interval_s: float = 0.5,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = wake_folder(path)
        self._version = version
        self._poll_interval_s = poll_interval_s
        self._guard = guard
        self._room = WaitingRoom(clock, self._attend)
        self._is_closed = False
        self._starting = threading.Lock()
        self._listener: Listener | None = None

    @property
    def waiters(self) -> int:
        """How many wait now."""
        return self._room.waiters

    def count(self, topic: str) -> int:
        """A number that grows whenever `topic` is rung. Take it before you look for work.

        From the first call on, this process listens to the others.
        """
        self._guard()
        self._listen()
        return self._room.count(topic)

    def ring(self, topics: Iterable[str]) -> None:
        """Wake all who wait for one of `topics`. Called after the COMMIT, so that they find it."""
        topics = tuple(topics)
        self._room.heard(topics)
        if self._folder is not None:
            listener = self._listener
            send(self._folder, topics, skip=listener.name if listener else None)

    def wait(
        self,
        topic: str,
        seen: int,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> bool:
        """Wait until `topic` has been rung since `seen` was counted; True if it was.

        False at the timeout, when `stop` is set and when the bell is closed; each ends the wait
        at once.
        """
        self._guard()
        self._listen()
        return self._room.wait(topic, seen, timeout, stop)

    def attend(self, topic: str, told: Callable[[], None]) -> Callable[[], None]:
        """Wait without a thread: `told` is called whenever `topic` is rung, and when the bell is
        closed; it must wait for nobody. Call what this gives to end it."""
        self._guard()
        self._listen()
        return self._room.attend(topic, told)

    def close(self) -> None:
        """Wake all waiters and listen no more. Rings of this process still reach the others."""
        with self._starting:
            self._is_closed = True
            listener, self._listener = self._listener, None
        self._room.close()
        if listener is not None:
            listener.close()

    def _attend(self) -> None:
        if listener := self._listener:
            listener.attend()

    def _listen(self) -> None:
        if self._listener is not None or self._is_closed:
            return
        with self._starting:
            if self._listener is None and not self._is_closed:
                self._listener = Listener(
                    self._folder,
                    self._version,
                    self._poll_interval_s,
                    heard=self._room.heard,
                    is_attended=lambda: self.waiters > 0,
                )
