"""The numbers of a deployment: all follow from the drain deadline. Every renderer has them here.

The rule is that of `afl.runtime.timings`: whoever kills waits longer than pre-stop, settle and
drain together, and ten seconds more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from afl.errors import UsageError
from afl.operations.deploying.options import DeployOptions
from afl.operations.group_times import timings_of
from afl.runtime.timings import GRACE_BUFFER_S, contradictions

#: Between two questions whether it is ready: one that fails is enough to get no more requests.
READY_PERIOD_S = 5
#: Between two questions whether it is alive, and how many must fail.
LIVE_PERIOD_S = 30
LIVE_FAILURES = 3
STARTUP_PERIOD_S = 5
#: What systemd waits for a sign of life.
WATCHDOG_S = 30
#: Requests are still sent to an instance for about this time after it is to stop.
_LATE_S = 5
#: What a rollout may take beyond the start of one instance.
_ROLLOUT_S = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """In seconds; whole ones where platforms want them."""

    drain_s: float
    settle_s: float
    pre_stop_s: int
    #: From SIGTERM to SIGKILL.
    stop_timeout_s: int
    #: What load balancers leave to connections that are open.
    deregistration_s: int
    startup_s: int
    startup_failures: int
    rollout_s: int

    @property
    def grace_s(self) -> int:
        """From the beginning of the pre-stop hook to SIGKILL."""
        return self.pre_stop_s + self.stop_timeout_s


def times_of(options: DeployOptions, *, has_hook: bool) -> Times:
    """All times of a deployment. `has_hook` tells whether the platform can wait before SIGTERM;
    UsageError if it cannot, and somebody wants that."""
    settle = options.settle if options.settle is not None else _late(options)
    pre_stop = _pre_stop(options, has_hook)
    startup = ceil(options.startup)
    work = settle + options.drain_deadline
    return Times(
        drain_s=options.drain_deadline,
        settle_s=settle,
        pre_stop_s=pre_stop,
        stop_timeout_s=_beyond(_ms(settle) + _ms(options.drain_deadline) + _ms(GRACE_BUFFER_S)),
        deregistration_s=ceil(work),
        startup_s=startup,
        startup_failures=ceil(startup / STARTUP_PERIOD_S),
        rollout_s=startup + _ROLLOUT_S,
    )


def _late(options: DeployOptions) -> int:
    """Nobody sends to a worker: it takes its tasks itself."""
    return _LATE_S if options.is_serving else 0


def _pre_stop(options: DeployOptions, has_hook: bool) -> int:
    if not has_hook and options.pre_stop:
        raise UsageError(
            "this platform has nothing that waits before SIGTERM; leave --pre-stop out, and give "
            "--settle if its load balancer is late"
        )
    if not has_hook:
        return 0
    return _late(options) if options.pre_stop is None else ceil(options.pre_stop)


def _ms(seconds: float) -> int:
    """Rounded up, and whole: sums of fractions hang on their order, and others add them too."""
    return ceil(seconds * 1000)


def _beyond(ms: int) -> int:
    """The first whole second that is later: at equality work that is being saved is killed."""
    return ms // 1000 + 1


def require_fit(times: Times, limit_s: int, platform: str, instead: str = "") -> None:
    """Raise UsageError if a platform kills before the drain is over, with the longest that fits."""
    if times.stop_timeout_s <= limit_s:
        return
    longest = (_ms(limit_s) - _ms(GRACE_BUFFER_S) - _ms(times.settle_s) - 1) // 1000
    advice = (
        f"the longest that fits is --drain-deadline {longest}s"
        if longest > 0
        else f"even without a drain, --settle {times.settle_s:g}s is too long"
    )
    raise UsageError(
        f"a drain of {times.drain_s:g} s does not fit: {platform} kills {limit_s} s after SIGTERM "
        f"at the latest, and settle {times.settle_s:g} s, drain {times.drain_s:g} s and "
        f"{GRACE_BUFFER_S:g} s to spare need {times.stop_timeout_s} s; {advice}{instead}"
    )


def warnings_of(options: DeployOptions, times: Times) -> list[str]:
    """What is not wrong with these times, but may not be meant."""
    found = contradictions(
        timings_of(
            drain_deadline=times.drain_s,
            settle=times.settle_s,
            pre_stop=times.pre_stop_s,
            termination_grace=times.grace_s,
            max_processing=options.max_processing,
        )
    )
    longest = options.max_processing
    if longest is not None and longest > times.drain_s:
        found.append(
            f"work of {longest:g} s does not end in a drain of {times.drain_s:g} s: what is "
            "unfinished then is saved or given back, and goes on elsewhere"
        )
    return found
