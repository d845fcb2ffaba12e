"""Waiting for turns to change: with a thread, or without."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from afl.clock import Clock
from afl.errors import StoreClosed, StoreUnavailable

#: Waiters look again after this time, whatever they were told: the clock may have been set.
_LOOK_S = 1.0


class WakeUps(Protocol):
    def count(self, topic: str) -> int: ...

    def wait(
        self,
        topic: str,
        seen: int,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> bool: ...

    def attend(self, topic: str, told: Callable[[], None]) -> Callable[[], None]: ...


class Attending(ABC):
    """Who waits at a store. Subclasses say how they are woken."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_closed = False
        #: What anybody waits for now, and how many.
        self._awaited: Counter[str] = Counter()
        self._awaiting = threading.Lock()

    @property
    @abstractmethod
    def _bell(self) -> WakeUps: ...

    def _topic(self, name: str) -> str:
        """What to wait for at the bell, in the place of a name with any characters."""
        return name

    def _wait(
        self,
        name: str,
        ms_left: Callable[[], float],
        timeout: float | None,
        stop: threading.Event,
    ) -> bool:
        """Wait until nothing is left to wait for: True. An outage during the wait does not end it:
        the bell rings when the store is back."""
        topic = self._topic(name)
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        is_patient = False
        self._await(topic, 1)
        try:
            while not (self._is_closed or stop.is_set()):
                seen = self._bell.count(topic)
                left = self._seconds_left(ms_left, is_patient)
                patience = deadline - self._clock.monotonic()
                if left <= 0 or patience <= 0:
                    return left <= 0
                self._bell.wait(topic, seen, min(left, patience, _LOOK_S), stop)
                is_patient = True
        except StoreClosed:
            return False
        finally:
            self._await(topic, -1)
        return False

    def _seconds_left(self, ms_left: Callable[[], float], is_patient: bool) -> float:
        try:
            return ms_left() / 1000
        except StoreUnavailable:
            if not is_patient:
                raise
            return math.inf

    def _watch(self, name: str, told: Callable[[], None]) -> Callable[[], None]:
        topic = self._topic(name)
        part = self._bell.attend(topic, told)
        self._await(topic, 1)

        def end() -> None:
            self._await(topic, -1)
            part()

        return end

    def _await(self, topic: str, change: int) -> None:
        """So many more wait for it: who closes the store rings it."""
        with self._awaiting:
            self._awaited[topic] += change
            if not self._awaited[topic]:
                del self._awaited[topic]

    def _all_awaited(self) -> tuple[str, ...]:
        with self._awaiting:
            return tuple(self._awaited)
