"""The times of a group as commands run it: what nobody said is as `LoopGroup` has it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from afl.runtime.lifecycle import LoopGroup
from afl.runtime.timings import Timings


def timings_of(
    *,
    drain_deadline: float,
    settle: float = 0.0,
    pre_stop: float = 0.0,
    termination_grace: float | None = None,
    max_processing: float | None = None,
) -> Timings:
    """What `timings.contradictions` asks for, with the defaults of a group."""
    return Timings(
        drain_deadline=drain_deadline,
        settle=settle,
        pre_stop=pre_stop,
        termination_grace=termination_grace,
        max_processing=max_processing,
        visibility_timeout=_default(LoopGroup.run, "visibility_timeout"),
        wait_time=_default(LoopGroup.run, "wait_time_seconds"),
        watchdog_threshold=_default(LoopGroup.__init__, "watchdog_threshold"),
        watchdog_interval=_default(LoopGroup.__init__, "watchdog_interval"),
    )


def _default(function: Callable[..., Any], parameter: str) -> Any:
    return signature(function).parameters[parameter].default
