"""What a watchdog sees of a loop, and what it calls one that hangs."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from afl.backoff import format_duration
from afl.runtime.heartbeat import Heartbeat


class StallStage(StrEnum):
    """How far the watchdog has gone with a loop that hangs."""

    #: It is named, and the process is not ready.
    SUSPECTED = "suspected"
    #: Its work was asked to stop.
    CANCELLED = "cancelled"
    #: The processes that do its work were killed.
    FORCED = "forced"
    #: This process is killed.
    KILLED = "killed"

    @classmethod
    def after(cls, stage: StallStage | None) -> StallStage:
        """The stage that follows; the last one follows itself."""
        stages = list(cls)
        following = stages.index(stage) + 1 if stage is not None else 0
        return stages[min(following, len(stages) - 1)]


class Stall(NamedTuple):
    """A loop that hangs."""

    loop: str
    stage: StallStage
    #: Seconds without a beat and without progress, and how many it may.
    silent_s: float
    limit_s: float
    #: What it was running, and where it hangs.
    handler: str
    line: str

    def __str__(self) -> str:
        return (
            f"loop {self.loop} hangs: no beat and no progress for "
            f"{format_duration(round(self.silent_s, 1))}, where "
            f"{format_duration(round(self.limit_s, 1))} are allowed; "
            f"handler {self.handler}, at {self.line}"
        )


class LoopView(Protocol):
    """What the watchdog sees of a loop.

    The methods are called on threads of the watchdog, and by probes: they should neither wait nor
    need a lock that the loop holds while it works. A loop may also have a `thread`, to be looked
    at when it hangs; else that is the thread that beat last.
    """

    @property
    def name(self) -> str: ...

    @property
    def heartbeat(self) -> Heartbeat | None:
        """Its sign of life, or None if nobody is to watch it."""
        ...

    def is_watched(self) -> bool:
        """Whether it has to give signs of life: it runs, and neither drains nor has ended."""
        ...

    def progress(self) -> int:
        """A number that changes whenever any work moves on."""
        ...

    def longest_turn_s(self) -> float | None:
        """How long a turn may take without a sign of life, if it said so."""
        ...


@runtime_checkable
class Rescuable(Protocol):
    """A loop that can be helped before the whole process is killed."""

    def rescue(self, stage: StallStage) -> None:
        """CANCELLED: ask the work that hangs to stop. FORCED: kill the process that does it."""
        ...


class BareLoop:
    """A heartbeat that is watched on its own."""

    def __init__(self, name: str, heartbeat: Heartbeat) -> None:
        self.name = name
        self.heartbeat: Heartbeat | None = heartbeat

    def is_watched(self) -> bool:
        return True

    def progress(self) -> int:
        return 0

    def longest_turn_s(self) -> float | None:
        return None
