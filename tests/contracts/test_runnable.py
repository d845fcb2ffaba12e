"""Loops pass the exam of runnables, and loops with mistakes do not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from afl.runtime.lifecycle import BaseLoop, LoopGroup, LoopRuns, Runnable
from afl.testing import runnable
from afl.testing.runnable import RunnableExam


class Waiting(BaseLoop):
    """Waits for its stop."""

    def work(self, stop: threading.Event, **_options: Any) -> None:
        stop.wait()


class TestBaseLoop(RunnableExam):
    @pytest.fixture
    def loop(self) -> Runnable:
        return Waiting()


class TestLoopGroup(RunnableExam):
    @pytest.fixture
    def loop(self) -> Runnable:
        return LoopGroup([Waiting("one"), Waiting("two")])


# Mistakes


class Forgetful(Waiting):
    """A run begins by forgetting what was asked for."""

    def run(self, **options: Any) -> None:
        self._runs = LoopRuns()
        super().run(**options)


class Sticky(Waiting):
    """What was asked for once holds for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = threading.Event()

    def request_stop(self) -> None:
        self._asked.set()
        super().request_stop()

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        self._asked.set()
        return super().shutdown(timeout=timeout)

    def work(self, stop: threading.Event, **_options: Any) -> None:
        if not self._asked.is_set():
            stop.wait()


class Unguarded(Waiting):
    """Lets two run at once."""

    def run(self, **options: Any) -> None:
        if self.running:
            self._runs._run = None
        super().run(**options)


class Silent(Waiting):
    """Never beats."""

    def run(self, **_options: Any) -> None:
        with self._runs.running() as stop:
            stop.wait()


class Deaf(Waiting):
    """Leaves its block without stopping."""

    def __exit__(self, *_error: object) -> None:
        pass


EXAM = RunnableExam()


@pytest.mark.parametrize(
    ("mistake", "test"),
    [
        (Forgetful, EXAM.test_a_stop_before_the_first_run_ends_it_at_once),
        (Sticky, EXAM.test_it_runs_again_after_a_stop),
        (Unguarded, EXAM.test_a_second_run_at_the_same_time_is_refused),
        (Silent, EXAM.test_its_age_begins_with_its_run),
        (Deaf, EXAM.test_leaving_its_block_stops_it),
    ],
)
def test_a_loop_with_a_mistake_fails(
    mistake: Callable[[], Runnable],
    test: Callable[[Runnable], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runnable, "PATIENCE_S", 0.3)
    monkeypatch.setattr(runnable._Call.join, "__defaults__", (0.3,))
    loop = mistake()
    with pytest.raises(AssertionError):
        test(loop)
    loop.shutdown(timeout=0)
