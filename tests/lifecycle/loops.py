"""Loops to run in tests, and threads to run them on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from afl.clock import SYSTEM_CLOCK, Clock
from afl.runtime.lifecycle import BaseLoop, wait_until

#: Longer than anything takes here, on a busy machine too.
PATIENCE_S = 20.0
#: For what is expected not to happen: how long a mistake is given to show itself.
DOUBT_S = 0.3


class IdleLoop(BaseLoop):
    """Waits for work that never comes."""

    def __init__(
        self, name: str | None = None, *, stop_order: int = 0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(name, clock=clock)
        self.stop_order = stop_order
        self.is_working = threading.Event()
        self.runs = 0
        self.options: dict[str, Any] = {}

    def work(self, stop: threading.Event, **options: Any) -> None:
        self.runs += 1
        self.options = options
        self.is_working.set()
        try:
            self.wait(stop)
        finally:
            self.is_working.clear()

    def wait(self, stop: threading.Event) -> None:
        stop.wait(PATIENCE_S)


class BusyLoop(IdleLoop):
    """Has a piece of work in hand that ends only when `finish` is set."""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        super().__init__(name, **options)
        self.finish = threading.Event()
        self.is_asked = threading.Event()
        self.has_finished = False

    def wait(self, stop: threading.Event) -> None:
        threading.Thread(target=self._note, args=(stop,), daemon=True).start()
        self.finish.wait(PATIENCE_S)
        self.has_finished = True

    def _note(self, stop: threading.Event) -> None:
        stop.wait(PATIENCE_S)
        self.is_asked.set()


class CheckpointingLoop(BusyLoop):
    """Can save its work, and ends then."""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        super().__init__(name, **options)
        self.checkpoints = 0

    def checkpoint(self) -> None:
        self.checkpoints += 1
        self.finish.set()


class FailingLoop(IdleLoop):
    """Raises when `fail` is set."""

    def __init__(
        self, name: str | None = None, *, error: BaseException | None = None, **options: Any
    ) -> None:
        super().__init__(name, **options)
        self.fail = threading.Event()
        self.error = error or RuntimeError("out of luck")

    def wait(self, stop: threading.Event) -> None:
        self.fail.wait(PATIENCE_S)
        raise self.error


class EndingLoop(IdleLoop):
    """Has nothing more to do when `end` is set."""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        super().__init__(name, **options)
        self.end = threading.Event()

    def wait(self, stop: threading.Event) -> None:
        self.end.wait(PATIENCE_S)


class PlainLoop:
    """The least that a group can run: nothing but what the protocol asks for."""

    heartbeat = None

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.is_working = threading.Event()
        self._ended = threading.Event()
        self.running = False

    def run(self, *, max_iterations: int | None = None) -> None:
        self.running = True
        self._ended.clear()
        self.is_working.set()
        self._stop.wait(PATIENCE_S)
        self.running = False
        self._ended.set()

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        self._stop.set()
        return not self.running or self._ended.wait(timeout)

    def __enter__(self) -> PlainLoop:
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()


class Running:
    """Something that blocks, on a thread of its own."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self.result: object = None
        self._action = action
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._action()
        except BaseException as error:
            self.error = error

    def ended(self, patience: float = PATIENCE_S) -> bool:
        self._thread.join(patience)
        return not self._thread.is_alive()

    def outcome(self) -> object:
        """What it returned; raises what it raised."""
        assert self.ended(), "it never returned"
        if self.error is not None:
            raise self.error
        return self.result


@contextmanager
def running(loop: Any, **options: Any) -> Iterator[Running]:
    """The loop, or group, runs inside the block and is stopped after it."""
    run = Running(lambda: loop.run(**options))
    try:
        yield run
    finally:
        loop.request_stop()
        run.ended()


def eventually(predicate: Callable[[], bool]) -> None:
    assert wait_until(predicate, timeout=PATIENCE_S, poll_interval=0.005), "it never came true"


def is_caught(scenario: Callable[[], object]) -> None:
    """The scenario finds the mistake that was put in: a test of the test."""
    with pytest.raises(BaseException):  # noqa: B017, PT011 - in whatever way it fails
        scenario()


def working(*loops: IdleLoop) -> None:
    for loop in loops:
        assert loop.is_working.wait(PATIENCE_S)
