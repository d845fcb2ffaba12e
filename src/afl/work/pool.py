"""Threads for work that blocks: started when needed, reused, and replaced when one hangs.

Waking a thread costs more than most of what is done here, so one wakes the next: only if there is
more to do when it begins, and only if nobody is on the way already. A burst of short work is
done by two threads; a burst of long work has all of them within milliseconds.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from queue import SimpleQueue
from typing import Generic, TypeVar

from afl.log import get_logger

T = TypeVar("T")

_log = get_logger(__name__)

#: All threads of ours that run the code of others are called like this.
PREFIX = "loop-worker"


class _Mine(threading.local):
    """What the current thread is to a pool."""

    pool: object = None


_mine = _Mine()


class Pool(Generic[T]):
    """Does items on at most `limit` daemon threads, first come, first served.

    `do` must not raise; what it does raise is logged. Items are done even after `close`, as long
    as a thread lives.
    """

    def __init__(self, limit: int, do: Callable[[T], object], name: str) -> None:
        self._limit = limit
        self._do = do
        self._name = name
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._items: deque[T] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        #: Threads that were not abandoned, and those of them that sleep.
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        #: Somebody was woken or started and has not looked yet.
        self._is_waking = False
        self._is_closed = False

    @property
    def size(self) -> int:
        """How many threads it has, without those that were abandoned."""
        return len(self._threads)

    @property
    def has_waiting(self) -> bool:
        """Whether items wait for a thread."""
        return bool(self._items)

    def put(self, items: Iterable[T]) -> None:
        with self._lock:
            self._items.extend(items)
            # A thread of the pool looks again before it sleeps, so it need not wake another one
            # for the single thing that it leaves to itself.
            is_left_to_me = _mine.pool is self and len(self._items) == 1
        if not is_left_to_me:
            self.wake()

    def wake(self) -> None:
        """Have somebody look for items, if there are any and nobody does. Also tries again to
        start a thread where that failed."""
        with self._lock:
            if not self._items or self._is_waking:
                return
            if self._idle:
                self._idle -= 1
                self._is_waking = True
                self._wakes.put(None)
                return
            if len(self._threads) >= self._limit:
                return
            self._is_waking = True
            name = f"{self._name}-{next(self._numbers)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.add(thread)
        self._start(thread)

    def abandon(self, ident: int) -> str | None:
        """Count on a thread no more: it ends when it returns, and another one may take its place.

        Where it is now, as text; None if it is none of ours, or was abandoned before.
        """
        with self._lock:
            thread = next((each for each in self._threads if each.ident == ident), None)
            if thread is None:
                return None
            self._threads.discard(thread)
        stack = stack_of(ident)
        self.wake()
        return stack

    def close(self) -> None:
        """Let the threads end as soon as they have nothing to do."""
        with self._lock:
            self._is_closed = True
            for _ in range(self._idle):
                self._wakes.put(None)
            self._idle = 0

    def _start(self, thread: threading.Thread) -> None:
        try:
            thread.start()
        except RuntimeError as error:
            # The machine has no more of them. Others may do it, or a later `wake`.
            with self._lock:
                self._threads.discard(thread)
                self._is_waking = False
            _log.warning("thread_not_started", error=str(error), threads=self.size)

    def _work(self) -> None:
        _mine.pool = self
        me = threading.current_thread()
        is_woken = True
        while (item := self._next(me, is_woken)) is not None:
            is_woken = False
            try:
                self._do(item[0])
            except BaseException:
                _log.exception("pool_item_failed", item=repr(item[0]))
        # What this thread left to itself is for others now.
        _mine.pool = None
        self.wake()

    def _next(self, me: threading.Thread, is_woken: bool) -> tuple[T] | None:
        """Wait for an item; None: end."""
        while True:
            with self._lock:
                if is_woken:
                    self._is_waking = False
                if me not in self._threads:
                    return None
                if self._items:
                    item = self._items.popleft()
                    break
                if self._is_closed:
                    self._threads.discard(me)
                    return None
                self._idle += 1
            self._wakes.get()
            is_woken = True
        self.wake()
        return (item,)


def join(thread: threading.Thread, timeout: float) -> None:
    """Wait for a thread that perhaps was never started."""
    if thread.ident is not None:
        thread.join(timeout)


def stack_of(ident: int) -> str:
    """Where a thread is now, line by line; empty if it has ended."""
    frame = sys._current_frames().get(ident)
    return "".join(traceback.format_stack(frame)) if frame is not None else ""
