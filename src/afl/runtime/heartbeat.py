"""Heartbeats: how a loop proves that it lives.

A loop beats when it begins to run, when a receive returns (with or without messages) and when a
piece of work is done; long work may beat in between. Readiness and the watchdog look at the age
of the last beat, and whoever must act on proof of work, such as renewing a lease, listens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from afl.clock import SYSTEM_CLOCK, Clock
from afl.log import get_logger

_log = get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Listener:
    callback: Callable[[], object]
    has_failed: bool = False


class Heartbeat:
    """When a loop last gave a sign of life. Safe from any thread; a new one has just beaten."""

    __slots__ = ("_beaten_at", "_beaten_by", "_listeners", "_lock", "_monotonic")

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._monotonic = clock.monotonic
        self._lock = threading.Lock()
        # Replaced as a whole, never changed, so that a beat needs no lock: a loop that holds ours
        # and hangs must not take those with it who beat.
        self._listeners: tuple[_Listener, ...] = ()
        self._beaten_by = threading.get_ident()
        self._beaten_at = self._monotonic()

    def beat(self) -> None:
        """Give a sign of life. Costs about a microsecond, waits for nothing and never raises."""
        self._beaten_at = self._monotonic()
        self._beaten_by = threading.get_ident()
        for listener in self._listeners:
            self._tell(listener)

    def elapsed(self) -> float:
        """Seconds since the last beat."""
        # Read before the clock: a beat in between must not give a negative age.
        beaten_at = self._beaten_at
        return self._monotonic() - beaten_at

    @property
    def beaten_by(self) -> int:
        """The thread of the last beat, as `threading.get_ident` has it: where to look for one
        that hangs."""
        return self._beaten_by

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` at each beat from now on, on the thread that beats.

        Callbacks run in the order of their registration. One that fails is logged once and
        disturbs neither the loop nor the others.
        """
        with self._lock:
            self._listeners = (*self._listeners, _Listener(callback))

    def remove_callback(self, callback: Callable[[], object]) -> None:
        """Stop calling `callback`. Raises ValueError if it was never added."""
        with self._lock:
            kept = list(self._listeners)
            for index, listener in enumerate(kept):
                if listener.callback == callback:
                    del kept[index]
                    self._listeners = tuple(kept)
                    return
        raise ValueError(f"{callback!r} is no callback of this heartbeat")

    def _tell(self, listener: _Listener) -> None:
        try:
            listener.callback()
        except Exception:
            if not listener.has_failed:
                # Once: beats are many, and a broken callback must not fill the disk.
                listener.has_failed = True
                _log.exception("heartbeat_callback_failed", callback=repr(listener.callback))
