"""News of many turns for many streams, without a thread for each.

Whoever announces a change, a writer here or the listener that hears other processes, sets the
events of those streams that wait for the turn. What is new they read themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from afl.turns.api import TurnStore


class NewsHub:
    """For the coroutines of one event loop; `close` may be called from any thread."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiters: set[_Waiter] = set()
        self.is_closed = False

    @contextmanager
    def watching(self, turn_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the turn may have changed, and when all streams are to
        end. Clear it before you look."""
        waiter = _Waiter(asyncio.get_running_loop(), asyncio.Event())
        with ExitStack() as stack:
            stack.enter_context(self._joined(waiter))
            stack.callback(self._store.watch(turn_id, waiter.tell))
            yield waiter.event

    def close(self) -> None:
        """Let all streams end."""
        self.is_closed = True
        with self._lock:
            waiters = tuple(self._waiters)
        for each in waiters:
            each.tell()

    @contextmanager
    def _joined(self, waiter: _Waiter) -> Iterator[None]:
        with self._lock:
            self._waiters.add(waiter)
        if self.is_closed:
            waiter.tell()
        try:
            yield
        finally:
            with self._lock:
                self._waiters.discard(waiter)


class _Waiter:
    def __init__(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        self._loop = loop
        self.event = event

    def tell(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.event.set)
