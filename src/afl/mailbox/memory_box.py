"""A box in the memory of one process: what it holds dies with it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Generic, TypeVar

from afl.clock import condition_of, now_ms
from afl.errors import StoreClosed
from afl.mailbox.box import Burial, Buried, Delivery, Depth, Entry, Handle, Waiting
from afl.mailbox.memory_queue import MemoryQueue

P = TypeVar("P")


class MemoryBox(Generic[P]):
    """One user of a queue. Boxes on the same queue are one box."""

    def __init__(self, name: str, queue: MemoryQueue[P], place: str = "memory:") -> None:
        self.name = name
        self.place = place
        self._shared = queue
        self._is_quiet = False
        self._is_closed = False

    def now_ms(self) -> int:
        return now_ms(self._shared.clock)

    def put(self, entry: Entry[P], capacity: int | None = None) -> bool:
        return self._queue().put(entry, capacity)

    def take(self, limit: int, lease_ms: int) -> list[Delivery[P]]:
        return self._queue().take(limit, lease_ms)

    def finish(self, handle: Handle) -> bool:
        return self._queue().finish(handle)

    def give_back(
        self, handles: Sequence[Handle], *, delay_ms: int = 0, is_counted: bool = False
    ) -> list[bool]:
        return self._queue().give_back(handles, delay_ms, is_counted)

    def extend(self, handles: Sequence[Handle], lease_ms: int) -> list[bool]:
        return self._queue().extend(handles, lease_ms)

    def bury(self, handle: Handle, burial: Burial) -> bool:
        return self._queue().bury(handle, burial)

    def buried(self, limit: int) -> list[Buried[P]]:
        return self._queue().buried(limit)

    def revive(self, ids: Sequence[str] | None = None) -> int:
        return self._queue().revive(ids)

    def discard_buried(self, ids: Sequence[str] | None = None) -> int:
        return self._queue().discard_buried(ids)

    def peek(self, limit: int) -> list[Waiting[P]]:
        return self._queue().peek(limit)

    def depth(self) -> Depth:
        return self._queue().depth()

    def purge(self) -> int:
        return self._queue().purge()

    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        queue = self._queue()
        clock = queue.clock
        stop = threading.Event() if stop is None else stop
        condition = condition_of(stop)  # wakes for both: the stop and the news
        deadline = inf if timeout is None else clock.monotonic() + timeout

        def is_told_to_stop() -> bool:
            return self._is_quiet or stop.is_set()

        def is_over() -> bool:
            return is_told_to_stop() or queue.seconds_left() <= 0

        def is_other(seen: int) -> bool:
            return is_over() or queue.news != seen

        with queue.attending(condition), condition:
            while not is_over() and (patience := deadline - clock.monotonic()) > 0:
                # All news ends a sleep: something may be hidden for less time now.
                awake = partial(is_other, queue.news)
                clock.wait_for(condition, awake, min(patience, queue.seconds_left()))
        return not is_told_to_stop() and queue.seconds_left() <= 0

    def end_waits(self) -> None:
        self._is_quiet = True
        self._shared.announce()

    def close(self) -> None:
        self._is_closed = True
        self.end_waits()

    def _queue(self) -> MemoryQueue[P]:
        if self._is_closed:
            raise StoreClosed(f"the mailbox {self.name} was closed; whoever uses it must stop")
        return self._shared
