"""How a consumer works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError
from afl.runtime.heartbeat import Heartbeat

_MOST_THREADS = 64


@dataclass(frozen=True)
class Options:
    """Raises ConfigurationError for numbers with which nothing would ever be done."""

    #: Pieces in hand at once, of all kinds.
    concurrency: int = 5
    #: Threads for work that blocks one; None: as `concurrency`, at most 64.
    threads: int | None = None
    #: Only the fallback: waits end by announcement.
    poll_interval_s: float = 2.0
    #: How long running work may go on after a stop.
    drain_s: float = 30.0
    clock: Clock = SYSTEM_CLOCK
    #: Beats after each round trip to the source and each piece of work.
    heartbeat: Heartbeat | None = None
    #: Called when no more is taken. Must not wait, and may be called again.
    on_drain: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; expected 1 or more")
        if self.poll_interval_s <= 0:
            raise ConfigurationError(
                f"poll_interval_s is {self.poll_interval_s}; expected more than 0 seconds"
            )
        if self.drain_s < 0:
            raise ConfigurationError(
                f"drain_s is {self.drain_s}; expected 0 seconds or more, or infinity"
            )

    @property
    def thread_limit(self) -> int:
        return self.threads or min(self.concurrency, _MOST_THREADS)
