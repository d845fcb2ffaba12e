"""The runs of a loop: at most one at a time, each with a stop of its own.

new → starting → running → draining → stopped, and from stopped again. A stop belongs to one run:
asked for before the run began it ends that run at once, and it never reaches the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.runtime.aside import do_aside, on_main_thread, start_aside
from afl.runtime.awaited import awaiting, is_awaited_by


class LoopState(StrEnum):
    #: Has never run.
    NEW = "new"
    #: Somebody is about to run it.
    STARTING = "starting"
    #: Takes work.
    RUNNING = "running"
    #: Was asked to stop: finishes what it has and takes nothing new.
    DRAINING = "draining"
    #: Has run and does not run now.
    STOPPED = "stopped"


class _Stop(threading.Event):
    """Whoever looks sees the stop from the moment that it is asked for; whoever waits hears of it
    when it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._is_asked = False

    def ask(self) -> None:
        """Takes no lock, so signal handlers may call it. It must be set soon."""
        self._is_asked = True

    def is_set(self) -> bool:
        return self._is_asked

    def set(self) -> None:
        self._is_asked = True
        super().set()


class _Run:
    """One run, perhaps yet to come."""

    __slots__ = ("is_expected", "stop", "thread")

    def __init__(self, *, is_expected: bool = False) -> None:
        self.stop = _Stop()
        self.is_expected = is_expected
        #: The thread it runs on; None until it begins.
        self.thread: int | None = None


class LoopRuns:
    """Keeps the state of one loop. Everything here is safe from any thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        #: The run that a stop is for: the one that runs, or the first, or an expected one.
        self._run: _Run | None = _Run()
        start_aside()

    @property
    def state(self) -> LoopState:
        run = self._run
        if run is None:
            return LoopState.STOPPED
        if run.thread is None:
            return LoopState.STARTING if run.is_expected else LoopState.NEW
        return LoopState.DRAINING if run.stop.is_set() else LoopState.RUNNING

    @property
    def is_running(self) -> bool:
        run = self._run
        return run is not None and run.thread is not None

    @property
    def thread(self) -> int | None:
        """The one that the run goes on on, as `threading.get_ident` has it; None if none does."""
        run = self._run
        return None if run is None else run.thread

    def expect(self) -> None:
        """Say that a run is about to begin on some thread: stops from now on are for it."""
        with self._changed:
            if self._run is None:
                self._run = _Run(is_expected=True)
            self._run.is_expected = True

    @contextmanager
    def running(self) -> Iterator[threading.Event]:
        """One run, with the event that asks it to stop.

        Raises UsageError if the loop is running already.
        """
        run = self._begin()
        try:
            with awaiting(run):
                yield run.stop
        finally:
            with self._changed:
                self._run = None
                self._changed.notify_all()

    def request_stop(self) -> None:
        """Ask the run to end. Never waits, may be called again, and in a signal handler."""
        run = self._run
        if run is None or run.stop.is_set():
            return
        run.stop.ask()
        if on_main_thread():
            # Setting an event takes its lock, which the interrupted code may hold.
            do_aside(run.stop.set)
        else:
            run.stop.set()

    def shutdown(self, timeout: float) -> bool:
        """Ask for the stop and wait for it; whether the loop does not run any more.

        Asks only, without waiting, when called by what the run itself waits for.
        """
        run = self._run
        self.request_stop()
        if run is None or run.thread is None:
            return True
        if self.is_awaiting_caller():
            return False
        with self._changed:
            return self._clock.wait_for(self._changed, lambda: self._run is not run, timeout)

    def is_awaiting_caller(self) -> bool:
        """Whether the run cannot end before whoever calls this has returned: the run itself, or
        work that it has begun."""
        run = self._run
        if run is None or run.thread is None:
            return False
        return run.thread == threading.get_ident() or is_awaited_by(run)

    def _begin(self) -> _Run:
        with self._changed:
            run = self._run or _Run()
            if run.thread is not None:
                raise UsageError(
                    "this loop is running already; stop that run first, or make another loop"
                )
            run.thread = threading.get_ident()
            self._run = run
        if run.stop.is_set():
            run.stop.set()  # asked for only, so far, if the one aside is late
        return run
