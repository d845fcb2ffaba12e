"""Code that may block, called from turns on the event loop.

It runs on daemon threads. Those of asyncio are waited for when the process ends: what hangs there
would keep it from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from afl.work.pool import PREFIX, Pool

#: One for each turn that may be in such a call.
_MOST_THREADS = 1000

_lock = threading.Lock()
_pool: Pool[Callable[[], object]] | None = None


def on_thread(call: Callable[[], Any]) -> asyncio.Future[Any]:
    """Call it on a thread, in the context of the caller; what comes of it, on the running loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def do() -> None:
        value, error = None, None
        try:
            value = context.run(call)
        except BaseException as problem:  # also of code that wants to exit
            error = problem
        with suppress(RuntimeError):  # a loop that was closed meanwhile
            loop.call_soon_threadsafe(_settle, future, value, error)

    _threads().put([do])
    return future


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if isinstance(error, StopIteration):  # which no future can hold
        error = RuntimeError("a call of a turn has raised StopIteration")
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _threads() -> Pool[Callable[[], object]]:
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool(_MOST_THREADS, lambda do: do(), f"{PREFIX}-aside")
        return _pool
