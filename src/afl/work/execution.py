"""Doing attempts, each as its job asks: on a thread, on the shared event loop, in a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from afl.clock import Clock
from afl.runtime.awaited import awaited_by, work_for
from afl.work.attempts import Attempt, Attempts
from afl.work.errors import was_cancelled
from afl.work.isolation import Children
from afl.work.pool import PREFIX, Pool
from afl.work.source import InProcess, InThread, OnLoop

Began = Callable[[Attempt], object]
#: The attempt, its result, and what it raised. Told for each that began, also for late ones.
Ended = Callable[[Attempt, Any, BaseException | None], object]


class Execution:
    """Does attempts that have a job. What they raise, even SystemExit, is their end and no more.

    Nothing begins once `may_begin()` does not hold.
    """

    def __init__(
        self,
        threads: int,
        began: Began,
        ended: Ended,
        clock: Clock,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_begin = may_begin
        self._began = began
        self._ended = ended
        #: Who waits for all that is done here.
        self._runs = awaited_by()
        #: What runs now, also for nobody.
        self._doing = Attempts(clock)
        #: That part of it which waits on the shared loop.
        self._looping: set[Attempt] = set()
        self._pool: Pool[Attempt] = Pool(threads, self._in_thread, f"{PREFIX}-thread")
        # Threads that only wait for a process: they never hang, since it can be killed.
        self._keepers: Pool[Attempt] = Pool(threads, self._in_process, f"{PREFIX}-process")
        self._children = Children(warm=min(threads, 4))

    @property
    def has_waiting(self) -> bool:
        """Whether work waits for a thread."""
        return self._pool.has_waiting

    @property
    def pids(self) -> list[int]:
        """Processes that live for its work."""
        return self._children.pids

    def start(self, attempts: Sequence[Attempt]) -> None:
        threads, processes = [], []
        for each in attempts:
            assert each.job is not None, "it has a job"
            if isinstance(each.job.how, InThread):
                threads.append(each)
            elif isinstance(each.job.how, OnLoop):
                self._on_loop(each, each.job.how)
            else:
                processes.append(each)
        if threads:
            self._pool.put(threads)
        if processes:
            self._keepers.put(processes)

    def try_again(self) -> None:
        """Start threads that could not be started before."""
        self._pool.wake()
        self._keepers.wake()

    def abandon(self, attempt: Attempt) -> str | None:
        """Count no more on the thread that it blocks: where that is now, if it blocks one."""
        ident = attempt.thread
        return None if ident is None else self._pool.abandon(ident)

    @property
    def has_loop_work(self) -> bool:
        """Whether something waits on the shared loop."""
        return bool(self._looping)

    def wait_until_gone(self, attempts: Sequence[Attempt], timeout: float) -> None:
        """Wait until nobody does these any more."""
        self._doing.wait_until_none(
            timeout, lambda: not any(each in self._doing for each in attempts)
        )

    def close(self) -> None:
        """Let threads and processes end that have nothing to do."""
        self._pool.close()
        self._keepers.close()
        self._children.close()

    # On this thread

    def do_here(self, attempt: Attempt) -> None:
        """Do it on this thread and start none; asynchronous work has a loop of its own."""
        assert attempt.job is not None, "it has a job"
        how = attempt.job.how
        if isinstance(how, InThread):
            self._do(attempt, partial(how.call, attempt))
        elif isinstance(how, OnLoop):
            self._do(attempt, partial(_run_alone, how, attempt))
        else:
            self._in_process(attempt)

    # Each kind

    def _in_thread(self, attempt: Attempt) -> None:
        assert attempt.job is not None
        how = attempt.job.how
        assert isinstance(how, InThread)
        attempt.thread = threading.get_ident()
        self._do(attempt, partial(how.call, attempt))

    def _in_process(self, attempt: Attempt) -> None:
        assert attempt.job is not None
        how = attempt.job.how
        assert isinstance(how, InProcess)
        listener = partial(how.on_message, attempt)
        call = partial(
            self._children.call,
            *(how.target, how.argument, listener, attempt.when_killed, attempt.label),
        )
        self._do(attempt, call)

    def _do(self, attempt: Attempt, call: Callable[[], Any]) -> None:
        work_for(self._runs)
        result, error = None, None
        try:
            if not self._begin(attempt):
                return
            result = call()
        except BaseException as problem:  # also of work that wants to exit
            error = problem
        attempt.thread = None
        self._end(attempt, result, error)

    def _on_loop(self, attempt: Attempt, how: OnLoop) -> None:
        # Asyncio is large, and many do without it.
        from afl.work.event_loop import is_cancellation, shared_loop

        async def call() -> Any:
            work_for(self._runs)
            if self._begin(attempt):
                return await how.call(attempt)
            return None

        def done(result: Any, error: BaseException | None) -> None:
            self._looping.discard(attempt)
            is_cancelled = error is not None and is_cancellation(error)
            if attempt.started is None and (error is None or is_cancelled):
                return  # it was withdrawn
            if is_cancelled and attempt.cancellation.is_set():
                error = was_cancelled(attempt.label)
            self._end(attempt, result, error)

        self._looping.add(attempt)
        attempt.when_cancelled(shared_loop().start(call, done).cancel)

    def _begin(self, attempt: Attempt) -> bool:
        """Whether it is to be done now. What this raises is the end of the attempt: one that has
        begun and never ends would be held for ever."""
        # First: once it has begun, whoever gives it up must find it here.
        self._doing.add([attempt])
        if self._may_begin() and attempt.begin():
            self._began(attempt)
            return True
        self._doing.remove([attempt])
        return False

    def _end(self, attempt: Attempt, result: Any, error: BaseException | None) -> None:
        self._doing.remove([attempt])
        self._ended(attempt, result, error)


def _run_alone(how: OnLoop, attempt: Attempt) -> Any:
    import asyncio

    async def wait() -> Any:
        return await how.call(attempt)

    return asyncio.run(wait())
