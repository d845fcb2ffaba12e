"""The phases of a process: init → warmup → ready → drain → terminate, never back."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock


class Phase(StrEnum):
    #: Waits until everything that it depends on can be reached.
    INIT = "init"
    #: Prepares itself.
    WARMUP = "warmup"
    #: Takes work.
    READY = "ready"
    #: Takes no more work and finishes, or checkpoints, what it has.
    DRAIN = "drain"
    #: Closes what is open and ends.
    TERMINATE = "terminate"


_ORDER = tuple(Phase)


@dataclass(frozen=True, slots=True)
class Stay:
    """Which phase it is, since when, and why."""

    phase: Phase
    since: datetime
    #: The same on monotonic time.
    since_s: float
    reason: str


class Phases:
    """Walks through the phases and tells of each step. Safe from any thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._now = self._stay(Phase.INIT, "started")
        #: On monotonic time; None while there was no drain.
        self.drain_began_at: float | None = None

    @property
    def now(self) -> Stay:
        return self._now

    @property
    def phase(self) -> Phase:
        return self._now.phase

    def enter(self, phase: Phase, reason: str) -> bool:
        """Go on to a later phase; False, and nothing happens, if it is reached already."""
        with self._lock:
            before = self._now
            if _ORDER.index(phase) <= _ORDER.index(before.phase):
                return False
            self._now = after = self._stay(phase, reason)
            if phase is Phase.DRAIN:
                self.drain_began_at = after.since_s
        telemetry.emit(
            telemetry.PhaseChanged(
                at=after.since,
                phase=str(phase),
                previous=str(before.phase),
                duration_s=after.since_s - before.since_s,
                reason=reason,
            )
        )
        return True

    def _stay(self, phase: Phase, reason: str) -> Stay:
        return Stay(phase, self._clock.now(), self._clock.monotonic(), reason)
