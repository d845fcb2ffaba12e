"""The event loop that all asynchronous work of this process shares: one thread, any number of
waiting calls."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from afl.errors import UsageError
from afl.log import get_logger
from afl.runtime.awaited import share_thread
from afl.work.pool import PREFIX

_log = get_logger(__name__)

Call = Callable[[], Awaitable[Any]]
#: Hears of the end, on the thread of the loop: the result, or what was raised.
Done = Callable[[Any, BaseException | None], object]
#: Hears how to cancel a call, from any thread.
Started = Callable[[Callable[[], None]], object]


def _nothing(_cancel: Callable[[], None]) -> None:
    """For who never cancels."""


class LoopCall:
    """One call on the shared loop."""

    __slots__ = ("_call", "_done", "_is_cancelled", "_loop", "_task")

    def __init__(self, loop: SharedLoop, call: Call, done: Done) -> None:
        self._loop = loop
        self._call = call
        self._done = done
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Ask it to end, from any thread. It may refuse."""
        self._is_cancelled = True
        self._loop.call_soon(self._cancel_task)

    def begin(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
        """On the thread of the loop."""
        if self._is_cancelled:
            self._done(None, asyncio.CancelledError())
            return None
        self._task = loop.create_task(self._run())
        return self._task

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        result, error = None, None
        try:
            result = await self._call()
        except BaseException as problem:  # also of a handler that wants to exit
            error = problem
        self._done(result, error)


class SharedLoop:
    """An event loop on a daemon thread of its own, started with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: list[LoopCall] = []
        #: Nothing else keeps a task that waits.
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, call: Call, done: Done) -> LoopCall:
        """Await what `call()` gives, as soon as possible; `done` hears how it ended."""
        started = LoopCall(self, call, done)
        # First: where there can be no loop, nothing is left that waits for it.
        loop = self._running()
        with self._lock:
            self._calls.append(started)
            is_first = len(self._calls) == 1
        # One wake-up begins all that came until then.
        if is_first:
            loop.call_soon_threadsafe(self._begin_calls)
        return started

    def run(self, awaitable: Awaitable[Any], started: Started = _nothing) -> Any:
        """Await it on the loop and wait for it on this thread; `started` is told how to cancel it.
        Raises UsageError on the thread of the loop itself."""
        if self._is_turning_here():
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            raise UsageError(
                "asynchronous work cannot wait here for other asynchronous work of this process: "
                "both share one event loop, which would wait for itself; call this on a thread, as "
                "asyncio.to_thread does"
            )
        future: Future[Any] = Future()

        async def wait() -> Any:
            return await awaitable

        def done(result: Any, error: BaseException | None) -> None:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        started(self.start(wait, done).cancel)
        try:
            return future.result()
        finally:
            if asyncio.iscoroutine(awaitable):
                awaitable.close()  # one that was cancelled before it began warns otherwise

    def _is_turning_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call it on the thread of the loop: proof that the loop goes round."""
        self._running().call_soon_threadsafe(callback)

    def _begin_calls(self) -> None:
        loop = self._running()
        with self._lock:
            calls, self._calls = self._calls, []
        for each in calls:
            task = each.begin(loop)
            if task is not None:
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _running(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is not None:
            return loop
        with self._lock:
            if self._loop is None:
                self._loop = _turning()
            return self._loop


def _turning() -> asyncio.AbstractEventLoop:
    """A new loop, on a new thread. Raises if the machine has no more files or threads."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_turn, args=(loop,), name=f"{PREFIX}-async", daemon=True)
    try:
        thread.start()
    except BaseException:
        loop.close()
        raise
    return loop


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    share_thread()
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except BaseException:
            # A task that a handler started wants the process to exit; that is not for it to say.
            _log.exception("event_loop_disturbed")


def is_cancellation(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError)


_shared = SharedLoop()


def shared_loop() -> SharedLoop:
    """The one of this process."""
    return _shared


def _start_again() -> None:
    """A fork copies the loop but not its thread."""
    global _shared
    _shared = SharedLoop()


os.register_at_fork(after_in_child=_start_again)
