"""A queue in the memory of one process, which any number of boxes share."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from math import inf
from typing import Generic, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock, now_ms
from afl.mailbox.box import Burial, Buried, Delivery, Depth, Entry, Handle, Waiting

P = TypeVar("P")

#: Ends of leases that came to nothing are swept out when they are more than the messages, and so
#: many that it pays.
_FEW = 256


@dataclass(eq=False, slots=True)
class _Kept(Generic[P]):
    """A message and what is known about it."""

    seq: int
    id: str
    payload: P
    reply_to: str | None
    enqueued_ms: int
    first_taken_ms: int = 0
    deliveries: int = 0
    fence: int = 0
    is_ready: bool = True
    #: On the monotonic clock. Only of what is not ready.
    hidden_until: int = 0


class MemoryQueue(Generic[P]):
    """All of `afl.mailbox.box.Box` but the end of a box. Payloads are not copied.

    Leases run on monotonic time, which no correction of the clock disturbs.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        #: Another number after each announcement.
        self.news = 0
        # Order of locks: that of a waiter's condition first, this one second.
        self._lock = threading.Lock()
        self._last_seq = 0
        #: In the order of the queue.
        self._kept: dict[str, _Kept[P]] = {}
        self._buried: dict[str, tuple[_Kept[P], int, Burial]] = {}
        #: Never taken, and later in the order than all that came back.
        self._fresh: deque[_Kept[P]] = deque()
        #: Came back. May hold some twice, or that are ready no more.
        self._returned: list[tuple[int, int, _Kept[P]]] = []
        #: Times at which something may become ready. May hold some that count no more.
        self._timed: list[tuple[int, int, _Kept[P]]] = []
        #: What is on a list twice must not be compared with itself.
        self._ticks = count()
        self._waiting: list[threading.Condition] = []

    # Sending and taking

    def put(self, entry: Entry[P], capacity: int | None, *, deliveries: int = 0) -> bool:
        """`deliveries` is how often it was taken before it came here."""
        id_, payload, reply_to = entry
        with self._lock:
            if id_ in self._kept or id_ in self._buried:
                return True
            if capacity is not None and len(self._kept) >= capacity:
                return False
            self._last_seq = seq = self._last_seq + 1
            now = now_ms(self.clock)
            kept = _Kept(seq, id_, payload, reply_to, now, now, deliveries)
            self._kept[id_] = kept
            self._fresh.append(kept)
        self.announce()
        return True

    def take(self, limit: int, lease_ms: int) -> list[Delivery[P]]:
        with self._lock:
            now = self._ripen()
            found = list(islice(self._ready(), limit))
            if not found:
                return []
            wall = now_ms(self.clock)
            return [self._take(each, now + lease_ms, wall) for each in found]

    def _take(self, kept: _Kept[P], until: int, wall: int) -> Delivery[P]:
        kept.fence += 1
        kept.deliveries += 1
        if kept.deliveries == 1:
            kept.first_taken_ms = wall
        self._hide(kept, until)
        return Delivery(
            kept.id,
            kept.fence,
            kept.payload,
            kept.reply_to,
            kept.enqueued_ms,
            kept.first_taken_ms,
            kept.deliveries,
        )

    def _ready(self) -> Iterator[_Kept[P]]:
        """Takes out of the queue what it gives, in order."""
        while self._returned:
            kept = heapq.heappop(self._returned)[2]
            if kept.is_ready:
                kept.is_ready = False  # it may be there a second time
                yield kept
        while self._fresh:
            yield self._fresh.popleft()

    # What receivers say

    def finish(self, handle: Handle) -> bool:
        with self._lock:
            kept = self._held(handle)
            if kept is None:
                return False
            self._forget(kept)
            # The lists may hold it until its lease would have ended; a body may be large.
            del kept.payload
            return True

    def give_back(self, handles: Sequence[Handle], delay_ms: int, is_counted: bool) -> list[bool]:
        with self._lock:
            answers = [self._give_back(each, delay_ms, is_counted) for each in handles]
        self.announce()
        return answers

    def _give_back(self, handle: Handle, delay_ms: int, is_counted: bool) -> bool:
        kept = self._held(handle)
        if kept is None:
            return False
        kept.fence += 1
        kept.deliveries -= not is_counted
        self._hide(kept, self._now() + delay_ms)
        return True

    def extend(self, handles: Sequence[Handle], lease_ms: int) -> list[bool]:
        with self._lock:
            return [self._extend(each, lease_ms) for each in handles]

    def _extend(self, handle: Handle, lease_ms: int) -> bool:
        kept = self._held(handle)
        if kept is None:
            return False
        until = self._now() + lease_ms
        if kept.is_ready or until > kept.hidden_until:
            self._hide(kept, until)
        return True

    def _held(self, handle: Handle) -> _Kept[P] | None:
        kept = self._kept.get(handle.id)
        return kept if kept is not None and kept.fence == handle.fence else None

    # Dead letters

    def bury(self, handle: Handle, burial: Burial) -> bool:
        with self._lock:
            kept = self._held(handle)
            if kept is None:
                return False
            self._forget(kept)
            kept.fence += 1
            self._buried[kept.id] = (kept, now_ms(self.clock), burial)
            return True

    def buried(self, limit: int) -> list[Buried[P]]:
        with self._lock:
            return [
                Buried(
                    kept.id,
                    kept.payload,
                    kept.reply_to,
                    kept.enqueued_ms,
                    kept.first_taken_ms,
                    kept.deliveries,
                    buried_ms,
                    burial,
                )
                for kept, buried_ms, burial in islice(self._buried.values(), max(limit, 0))
            ]

    def revive(self, ids: Sequence[str] | None = None) -> int:
        with self._lock:
            found = self._exhumed(ids)
            for each in found:
                self._last_seq += 1
                # Another object: the lists may still hold the old one.
                kept = _Kept(self._last_seq, each.id, each.payload, each.reply_to, each.enqueued_ms)
                kept.fence = each.fence
                self._kept[kept.id] = kept
                self._fresh.append(kept)
        self.announce()
        return len(found)

    def discard_buried(self, ids: Sequence[str] | None = None) -> int:
        with self._lock:
            return len(self._exhumed(ids))

    def _exhumed(self, ids: Sequence[str] | None) -> list[_Kept[P]]:
        wanted = set(self._buried if ids is None else ids)
        chosen = [each for each in self._buried if each in wanted]
        return [self._buried.pop(each)[0] for each in chosen]

    # Looking

    def peek(self, limit: int) -> list[Waiting[P]]:
        with self._lock:
            now = self._ripen()
            first = islice(self._kept.values(), max(limit, 0))
            return [
                Waiting(
                    kept.id,
                    kept.payload,
                    kept.reply_to,
                    kept.enqueued_ms,
                    kept.deliveries,
                    0 if kept.is_ready else kept.hidden_until - now,
                )
                for kept in first
            ]

    def depth(self) -> Depth:
        with self._lock:
            self._ripen()
            returned = {kept.id for _, _, kept in self._returned if kept.is_ready}
            ready = len(self._fresh) + len(returned)
            return Depth(ready, len(self._kept) - ready, len(self._buried))

    def purge(self) -> int:
        with self._lock:
            count = len(self._kept)
            for each in (self._kept, self._fresh, self._returned, self._timed):
                each.clear()
            return count

    # Waiting

    def seconds_left(self) -> float:
        """Until something is ready without anybody's doing."""
        with self._lock:
            now = self._ripen()
            if self._fresh or self._has_returned():
                return 0.0
            return (self._timed[0][0] - now) / 1000 if self._timed else inf

    def _has_returned(self) -> bool:
        while self._returned and not self._returned[0][2].is_ready:
            heapq.heappop(self._returned)
        return bool(self._returned)

    @contextmanager
    def attending(self, condition: threading.Condition) -> Iterator[None]:
        """Notify `condition` of all news meanwhile."""
        with self._lock:
            self._waiting.append(condition)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(condition)

    def announce(self) -> None:
        """Let all who attend look again."""
        # Who waits has put itself on the list before it looked, and we change before we look at
        # the list: either it has seen the change or it is notified.
        if not self._waiting:
            return
        with self._lock:
            self.news += 1
            conditions = list(self._waiting)
        for condition in conditions:
            with condition:
                condition.notify_all()

    # Time

    def _now(self) -> int:
        return round(self.clock.monotonic() * 1000)

    def _hide(self, kept: _Kept[P], until: int) -> None:
        kept.is_ready = False
        kept.hidden_until = until
        heapq.heappush(self._timed, (until, next(self._ticks), kept))
        if len(self._timed) > 2 * len(self._kept) + _FEW:
            self._sweep()

    def _sweep(self) -> None:
        hidden = (each for each in self._kept.values() if not each.is_ready)
        self._timed = [(each.hidden_until, next(self._ticks), each) for each in hidden]
        heapq.heapify(self._timed)

    def _ripen(self) -> int:
        """What is hidden no more goes back to its place. The time at which this was so."""
        now = self._now()
        timed = self._timed
        while timed and timed[0][0] <= now:
            until, _, kept = heapq.heappop(timed)
            if not kept.is_ready and kept.hidden_until == until:
                kept.is_ready = True
                heapq.heappush(self._returned, (kept.seq, next(self._ticks), kept))
        return now

    def _forget(self, kept: _Kept[P]) -> None:
        del self._kept[kept.id]
        # So that no list of times or places means it any more.
        kept.is_ready = False
        kept.hidden_until = -1
