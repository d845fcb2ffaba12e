"""What every `Runnable` must do when many threads start and stop it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from afl.errors import UsageError
from afl.runtime.lifecycle import Runnable, wait_until

#: Longer than any loop takes to begin or end.
PATIENCE_S = 20.0
_LOOK_S = 0.005
#: How long a stop is waited for before it is asked for again.
_SLICE_S = 0.02

THREADS, TIMES = 10, 50


class RunnableExam:
    """Subclasses give a `loop` fixture: a new loop that runs until it is stopped."""

    @pytest.fixture
    def loop(self) -> Runnable:
        raise NotImplementedError("return the loop to examine")

    #: How `run` is called.
    options: dict[str, Any] = {}  # noqa: RUF012 - replaced by subclasses, never changed

    def test_it_runs_until_it_is_stopped(self, loop: Runnable) -> None:
        assert loop.running is False
        run = self._started(loop)
        assert loop.shutdown(timeout=PATIENCE_S) is True
        assert loop.running is False
        run.join()

    def test_it_runs_again_after_a_stop(self, loop: Runnable) -> None:
        for _ in range(3):
            run = self._started(loop)
            assert loop.shutdown(timeout=PATIENCE_S) is True
            run.join()
            # A stop of what does not run is for nobody, and not for the next run.
            assert loop.shutdown(timeout=0) is True

    def test_a_stop_before_the_first_run_ends_it_at_once(self, loop: Runnable) -> None:
        assert loop.shutdown(timeout=0) is True
        self._run(loop).join()
        assert loop.running is False

    def test_a_second_run_at_the_same_time_is_refused(self, loop: Runnable) -> None:
        run = self._started(loop)
        second = self._run(loop)
        # A loop that lets it in is ended here, so that the exam itself ends.
        assert second.has_ended(1.0), "a second run began"
        assert isinstance(second.error, UsageError), f"expected a UsageError, got {second.error!r}"
        assert loop.running is True
        assert loop.shutdown(timeout=PATIENCE_S) is True
        run.join()

    def test_leaving_its_block_stops_it(self, loop: Runnable) -> None:
        with loop:
            run = self._started(loop)
        run.join()

    def test_many_threads_may_stop_it_at_once(self, loop: Runnable) -> None:
        run = self._started(loop)
        stops = [_Call(lambda: loop.shutdown(timeout=PATIENCE_S)) for _ in range(THREADS)]
        for stop in stops:
            stop.join()
        assert [stop.answer for stop in stops] == [True] * THREADS
        run.join()

    def test_its_age_begins_with_its_run(self, loop: Runnable) -> None:
        heartbeat = loop.heartbeat
        if heartbeat is None:
            return
        beats: list[int] = []
        heartbeat.add_callback(lambda: beats.append(1))
        run = self._started(loop)
        is_beating = wait_until(lambda: bool(beats), timeout=PATIENCE_S, poll_interval=_LOOK_S)
        assert is_beating, "it runs without a beat"
        assert loop.shutdown(timeout=PATIENCE_S) is True
        run.join()

    def test_ten_threads_start_and_stop_it_fifty_times(self, loop: Runnable) -> None:
        ends: list[BaseException | None] = []

        def storm() -> None:
            for _ in range(TIMES):
                run = self._run(loop)
                # Until this very run is over: a stop may be for the run of somebody else.
                while not run.has_ended(_SLICE_S):
                    loop.shutdown(timeout=_SLICE_S)
                ends.append(run.error)

        threads = [_Call(storm) for _ in range(THREADS)]
        for thread in threads:
            thread.join(PATIENCE_S * 2)
        assert loop.running is False
        assert len(ends) == THREADS * TIMES
        assert None in ends, "not one of them ran"
        # Two cannot run at once; whoever comes second is refused, and nothing else goes wrong.
        assert {type(each) for each in ends if each is not None} <= {UsageError}
        self.test_it_runs_again_after_a_stop(loop)

    def _run(self, loop: Runnable) -> _Call:
        expect: Callable[[], None] | None = getattr(loop, "expect_run", None)
        if expect is not None:
            expect()
        return _Call(lambda: loop.run(**self.options))

    def _started(self, loop: Runnable) -> _Call:
        run = _Call(lambda: loop.run(**self.options))
        assert wait_until(
            lambda: loop.running or not run.is_alive, timeout=PATIENCE_S, poll_interval=_LOOK_S
        )
        assert loop.running, f"it did not begin to run: {run.error!r}"
        return run


class _Call:
    """A call on a thread of its own."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.answer: object = None
        self.error: BaseException | None = None
        self._action = action
        self._thread = threading.Thread(target=self._do, daemon=True)
        self._thread.start()

    def _do(self) -> None:
        try:
            self.answer = self._action()
        except BaseException as error:
            self.error = error

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def has_ended(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def join(self, timeout: float = PATIENCE_S) -> None:
        """Wait for its end; raises what it raised."""
        assert self.has_ended(timeout), "it never returned"
        if self.error is not None:
            raise self.error
