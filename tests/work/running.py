"""Consumers that run on a thread of their own, as long as a test looks at them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic

from afl.clock import FakeClock
from afl.runtime.lifecycle import wait_until
from afl.work.consumer import Consumer
from afl.work.source import W

#: Longer than anything takes here, on a busy machine too.
PATIENCE_S = 20.0


def eventually(predicate: Callable[[], object]) -> None:
    """Raises AssertionError unless it comes true within the patience of tests."""
    assert wait_until(lambda: bool(predicate()), timeout=PATIENCE_S, poll_interval=0.002)


def parked(clock: FakeClock) -> None:
    """Wait until all helpers of a run wait: the keeper, the recorder, the watch and the run."""
    clock.wait_for_waiters(4)


class Gate:
    """Work that waits until it may end, and tells that it has begun."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, _attempt: object) -> str:
        self.has_begun.set()
        # Longer than any test waits for what must not have to wait for this.
        assert self.may_end.wait(2 * PATIENCE_S)
        return "done"

    def wait_for_begin(self) -> None:
        assert self.has_begun.wait(PATIENCE_S)


class Running(Generic[W]):
    """Runs a consumer from the beginning of a `with` to its end. What it raised is raised there,
    unless `error` was looked at."""

    def __init__(self, consumer: Consumer[W], **options: Any) -> None:
        self.consumer = consumer
        self.stop = threading.Event()
        self.has_ended = threading.Event()
        self._options = options
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Running[W]:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop.set()
        if kind is not None:
            self.consumer.checkpoint()
        self.join()
        if self._error is not None and kind is None:
            raise self._error

    @property
    def error(self) -> BaseException | None:
        """What the run raised, once it has ended."""
        error, self._error = self._error, None
        return error

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the run does not end"

    def _run(self) -> None:
        try:
            self.consumer.run(self.stop, **self._options)
        except BaseException as error:
            self._error = error
        self.has_ended.set()
