"""What a loop is to those who run it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from afl.runtime.heartbeat import Heartbeat


@runtime_checkable
class Runnable(Protocol):
    """Anything that runs in a `LoopGroup`.

    A loop may have more, and the group uses what is there:

    - `name`, for logs and probes.
    - `request_stop()`: asks for the stop without waiting; without it, `shutdown` is called.
    - `expect_run()`: called before the thread of a run starts, so that no stop is lost meanwhile.
    - `stop_order`: loops with a higher one go on until those with lower ones are done; 0 if absent.
    - `checkpoint()`: called once, on a thread of its own, when the time of a drain runs out: save
      what is unfinished and let the run end.
    - `in_flight`: pieces of work it has in hand, a number.
    - `progress`: a number that grows when any work moves on; the watchdog looks at it.
    - `longest_turn_s`: seconds that a turn may take without a beat, if longer than usual.
    - `rescue(stage)`: called by the watchdog before it kills; see `afl.runtime.watchdog`.
    - `leases_lost`: how many leases lapsed while it worked, a number that only grows.
    - `handled`: what it has ended, as (what, how many were done, how many failed).
    - `unready_reason`: why it cannot take work now, or None.
    - `probed_at(port)`: called before it runs, with the port at which the group answers probes.
    """

    def run(
        self,
        *,
        max_iterations: int | None = None,
        visibility_timeout: int = 300,
        wait_time_seconds: int = 20,
    ) -> None:
        """Work until stopped, until `max_iterations` polls are done, or until there is no more."""
        ...

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        """Ask for the stop and wait for it; False if it took longer than `timeout` seconds."""
        ...

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        ...

    @property
    def heartbeat(self) -> Heartbeat | None:
        """Its sign of life, or None if nobody is to watch it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leaving the block shuts down."""
        ...
