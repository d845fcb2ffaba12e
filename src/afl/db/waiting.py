"""The waiting room: who in this process waits for topics, and how they are told.

How the news comes here is a matter of each database: `heard` is called by whatever hears it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from afl.clock import SYSTEM_CLOCK, Clock, condition_of

_TOPICS = 4096  # remembered one by one


class WaitingRoom:
    """`begun` is called on the thread of each new waiter, once it is counted."""

    def __init__(
        self, clock: Clock = SYSTEM_CLOCK, begun: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._begun = begun
        # Order of locks: that of a waiter's condition first, this one second.
        self._lock = threading.Lock()
        self._numbers = _Numbers()
        #: What to call when a topic is heard.
        self._waiting: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        self._waiters = 0
        self._is_closed = False

    @property
    def waiters(self) -> int:
        """How many wait now."""
        return self._waiters

    def count(self, topic: str) -> int:
        """A number that grows whenever `topic` is heard. Take it before you look for work."""
        with self._lock:
            return self._numbers.of(topic)

    def heard(self, topics: tuple[str, ...] | None) -> None:
        """These topics were rung here or elsewhere; None: any may have been."""
        with self._lock:
            self._numbers.grow(topics)
            waiting = self._waiting_for(topics)
        for told in waiting:
            told()

    def wait(
        self,
        topic: str,
        seen: int,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> bool:
        """Wait until `topic` has been heard since `seen` was counted; True if it was.

        False at the timeout, when `stop` is set and when the room is closed; each ends the wait
        at once.
        """
        stop = threading.Event() if stop is None else stop

        def is_over() -> bool:
            return self._is_closed or stop.is_set() or self.count(topic) > seen

        condition = condition_of(stop)  # wakes for both: the stop and the news
        part = self.attend(topic, partial(_notify, condition))
        try:
            with condition:
                self._clock.wait_for(condition, is_over, timeout)
        finally:
            part()
        return self.count(topic) > seen

    def attend(self, topic: str, told: Callable[[], None]) -> Callable[[], None]:
        """Wait without a thread: `told` is called whenever `topic` is heard, and when the room is
        closed, on the thread that hears it; it must wait for nobody. Call what this gives to end
        it."""
        self._join(topic, told)
        return partial(self._part, topic, told)

    def close(self) -> None:
        """Wake everybody; from now on nobody waits."""
        self._is_closed = True
        with self._lock:
            waiting = self._waiting_for(None)
        for told in waiting:
            told()

    def _waiting_for(self, topics: tuple[str, ...] | None) -> Sequence[Callable[[], None]]:
        if not self._waiting:
            return ()
        chosen = self._waiting if topics is None else topics
        return [each for topic in chosen for each in self._waiting.get(topic, ())]

    def _join(self, topic: str, told: Callable[[], None]) -> None:
        with self._lock:
            self._waiting[topic].append(told)
            self._waiters += 1
        self._begun()

    def _part(self, topic: str, told: Callable[[], None]) -> None:
        with self._lock:
            self._waiters -= 1
            self._waiting[topic].remove(told)
            if not self._waiting[topic]:
                del self._waiting[topic]


def _notify(condition: threading.Condition) -> None:
    # A waiter holds its condition from looking at the number until it sleeps. The number was
    # changed before we ask for the condition, so either it has seen that or it is notified.
    with condition:
        condition.notify_all()


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
