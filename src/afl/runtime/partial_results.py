"""Partial results of handlers on their way to the step.

A handler on a thread waits until its part is recorded. One on the shared event loop must not keep
that waiting, so its parts go through other threads, in their order, and its end waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING, Any

from afl.backoff import Backoff
from afl.clock import Clock
from afl.errors import StoreUnavailable
from afl.log import get_logger
from afl.runtime.json_values import json_object
from afl.work.attempts import Attempt
from afl.work.pool import PREFIX, Pool

if TYPE_CHECKING:
    import asyncio

_log = get_logger(__name__)

_BACKOFF = Backoff(initial=0.05, factor=2.0, maximum=1.0)
#: Few: parts that come together share a commit only if somebody writes them together.
_THREADS = 4

#: Takes a part of a result, and returns when it is recorded.
Write = Callable[[Mapping[str, Any]], object]


def _call(action: Callable[[], None]) -> None:
    action()


_pool: Pool[Callable[[], None]] = Pool(_THREADS, _call, f"{PREFIX}-parts")


def written_patiently(
    write: Write, values: Mapping[str, Any], attempt: Attempt, lease_s: float, clock: Clock
) -> None:
    """Record a part; wait for an outage of the store as long as the claim may hold. Raises
    StoreUnavailable if that is too long, or if nobody wants the result any more."""
    gives_up_at = clock.monotonic() + lease_s
    for tries in count(1):
        try:
            write(values)
            return
        except StoreUnavailable as error:
            pause = _BACKOFF.delay(tries)
            if clock.monotonic() + pause > gives_up_at or clock.wait(attempt.cancellation, pause):
                raise
            _log.warning("partial_result_not_recorded_yet", work=attempt.label, error=str(error))


class LoopParts:
    """The partial results of one handler on an event loop."""

    def __init__(self, write: Write, label: str) -> None:
        self._write = write
        self._label = label
        self._last: asyncio.Task[None] | None = None

    def add(self, values: Mapping[str, Any]) -> None:
        """Have a part recorded after those before it. Raises NotJson; what else goes wrong comes
        out of `settled`. On a thread without a loop it waits for the record."""
        import asyncio  # large, and here already if anybody needs it

        part = json_object(values, f"partial result of {self._label}")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write(part)
            return
        self._last = loop.create_task(self._record_after(self._last, part))
        self._last.add_done_callback(_looked_at)

    async def settled(self) -> None:
        """Wait until all are recorded. Raises what the first that failed raised."""
        if self._last is not None:
            await self._last

    def give_up(self) -> None:
        """Nobody wants what is not recorded yet."""
        if self._last is not None:
            self._last.cancel()  # and with it those that it waits for

    async def _record_after(
        self, before: asyncio.Task[None] | None, part: Mapping[str, Any]
    ) -> None:
        import asyncio

        if before is not None:
            await before
        done: Future[None] = Future()

        def record() -> None:
            if not done.set_running_or_notify_cancel():
                return  # nobody wants it any more
            try:
                self._write(part)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        _pool.put([record])
        await asyncio.wrap_future(done)


def _looked_at(task: asyncio.Task[None]) -> None:
    """Keep asyncio from reporting what `settled` tells, or what nobody wants to know."""
    if not task.cancelled():
        task.exception()
