"""What a running group says of itself, to probes and to people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from afl.clock import Clock
from afl.runtime.dependencies import Probe, problems_of
from afl.runtime.health import Report
from afl.runtime.lifecycle.members import Member
from afl.runtime.lifecycle.runs import LoopState
from afl.runtime.phases import Phase, Phases
from afl.runtime.watchdog import Stall

#: A supervisor that has not looked around for this long hangs.
_DEAD_AFTER_S = 30.0


class Reports:
    """Reads the state of one run; takes no lock and never waits."""

    def __init__(
        self,
        members: Sequence[Member],
        phases: Phases,
        clock: Clock,
        *,
        stopping: Callable[[], str | None],
        hold: Callable[[], str | None],
        stalls: Callable[[], Sequence[Stall]],
    ) -> None:
        self._members = members
        self._phases = phases
        #: Why it is about to stop, or None.
        self._stopping = stopping
        #: Why no work is taken although the phase is ready, or None.
        self._hold = hold
        self._stalls = stalls
        self._clock = clock
        self.dependencies: Sequence[Probe] = ()
        #: The step that is being done.
        self.warmup: Probe | None = None
        self._ticked_at = clock.monotonic()

    def tick(self) -> None:
        """The supervisor has looked around."""
        self._ticked_at = self._clock.monotonic()

    def live(self) -> Report:
        """Whether the supervisor looks around. Nothing outside this process changes it, so an
        outage never restarts a fleet."""
        age = self._clock.monotonic() - self._ticked_at
        if age < _DEAD_AFTER_S:
            return Report(ok=True)
        return Report(ok=False, reasons=(f"the supervisor has been silent for {age:.0f} s",))

    def startup(self) -> Report:
        if self._phases.phase in (Phase.INIT, Phase.WARMUP):
            return Report(ok=False, reasons=tuple(self._starting()))
        return Report(ok=True)

    def ready(self) -> Report:
        reasons = self._unready()
        return Report(ok=not reasons, reasons=tuple(reasons))

    def status(self) -> dict[str, Any]:
        stay, ready = self._phases.now, self.ready()
        return {
            "phase": stay.phase,
            "since": stay.since.isoformat(),
            "seconds": round(self._clock.monotonic() - stay.since_s, 3),
            "reason": stay.reason,
            "ready": ready.ok,
            "reasons": list(ready.reasons),
            "loops": [_loop(each) for each in self._members],
            "dependencies": [_check(each) for each in self.dependencies],
        }

    def _unready(self) -> list[str]:
        stay = self._phases.now
        if stay.phase in (Phase.DRAIN, Phase.TERMINATE):
            return [f"{stay.phase}: {stay.reason}"]
        if (reason := self._stopping()) is not None:
            return [f"{Phase.DRAIN}: {reason}"]
        if stay.phase is not Phase.READY:
            return self._starting()
        reasons = [each for each in (self._hold(),) if each is not None]
        reasons += problems_of(self.dependencies)
        for member in self._members:
            reasons += [f"{member.name}: {each}" for each in _loop_problems(member)]
        return [*reasons, *map(str, self._stalls())]

    def _starting(self) -> list[str]:
        checks = [*self.dependencies, *([self.warmup] if self.warmup is not None else [])]
        phase = self._phases.phase
        return [f"{phase}: {each}" for each in problems_of(checks)] or [f"{phase}: not done yet"]


def _loop_problems(member: Member) -> list[str]:
    # A loop that ended by itself has no more to do, and the others go on without it.
    if member.state in (LoopState.STOPPED, LoopState.DRAINING):
        return []
    if member.state is not LoopState.RUNNING:
        return ["does not run yet"]
    reason = member.unready_reason
    return [] if reason is None else [reason]


def _loop(member: Member) -> dict[str, Any]:
    heartbeat = member.heartbeat
    return {
        "name": member.name,
        "state": "failed" if member.error is not None else member.state,
        "beat_age_s": round(heartbeat.elapsed(), 3) if heartbeat is not None else None,
        "in_flight": member.in_flight,
        "stop_order": member.stop_order,
    }


def _check(probe: Probe) -> dict[str, Any]:
    problem = probe.problem
    return {"name": probe.name, "ok": problem is None, "problem": problem}
