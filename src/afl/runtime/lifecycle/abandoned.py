"""Loops that did not end in time: whoever waits no longer names them, and where they hang."""

from __future__ import annotations

from afl import telemetry
from afl.clock import Clock
from afl.log import get_logger
from afl.runtime.stacks import place_of

_log = get_logger(__name__)


def name_abandoned(loop: str, thread: int | None, clock: Clock) -> None:
    """`thread` is the one that it runs on."""
    handler, line = place_of(thread)
    telemetry.emit(telemetry.LoopAbandoned(at=clock.now(), loop=loop, handler=handler, line=line))
    _log.error("loop_abandoned", loop=loop, handler=handler, line=line)
