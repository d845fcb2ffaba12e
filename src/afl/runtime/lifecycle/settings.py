"""What a group is told once, for all its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afl import telemetry
from afl.clock import Clock
from afl.errors import ConfigurationError
from afl.log import get_logger
from afl.runtime.dependencies import Dependency, WarmupStep
from afl.runtime.lifecycle.coordinator import OnReplaced
from afl.runtime.lifecycle.drain import DrainTimes
from afl.runtime.notices import Notice
from afl.runtime.timings import Timings, contradictions
from afl.runtime.watchdog import Stall

_log = get_logger(__name__)

#: The share of a drain that is kept for checkpoints, and the most that is.
_RESERVE_SHARE, _MOST_RESERVE_S = 0.2, 5.0


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """See `LoopGroup` for what they mean."""

    drain_deadline: float
    health_port: int | None
    health_host: str
    watchdog_threshold: float | None
    watchdog_interval: float
    dependencies: Sequence[Dependency]
    warmup: Sequence[WarmupStep]
    max_processing: float | None
    termination_grace: float | None
    pre_stop: float
    settle: float
    checkpoint_reserve: float | None
    notices: Sequence[Notice]
    on_replaced: OnReplaced | None
    on_stall: Callable[[Stall], object] | None
    strict: bool
    clock: Clock

    @property
    def drain_times(self) -> DrainTimes:
        reserve = self.checkpoint_reserve
        if reserve is None:
            reserve = min(self.drain_deadline * _RESERVE_SHARE, _MOST_RESERVE_S)
        return DrainTimes(self.drain_deadline, reserve, self.settle)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a group is told for one run, and tells its loops."""

    install_signals: bool
    visibility_timeout: int
    wait_time_seconds: int
    max_iterations: int | None

    def for_loops(self) -> dict[str, int | None]:
        options: dict[str, int | None] = {
            "visibility_timeout": self.visibility_timeout,
            "wait_time_seconds": self.wait_time_seconds,
        }
        if self.max_iterations is not None:
            options["max_iterations"] = self.max_iterations
        return options


def check_times(settings: GroupSettings, options: RunOptions) -> None:
    """Report times that contradict each other. Raises ConfigurationError if told to be strict."""
    found = contradictions(
        Timings(
            drain_deadline=settings.drain_deadline,
            visibility_timeout=options.visibility_timeout,
            wait_time=options.wait_time_seconds,
            watchdog_threshold=settings.watchdog_threshold,
            watchdog_interval=settings.watchdog_interval,
            max_processing=settings.max_processing,
            termination_grace=settings.termination_grace,
            pre_stop=settings.pre_stop,
            settle=settings.settle,
            checkpoint_reserve=settings.drain_times.reserve,
        )
    )
    if found and settings.strict:
        raise ConfigurationError("these times contradict each other: " + "; ".join(found))
    for each in found:
        telemetry.emit(telemetry.TimingsContradict(at=settings.clock.now(), reason=each))
        _log.warning("timings_contradict", reason=each)
