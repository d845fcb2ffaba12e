"""A loop without work: what all loops share, to be filled in."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from afl.clock import SYSTEM_CLOCK, Clock
from afl.runtime.heartbeat import Heartbeat
from afl.runtime.lifecycle.runs import LoopRuns, LoopState


class BaseLoop(ABC):
    """A `Runnable` to derive from: say in `work` what one run does."""

    def __init__(self, name: str | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name or type(self).__name__
        self._heartbeat = Heartbeat(clock)
        self._runs = LoopRuns(clock)

    @abstractmethod
    def work(
        self,
        stop: threading.Event,
        *,
        max_iterations: int | None,
        visibility_timeout: int,
        wait_time_seconds: int,
    ) -> None:
        """Do one run, and return soon after `stop` is set: every wait must end with it.

        Beat `heartbeat` after each wait and after each piece of work.
        """

    def run(
        self,
        *,
        max_iterations: int | None = None,
        visibility_timeout: int = 300,
        wait_time_seconds: int = 20,
    ) -> None:
        """Work until stopped. Raises UsageError if it is running already."""
        with self._runs.running() as stop:
            # A loop may be made long before it runs: its age begins here.
            self._heartbeat.beat()
            if not stop.is_set():
                self.work(
                    stop,
                    max_iterations=max_iterations,
                    visibility_timeout=visibility_timeout,
                    wait_time_seconds=wait_time_seconds,
                )

    def expect_run(self) -> None:
        """A run is about to begin on some thread: a stop from now on is for it."""
        self._runs.expect()

    def request_stop(self) -> None:
        """Ask for the stop; never waits, may be called again, and in a signal handler."""
        self._runs.request_stop()

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        """Ask for the stop and wait for it; whether it has ended.

        Called by the loop itself, also by its handlers, it only asks, and says False.
        """
        return self._runs.shutdown(timeout)

    @property
    def running(self) -> bool:
        return self._runs.is_running

    @property
    def state(self) -> LoopState:
        return self._runs.state

    @property
    def heartbeat(self) -> Heartbeat:
        return self._heartbeat

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()
