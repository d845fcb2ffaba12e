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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from afl.clock import SYSTEM_CLOCK, Clock, condition_of
from afl.db.listener import Listener
from afl.db.sockets import send, wake_folder

_TOPICS = 4096  # remembered one by one


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
        self._clock = clock
        self._poll_interval_s = poll_interval_s
        self._guard = guard
        # Order of locks: that of a waiter's condition first, this one second.
        self._lock = threading.Lock()
        self._numbers = _Numbers()
        self._waiting: defaultdict[str, list[threading.Condition]] = defaultdict(list)
        self._waiters = 0
        self._is_closed = False
        self._starting = threading.Lock()
        self._listener: Listener | None = None

    @property
    def waiters(self) -> int:
        """How many threads wait now."""
        return self._waiters

    def count(self, topic: str) -> int:
        """A number that grows whenever `topic` is rung. Take it before you look for work.

        From the first call on, this process listens to the others.
        """
        self._guard()
        self._listen()
        with self._lock:
            return self._numbers.of(topic)

    def ring(self, topics: Iterable[str]) -> None:
        """Wake all who wait for one of `topics`. Called after the COMMIT, so that they find it."""
        topics = tuple(topics)
        self._heard(topics)
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
        stop = threading.Event() if stop is None else stop

        def is_over() -> bool:
            return self._is_closed or stop.is_set() or self._is_rung(topic, seen)

        condition = condition_of(stop)  # wakes for both: the stop and the bell
        with self._attending(topic, condition), condition:
            self._clock.wait_for(condition, is_over, timeout)
        return self._is_rung(topic, seen)

    def close(self) -> None:
        """Wake all waiters and listen no more. Rings of this process still reach the others."""
        with self._starting:
            self._is_closed = True
            listener, self._listener = self._listener, None
        self._notify(None)
        if listener is not None:
            listener.close()

    def _is_rung(self, topic: str, seen: int) -> bool:
        with self._lock:
            return self._numbers.of(topic) > seen

    def _heard(self, topics: tuple[str, ...] | None) -> None:
        """These topics were rung here or elsewhere; None: any may have been."""
        with self._lock:
            self._numbers.grow(topics)
        self._notify(topics)

    def _notify(self, topics: tuple[str, ...] | None) -> None:
        with self._lock:
            chosen = self._waiting if topics is None else topics
            conditions = {each for topic in chosen for each in self._waiting.get(topic, ())}
        # A waiter holds its condition from looking at the number until it sleeps. We changed the
        # number before we ask for the condition, so either it has seen that or it is notified.
        for condition in conditions:
            with condition:
                condition.notify_all()

    @contextmanager
    def _attending(self, topic: str, condition: threading.Condition) -> Iterator[None]:
        with self._lock:
            self._waiting[topic].append(condition)
            self._waiters += 1
        try:
            if listener := self._listener:
                listener.attend()
            yield
        finally:
            with self._lock:
                self._waiters -= 1
                self._waiting[topic].remove(condition)
                if not self._waiting[topic]:
                    del self._waiting[topic]

    def _listen(self) -> None:
        if self._listener is not None or self._is_closed:
            return
        with self._starting:
            if self._listener is None and not self._is_closed:
                self._listener = Listener(
                    self._folder,
                    self._version,
                    self._poll_interval_s,
                    heard=self._heard,
                    is_attended=lambda: self._waiters > 0,
                )


class _Numbers:
    """For each topic a number that grows; for the long forgotten, one they all share.

    Topics may be as many as there are runs, so only the latest are kept. Forgetting one shows it
    as rung, which costs its waiters one look.
    """

    def __init__(self) -> None:
        self._last = 0
        self._others = 0
        self._known: dict[str, int] = {}

    def of(self, topic: str) -> int:
        return self._known.get(topic, self._others)

    def grow(self, topics: tuple[str, ...] | None) -> None:
        self._last += 1
        if topics is None:
            self._forget_all()
            return
        for topic in topics:
            self._known[topic] = self._last
        if len(self._known) > _TOPICS:
            self._forget_all()

    def _forget_all(self) -> None:
        self._others = self._last
        self._known.clear()
