"""Times that must fit together: each rule, and what it says when it is broken.

A number that nobody gave is not guessed: its rules are checked as far as the others go.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What a platform must leave between the end of a drain and its SIGKILL.
GRACE_BUFFER_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Timings:
    """The times of a group of loops, in seconds."""

    drain_deadline: float
    visibility_timeout: float
    wait_time: float
    #: None: there is no watchdog.
    watchdog_threshold: float | None
    watchdog_interval: float
    #: The longest that one message may take, or None if nobody said.
    max_processing: float | None = None
    #: Until the platform kills, or None if nobody said.
    termination_grace: float | None = None
    pre_stop: float = 0.0
    settle: float = 0.0
    checkpoint_reserve: float = 0.0


def contradictions(times: Timings) -> list[str]:
    """Every rule that these times break, as sentences with the numbers."""
    checks = (_visibility_and_drain, _visibility_and_watchdog, _watchdog, _interval, _grace)
    found = [check(times) for check in (*checks, _reserve)]
    return [each for each in found if each is not None]


def _visibility_and_drain(times: Timings) -> str | None:
    least = times.drain_deadline + (times.max_processing or 0)
    if times.visibility_timeout > least:
        return None
    return (
        f"visibility_timeout ({_s(times.visibility_timeout)}) must be longer than the drain "
        f"deadline ({_s(times.drain_deadline)}){_processing(times)}: work that a draining process "
        "still does would be given to another"
    )


def _visibility_and_watchdog(times: Timings) -> str | None:
    if times.watchdog_threshold is None:
        return None
    if times.visibility_timeout > times.watchdog_threshold + (times.max_processing or 0):
        return None
    return (
        f"visibility_timeout ({_s(times.visibility_timeout)}) must be longer than "
        f"watchdog_threshold ({_s(times.watchdog_threshold)}){_processing(times)}: work of a "
        "loop that only seems to hang would be given to another"
    )


def _watchdog(times: Timings) -> str | None:
    if times.watchdog_threshold is None:
        return None
    if times.watchdog_threshold > times.wait_time + (times.max_processing or 0):
        return None
    return (
        f"watchdog_threshold ({_s(times.watchdog_threshold)}) must be longer than "
        f"wait_time_seconds ({_s(times.wait_time)}){_processing(times)}: the watchdog would kill "
        "a process that works"
    )


def _interval(times: Timings) -> str | None:
    if times.watchdog_threshold is None:
        return None
    if times.watchdog_interval < times.watchdog_threshold / 3:
        return None
    return (
        f"watchdog_interval ({_s(times.watchdog_interval)}) must be shorter than a third of "
        f"watchdog_threshold ({_s(times.watchdog_threshold)}): stalls would be seen late"
    )


def _grace(times: Timings) -> str | None:
    if times.termination_grace is None:
        return None
    needed = times.pre_stop + times.settle + times.drain_deadline + GRACE_BUFFER_S
    if times.termination_grace > needed:
        return None
    return (
        f"termination_grace_seconds ({_s(times.termination_grace)}) must be longer than "
        f"{_s(needed)}: pre-stop {_s(times.pre_stop)}, settle {_s(times.settle)}, drain "
        f"{_s(times.drain_deadline)} and {_s(GRACE_BUFFER_S)} to spare; the platform would kill "
        "a process that still saves its work"
    )


def _reserve(times: Timings) -> str | None:
    if times.checkpoint_reserve < times.drain_deadline or not times.checkpoint_reserve:
        return None
    return (
        f"checkpoint_reserve_seconds ({_s(times.checkpoint_reserve)}) must be shorter than the "
        f"drain deadline ({_s(times.drain_deadline)}): no time would be left to finish work"
    )


def _processing(times: Timings) -> str:
    if times.max_processing is None:
        return ""
    return f" and max_processing_seconds ({_s(times.max_processing)}) together"


def _s(seconds: float) -> str:
    return f"{seconds:g} s"
