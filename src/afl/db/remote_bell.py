"""Wake-ups that come over a connection: whoever waits for news of a server hears of it at once.

- One thread for each server and process listens on a connection of its own; it starts with the
  first who wants to wait.
- While the connection is lost nobody is woken; when it is back everybody is, because anything may
  have happened meanwhile. So a wait outlives a restart of the server.
- A wake-up is a hint to look, never the news itself.

The order of waiting without losing a wake-up is that of `afl.db.wake`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.waiting import WaitingRoom
from afl.errors import StoreUnavailable
from afl.log import get_logger

_log = get_logger(__name__)

_END_S = 1.0
_RECONNECT = Backoff(initial=0.05, factor=1.6, maximum=2.0, jitter=0.5)


class Ear(Protocol):
    """A connection that hears announcements. Its methods raise StoreUnavailable when it is lost."""

    def hear(self) -> Iterable[str] | None:
        """Wait for news; the topics. None: any may have been rung."""

    def interrupt(self) -> None:
        """For another thread: end `hear`, now or when it is called, in whatever way."""

    def close(self) -> None: ...


class RemoteBell:
    """The wake-ups of one server in this process.

    `connect` makes an ear that hears everything from its making on. `publish` tells all processes.
    """

    def __init__(
        self,
        place: str,
        connect: Callable[[], Ear],
        publish: Callable[[tuple[str, ...]], None],
        *,
        clock: Clock = SYSTEM_CLOCK,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self._place = place
        self._connect = connect
        self._publish = publish
        self._guard = guard
        self.clock = clock
        self._room = WaitingRoom(clock)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ear: Ear | None = None
        self._thread: threading.Thread | None = None

    @property
    def waiters(self) -> int:
        """How many wait now."""
        return self._room.waiters

    def count(self, topic: str) -> int:
        """A number that grows whenever `topic` is rung. Take it before you look for work."""
        self._guard()
        self._listen()
        self._want(topic)
        return self._room.count(topic)

    def ring(self, topics: Iterable[str]) -> None:
        """Wake all who wait for one of `topics`, in all processes. Raises StoreUnavailable."""
        self._guard()
        self._publish(tuple(topics))

    def nudge(self, topic: str | None) -> None:
        """Wake who waits for `topic` in this process, or everybody: something that is only known
        here."""
        self._room.heard(None if topic is None else (topic,))

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
        self._want(topic)
        return self._room.wait(topic, seen, timeout, stop)

    def attend(self, topic: str, told: Callable[[], None]) -> Callable[[], None]:
        """Wait without a thread: `told` is called whenever `topic` is rung, and when the bell is
        closed; it must wait for nobody. Call what this gives to end it."""
        self._guard()
        self._listen()
        self._want(topic)
        return self._room.attend(topic, told)

    def close(self) -> None:
        """Wake all waiters and listen no more."""
        with self._lock:
            self._closed.set()
            thread = self._thread
        self.interrupt()
        self._room.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_S)  # it may be just connecting; then it ends later

    def interrupt(self) -> None:
        """Have the ear look at what is asked of it."""
        with self._lock:
            if self._ear is not None:
                self._ear.interrupt()

    def _want(self, topic: str) -> None:
        """Somebody counts it or waits for it. For those whose ears do not hear everything."""

    def _listen(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="afl-listener", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        failures = 0
        while not self._closed.is_set():
            try:
                self._attend(self._connect(), was_lost=failures > 0)
                failures = 1
            except Exception as error:
                failures += 1
                self._report(failures, error)
            SYSTEM_CLOCK.wait(self._closed, _RECONNECT.delay(failures))

    def _attend(self, ear: Ear, *, was_lost: bool) -> None:
        """Pass on what the ear hears, until it is lost or the bell is closed."""
        try:
            with self._lock:
                self._ear = ear
            if was_lost:
                _log.info("announcements_back", place=self._place)
            self._room.heard(None)
            while not self._closed.is_set():
                topics = ear.hear()
                if topics is None:
                    self._room.heard(None)
                elif heard := tuple(topics):
                    self._room.heard(heard)
        except StoreUnavailable as error:
            self._report(1, error)
        finally:
            with self._lock:
                self._ear = None
            with suppress(Exception):
                ear.close()

    def _report(self, failures: int, error: Exception) -> None:
        if failures > 1 or self._closed.is_set():
            return  # an outage is one event, however long
        if isinstance(error, StoreUnavailable):
            _log.warning("announcements_lost", place=self._place, reason=str(error))
        else:
            _log.exception("announcements_failed", place=self._place)
