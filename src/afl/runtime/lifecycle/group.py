"""Running loops together: started, probed, watched and stopped as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.runtime.dependencies import Dependency, WarmupStep, as_dependency, as_step
from afl.runtime.health import Report
from afl.runtime.lifecycle.coordinator import OnReplaced, Urgency
from afl.runtime.lifecycle.group_run import GroupRun
from afl.runtime.lifecycle.runnable import Runnable
from afl.runtime.lifecycle.runs import LoopRuns
from afl.runtime.lifecycle.settings import GroupSettings, RunOptions, check_times
from afl.runtime.notices import Notice
from afl.runtime.phases import Phase
from afl.runtime.watchdog import Stall

#: What closing takes at most, after the loops have ended.
_CLOSING_S = 5.0


class LoopGroup:
    """Runs each loop on a thread of its own, until a signal comes or all have ended.

    `dependencies` must be reachable and `warmup` steps done before any loop runs. A stop asks all
    loops, those with a lower `stop_order` first, and waits for all of them until one deadline,
    `drain_deadline_seconds` (by default `shutdown_timeout`) later. The last
    `checkpoint_reserve_seconds` of it belong to checkpoints. After that, loops that hang are named
    and left behind. `settle_seconds` is the least time that probes are answered after readiness
    has failed.

    `health_port` serves probes (0: any free port). `watchdog_threshold` is the age of a beat from
    which a loop counts as stalled; None turns the watchdog off. `max_processing_seconds`,
    `termination_grace_seconds` and `pre_stop_seconds` are only compared with the other times; what
    contradicts itself is reported at the start, and refused if `strict`.
    """

    def __init__(
        self,
        loops: Sequence[Runnable],
        shutdown_timeout: float = 30.0,
        *,
        drain_deadline_seconds: float | None = None,
        health_port: int | None = None,
        health_host: str = "0.0.0.0",  # noqa: S104 - probes come from outside the container
        watchdog_threshold: float | None = 720.0,
        watchdog_interval: float = 60.0,
        dependencies: Sequence[Dependency | Callable[[], object]] = (),
        warmup: Sequence[WarmupStep | Callable[[], object]] = (),
        max_processing_seconds: float | None = None,
        termination_grace_seconds: float | None = None,
        pre_stop_seconds: float = 0.0,
        settle_seconds: float = 0.0,
        checkpoint_reserve_seconds: float | None = None,
        notices: Sequence[Notice] = (),
        on_replaced: OnReplaced | None = None,
        on_stall: Callable[[Stall], object] | None = None,
        strict: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not loops:
            raise UsageError("a group without loops has nothing to run; give it at least one")
        self.loops = tuple(loops)
        self.shutdown_timeout = shutdown_timeout
        deadline = drain_deadline_seconds
        self._settings = GroupSettings(
            drain_deadline=shutdown_timeout if deadline is None else deadline,
            health_port=health_port,
            health_host=health_host,
            watchdog_threshold=watchdog_threshold,
            watchdog_interval=watchdog_interval,
            dependencies=[as_dependency(each) for each in dependencies],
            warmup=[as_step(each) for each in warmup],
            max_processing=max_processing_seconds,
            termination_grace=termination_grace_seconds,
            pre_stop=pre_stop_seconds,
            settle=settle_seconds,
            checkpoint_reserve=checkpoint_reserve_seconds,
            notices=tuple(notices),
            on_replaced=on_replaced,
            on_stall=on_stall,
            strict=strict,
            clock=clock,
        )
        self._clock = clock
        self._runs = LoopRuns(clock)
        #: The run that goes on, or the last one.
        self._run: GroupRun | None = None

    def run(
        self,
        *,
        install_signals: bool = True,
        visibility_timeout: int = 1800,
        wait_time_seconds: int = 30,
        max_iterations: int | None = None,
    ) -> None:
        """Run all loops and return when they have ended.

        SIGTERM and SIGINT stop it, if this is the main thread or a coordinator is installed. Loops
        that raised come out together as an ExceptionGroup, after the others have stopped. Loops
        that had to be left behind are in `abandoned`. Raises ConfigurationError before anything
        starts, and UsageError if the group is running already.
        """
        options = RunOptions(install_signals, visibility_timeout, wait_time_seconds, max_iterations)
        with self._runs.running() as stop:
            check_times(self._settings, options)
            self._run = GroupRun(self.loops, self._settings, options, stop, self._runs.request_stop)
            self._run.run()

    def expect_run(self) -> None:
        """A run is about to begin on some thread: a stop from now on is for it."""
        self._runs.expect()

    def request_stop(self) -> None:
        """Ask for the stop; never waits, may be called again, and in a signal handler."""
        self._runs.request_stop()

    def shutdown(self, *, timeout: float | None = None) -> bool:
        """Stop all loops and wait; whether all of them have ended, also those that were started
        without the group.

        Waits as long as the drain takes, or `timeout` seconds. A timeout beyond the drain deadline
        prolongs the drain; a shorter one ends only this wait. Called by one of the loops, or by a
        handler of theirs, it only asks, and says False.
        """
        run = self._run
        waits = self.running and not self._runs.is_awaiting_caller()
        if run is not None and waits and timeout is not None:
            run.allow(timeout)
        patience = self._longest_drain() if timeout is None else timeout
        ends_at = self._clock.monotonic() + patience
        has_ended = self._runs.shutdown(patience)
        return has_ended and not self.abandoned and self._stop_others(ends_at)

    def _stop_others(self, ends_at: float) -> bool:
        """Loops that run without this group: ask them all, then wait for each."""
        others = [each for each in self.loops if each.running]
        for each in others:
            getattr(each, "request_stop", lambda: None)()
        # Each is asked, also behind one that has not ended.
        ended = [self._shut_down(each, ends_at) for each in others]
        return all(ended)

    def _shut_down(self, loop: Runnable, ends_at: float) -> bool:
        return loop.shutdown(timeout=max(ends_at - self._clock.monotonic(), 0.0))

    def _longest_drain(self) -> float:
        times = self._settings.drain_times
        # The drain ends itself at its deadline; this is the time to close what is open after it.
        return max(times.deadline, times.settle) + _CLOSING_S

    def drain(self) -> None:
        """Take no more work but stay up: readiness fails, work in hand is finished."""
        self._pause(True)

    def undrain(self) -> None:
        """Take work again after `drain`."""
        self._pause(False)

    def _pause(self, is_paused: bool) -> None:
        run = self._run
        if run is None or not self.running:
            raise UsageError("the group does not run; drain mode is for groups that do")
        run.pause(is_paused)
        telemetry.emit(telemetry.DrainModeChanged(at=self._clock.now(), is_on=is_paused))

    def checkpoint(self) -> None:
        """The time of the group that this one is in is over: have saved what is unfinished."""
        run = self._run
        if run is not None and self.running:
            run.ask(Urgency.CHECKPOINT, "asked to save now")

    # How it stands

    @property
    def running(self) -> bool:
        return self._runs.is_running

    @property
    def in_flight(self) -> int:
        """Pieces of work that the loops have in hand, as far as they say so."""
        run = self._run
        return 0 if run is None else sum(each.in_flight or 0 for each in run.members)

    @property
    def unready_reason(self) -> str | None:
        """What `ready` says, for the group that this one is in."""
        report = self.ready()
        return None if report.ok else "; ".join(report.reasons)

    @property
    def heartbeat(self) -> None:
        """A group is no loop to be watched: its loops are."""
        return

    @property
    def phase(self) -> Phase:
        """The phase of the run that goes on, or the last one of the run before."""
        run = self._run
        return Phase.INIT if run is None else run.phases.phase

    @property
    def abandoned(self) -> tuple[str, ...]:
        """Names of the loops that the last run had to leave behind."""
        run = self._run
        return () if run is None else tuple(each.name for each in run.abandoned)

    @property
    def health_address(self) -> tuple[str, int] | None:
        """Where probes are answered, while they are."""
        run = self._run
        return None if run is None or run.health is None else run.health.address

    def ready(self) -> Report:
        """What `/health/ready` answers."""
        run = self._run
        if run is None or not self.running:
            return Report(ok=False, reasons=("the group does not run",))
        return run.reports.ready()

    def status(self) -> dict[str, Any]:
        """What `/status` answers."""
        run = self._run
        return {} if run is None else run.reports.status()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()
