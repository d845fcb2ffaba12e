"""Blocking calls of many coroutines on a few threads, many calls to a hop.

Each hop between an event loop and a thread costs more than most looks at a store. Who comes while
the threads are busy waits for the next hop, together with all others who came meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")

#: So many threads at once, and so many calls in one hop: a slow store must not make all wait.
_THREADS = 4
_CALLS = 64

_Call = tuple[Callable[[], Any], asyncio.Future[Any]]


class Batches:
    """For the coroutines of one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[_Call] = deque()
        self._hops: set[asyncio.Task[None]] = set()
        self._limiter = anyio.CapacityLimiter(_THREADS)

    async def call(self, function: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((function, future))
        if len(self._hops) < _THREADS:
            self._start()
        return await future

    def _start(self) -> None:
        hop = asyncio.create_task(self._hop())
        self._hops.add(hop)
        hop.add_done_callback(self._done)

    def _done(self, hop: asyncio.Task[None]) -> None:
        self._hops.discard(hop)
        if self._waiting and not hop.cancelled():
            self._start()

    async def _hop(self) -> None:
        calls = [self._waiting.popleft() for _ in range(min(len(self._waiting), _CALLS))]
        wanted = [each for each in calls if not each[1].done()]  # some have gone away
        if not wanted:
            return
        functions = [function for function, _ in wanted]
        try:
            outcomes = await anyio.to_thread.run_sync(
                partial(_called, functions), limiter=self._limiter
            )
        except Exception as error:  # there is no thread to be had: nobody must wait for ever
            outcomes = [(None, error)] * len(wanted)
        for (_, future), (value, problem) in zip(wanted, outcomes, strict=True):
            if future.done():
                continue
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)


def _called(functions: list[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    return [_outcome(each) for each in functions]


def _outcome(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return function(), None
    except Exception as error:
        return None, error
