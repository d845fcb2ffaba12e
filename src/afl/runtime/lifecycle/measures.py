"""The numbers of a running group, for `/metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from afl import telemetry
from afl.clock import Clock
from afl.runtime import metrics
from afl.runtime.lifecycle.members import Member
from afl.runtime.lifecycle.reports import Reports
from afl.runtime.metrics import Metrics
from afl.runtime.phases import Phases


class Measures:
    """Feeds `metrics` with what one run knows, whenever somebody asks for it."""

    def __init__(
        self, members: Sequence[Member], phases: Phases, reports: Reports, clock: Clock
    ) -> None:
        self.metrics = Metrics()
        self._members = members
        self._phases = phases
        self._reports = reports
        self._clock = clock
        self.metrics.set_phase(phases.phase)
        self.metrics.on_render(self._read)

    def open(self, stack: ExitStack) -> None:
        """Hear of events until the stack closes."""
        stack.callback(telemetry.subscribe(self.metrics.hear))

    def note_lag(self, seconds: float) -> None:
        """The supervisor woke this much later than it wanted to."""
        self.metrics.set(metrics.LOOP_LAG, max(seconds, 0.0))

    def _read(self) -> None:
        self.metrics.set_phase(self._phases.phase)
        self.metrics.set(metrics.READY, int(self._reports.ready().ok))
        self.metrics.set(metrics.DRAIN, self._drain_seconds())
        for member in self._members:
            self._read_member(member)

    def _drain_seconds(self) -> float:
        began_at = self._phases.drain_began_at
        return 0.0 if began_at is None else self._clock.monotonic() - began_at

    def _read_member(self, member: Member) -> None:
        if member.heartbeat is not None:
            self.metrics.set(metrics.BEAT_AGE, member.heartbeat.elapsed(), loop=member.name)
        if member.in_flight is not None:
            self.metrics.set(metrics.IN_FLIGHT, member.in_flight, loop=member.name)
        if member.leases_lost is not None:
            self.metrics.set(metrics.LEASES_LOST, member.leases_lost, loop=member.name)
        for work, done, failed in member.handled:
            labels = {"loop": member.name, "work": work}
            self.metrics.set(metrics.HANDLED, done, outcome="done", **labels)
            self.metrics.set(metrics.HANDLED, failed, outcome="failed", **labels)
