"""One run of a group: through all phases, on the thread that called it.

Everything that a run changes is in its object, so the next run starts clean.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from afl import telemetry
from afl.runtime.dependencies import Dependency, Probe, WarmupStep, problems_of
from afl.runtime.health import HealthServer
from afl.runtime.lifecycle.abandoned import name_abandoned
from afl.runtime.lifecycle.coordinator import ShutdownCoordinator, Urgency
from afl.runtime.lifecycle.drain import Drain, Pressure
from afl.runtime.lifecycle.measures import Measures
from afl.runtime.lifecycle.members import Member, members_of
from afl.runtime.lifecycle.news import News
from afl.runtime.lifecycle.reports import Reports
from afl.runtime.lifecycle.runnable import Runnable
from afl.runtime.lifecycle.settings import GroupSettings, RunOptions
from afl.runtime.lifecycle.systemd import Systemd
from afl.runtime.phases import Phase, Phases
from afl.runtime.watchdog import Stall, Watchdog

_ASKED = "asked to stop"
#: How often the supervisor looks around when nothing happens.
_TICK_S = 1.0


class GroupRun:
    """`run` blocks and is called once; everything else is safe from any thread."""

    def __init__(
        self,
        loops: Sequence[Runnable],
        settings: GroupSettings,
        options: RunOptions,
        stop: threading.Event,
        request_stop: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._options = options
        self._clock = settings.clock
        self._stop = stop
        self._request_stop = request_stop
        self._news = News(stop, self._clock)
        self._lock = threading.Lock()
        self._coordinator: ShutdownCoordinator | None = None
        self._pressure = Pressure()
        self._reason: str | None = None
        self._is_paused = False
        #: Members that do not run because of drain mode, or not yet.
        self._resting: list[Member] = []
        self.members = members_of(loops, self._note_end)
        self.phases = Phases(self._clock)
        self.reports = Reports(
            self.members,
            self.phases,
            self._clock,
            stopping=self._stopping,
            hold=self._hold,
            stalls=self._stalls,
        )
        self.measures = Measures(self.members, self.phases, self.reports, self._clock)
        self._watchdog = self._make_watchdog()
        self._systemd = Systemd(self._clock)
        self._tick_s = min(_TICK_S, self._systemd.interval_s)
        self.health: HealthServer | None = None
        #: Loops that did not end in time.
        self.abandoned: tuple[Member, ...] = ()

    # For others

    def ask(self, urgency: Urgency, reason: str) -> None:
        """Begin to stop, or hurry more. Not for signal handlers."""
        with self._lock:
            self._pressure.urgency = max(self._pressure.urgency, urgency)
            self._reason = self._reason or reason
        self._request_stop()
        # At once, also on the main thread: what is not started yet must not start.
        self._stop.set()
        self._news.tell()

    def allow(self, seconds: float) -> None:
        """Let a drain that has not begun take so long, if that is longer than configured."""
        if not self._stop.is_set():
            self._pressure.patience = max(self._pressure.patience, seconds)

    def pause(self, is_paused: bool) -> None:
        """Take no work for a while, or take work again."""
        self._is_paused = is_paused
        self._news.tell()

    # The walk

    def run(self) -> None:
        with ExitStack() as stack:
            self._open(stack)
            try:
                self._start_up()
                self._work()
            finally:
                # However it ended, and if by Ctrl-C: the loops are asked and waited for.
                self._drain()
        self._raise_failures()

    def _open(self, stack: ExitStack) -> None:
        """What is opened first is closed last: probes are answered to the very end, and a signal
        that comes even later does no harm."""
        self._hear_signals(stack)
        self.measures.open(stack)
        self._serve_health(stack)
        for notice in self._settings.notices:
            stack.callback(notice.stop)
            notice.start(partial(self.ask, Urgency.DRAIN))

    def _start_up(self) -> None:
        ended = self._stop
        self.reports.dependencies = [self._probe(each) for each in self._settings.dependencies]
        self._wait_for_checks()
        if not ended.is_set():
            self.phases.enter(Phase.WARMUP, "all dependencies can be reached")
        for step in self._settings.warmup:
            if not ended.is_set():
                self.reports.warmup = self._probe(step)
                self._wait_for_checks()
        if not ended.is_set():
            self.phases.enter(Phase.READY, "warm")

    def _work(self) -> None:
        if self._stop.is_set():
            return
        self._resting = list(self.members)
        self._apply_pause()
        self._systemd.started()
        if self._watchdog is not None:
            self._watchdog.start()
        while not self._stop.is_set() and not self._has_reason_to_stop():
            self._wait()
            self._apply_pause()

    def _drain(self) -> None:
        self._request_stop()
        if self._watchdog is not None:
            # The deadline ends what hangs now; a long last piece of work is no reason to kill.
            self._watchdog.stop()
        self.phases.enter(Phase.DRAIN, self._reason or _ASKED)
        self._systemd.stopping()
        drain = Drain(
            self.members,
            self._settings.drain_times,
            self._pressure,
            self._news,
            self._clock,
            tick_s=self._tick_s,
            on_tick=self._tick,
        )
        self.abandoned = tuple(drain.run())
        for member in self.abandoned:
            assert member.thread is not None, "only what runs can be left behind"
            name_abandoned(member.name, member.thread.ident, self._clock)
        self.phases.enter(Phase.TERMINATE, self._how_it_ended())

    # Its parts

    def _make_watchdog(self) -> Watchdog | None:
        threshold = self._settings.watchdog_threshold
        if threshold is None:
            return None
        return Watchdog(
            self.members,
            stall_threshold=threshold,
            check_interval=self._settings.watchdog_interval,
            clock=self._clock,
            on_stall=self._settings.on_stall,
        )

    def _hold(self) -> str | None:
        """Why no work is taken although the phase is ready."""
        if self._is_paused:
            return "drain mode: no work is taken"
        return "not all loops run yet" if self._resting else None

    def _stopping(self) -> str | None:
        """Why this is about to stop: known to the coordinator before anybody has acted on it."""
        if self._stop.is_set():
            return self._reason or _ASKED
        coordinator = self._coordinator
        return coordinator.reason if coordinator is not None and coordinator.triggered else None

    def _stalls(self) -> list[Stall]:
        return [] if self._watchdog is None else self._watchdog.stalls()

    def _serve_health(self, stack: ExitStack) -> None:
        if self._settings.health_port is None:
            return
        reports = self.reports
        self.health = HealthServer(
            self._settings.health_host,
            self._settings.health_port,
            live=reports.live,
            ready=reports.ready,
            startup=reports.startup,
            status=reports.status,
            metrics=self.measures.metrics.render,
        )
        stack.callback(self.health.stop)
        self.health.start()
        self._tell_address(self.health)

    def _tell_address(self, health: HealthServer) -> None:
        """Where probes are answered: with port 0, nobody else knows."""
        if health.address is None:
            return
        host, port = health.address
        telemetry.emit(telemetry.HealthServed(at=self._clock.now(), host=host, port=port))
        for each in self.members:
            each.probed_at(port)

    def _hear_signals(self, stack: ExitStack) -> None:
        if not self._options.install_signals:
            return
        coordinator = ShutdownCoordinator.borrow(self._settings.on_replaced, self._clock)
        if coordinator is None:
            return
        self._coordinator = coordinator
        stack.callback(coordinator.give_back)
        for urgency in Urgency:
            callback = partial(self._heard_signal, coordinator, urgency)
            stack.callback(coordinator.unregister, callback)
            coordinator.register(callback, urgency=urgency)

    def _heard_signal(self, coordinator: ShutdownCoordinator, urgency: Urgency) -> None:
        self.ask(urgency, coordinator.reason)

    def _probe(self, check: Dependency | WarmupStep) -> Probe:
        probe = Probe(check, self._clock, self._stop, self._news.tell)
        probe.start()
        return probe

    def _wait_for_checks(self) -> None:
        while not self._stop.is_set() and self._failing_checks():
            self._wait()

    def _failing_checks(self) -> list[str]:
        step = self.reports.warmup
        return problems_of([*self.reports.dependencies, *([step] if step is not None else [])])

    # Supervision

    def _note_end(self, member: Member) -> None:
        """On the thread of a loop, which ends with this."""
        if member.error is not None:
            telemetry.emit(
                telemetry.LoopFailed(
                    at=self._clock.now(), loop=member.name, error=repr(member.error)
                )
            )
        self._news.tell()

    def _wait(self) -> None:
        began_at = self._clock.monotonic()
        self._news.wait(self._tick_s)
        self.measures.note_lag(self._clock.monotonic() - began_at - self._tick_s)
        self._tick()

    def _tick(self) -> None:
        self.reports.tick()
        self._systemd.tick()

    def _has_reason_to_stop(self) -> bool:
        failed = [each for each in self.members if each.error is not None]
        if failed:
            self._reason = self._reason or f"{failed[0].name} failed: {failed[0].error!r}"
        elif not self._resting and not any(each.is_alive for each in self.members):
            self._reason = self._reason or "all loops have ended"
        else:
            return False
        return True

    def _apply_pause(self) -> None:
        """Bring the loops to what drain mode says: a loop that rests is run again after it."""
        if self._stop.is_set():
            return
        if self._is_paused:
            for member in self.members:
                if member.is_alive and member not in self._resting:
                    self._resting.append(member)
                member.ask(self._settings.drain_deadline, self._news.tell)
            return
        for member in [each for each in self._resting if each.is_at_rest]:
            member.start(self._options.for_loops())
            self._resting.remove(member)

    # The end

    def _how_it_ended(self) -> str:
        if self.abandoned:
            return "left behind: " + ", ".join(each.name for each in self.abandoned)
        return "all loops have ended"

    def _raise_failures(self) -> None:
        errors = []
        for member in self.members:
            if member.error is not None:
                member.error.add_note(f"in the loop {member.name}")
                errors.append(member.error)
        if errors:
            text = f"{len(errors)} of {len(self.members)} loops failed"
            raise BaseExceptionGroup(text, errors)
