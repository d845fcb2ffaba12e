"""Runs of a loop: one at a time, each with a stop of its own that is never lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.lifecycle.loops import (
    DOUBT_S,
    PATIENCE_S,
    BusyLoop,
    IdleLoop,
    Running,
    eventually,
    is_caught,
    running,
)

from afl.clock import FakeClock
from afl.errors import UsageError
from afl.runtime.aside import do_aside, on_main_thread
from afl.runtime.lifecycle import BaseLoop, LoopRuns, LoopState, Runnable, wait_until


def started(loop: IdleLoop) -> Running:
    run = Running(loop.run)
    assert loop.is_working.wait(PATIENCE_S)
    return run


def test_a_loop_goes_through_its_states() -> None:
    loop = BusyLoop()
    seen = [(loop.state, loop.running)]
    loop.expect_run()
    seen.append((loop.state, loop.running))
    run = started(loop)
    seen.append((loop.state, loop.running))
    loop.request_stop()
    seen.append((loop.state, loop.running))
    loop.finish.set()
    assert run.ended()
    seen.append((loop.state, loop.running))
    assert [state for state, _ in seen] == list(LoopState)
    assert [is_running for _, is_running in seen] == [False, False, True, True, False]


def test_a_loop_is_a_runnable() -> None:
    assert isinstance(IdleLoop(), Runnable)


# A stop that comes early


class Forgetful(IdleLoop):
    """The mistake: a run begins by forgetting what was asked before."""

    def run(self, **options: Any) -> None:
        self._runs = LoopRuns()
        super().run(**options)


def stop_before_start(loop: IdleLoop, patience: float = PATIENCE_S) -> None:
    assert loop.shutdown(timeout=0) is True
    with running(loop) as run:
        assert run.ended(patience)
    assert loop.runs == 0


def test_a_stop_asked_for_before_the_start_is_honoured() -> None:
    """A stop that is lost while the thread of a loop starts leaves it running for ever."""
    stop_before_start(IdleLoop())
    is_caught(lambda: stop_before_start(Forgetful(), DOUBT_S))


def test_a_stop_ends_one_run_and_not_the_next() -> None:
    """A stop that sticks makes a loop that can run only once."""
    loop = IdleLoop()
    started(loop)
    assert loop.shutdown(timeout=PATIENCE_S)
    assert loop.shutdown(timeout=0) is True
    loop.request_stop()
    again = started(loop)
    assert loop.state is LoopState.RUNNING
    assert loop.shutdown(timeout=PATIENCE_S)
    assert again.ended()
    assert loop.runs == 2


class Unexpecting(IdleLoop):
    """The mistake: nobody says that a run is about to begin."""

    def expect_run(self) -> None:
        pass


def stop_while_starting_again(loop: IdleLoop, patience: float = PATIENCE_S) -> None:
    started(loop)
    loop.shutdown(timeout=PATIENCE_S)
    loop.expect_run()
    loop.shutdown(timeout=0)
    with running(loop) as run:
        assert run.ended(patience)


def test_a_stop_for_a_run_that_is_expected_is_not_lost() -> None:
    """A group that starts a loop for the second time must not lose a stop meanwhile."""
    stop_while_starting_again(IdleLoop())
    is_caught(lambda: stop_while_starting_again(Unexpecting(), DOUBT_S))


# Two runs


class Unguarded(LoopRuns):
    """The mistake: whoever comes begins a run."""

    def _begin(self) -> Any:
        self._run = None
        return super()._begin()


def run_twice(runs: LoopRuns) -> None:
    with runs.running(), pytest.raises(UsageError, match="running already"), runs.running():
        pass


def test_a_stop_is_seen_at_once_although_who_waits_is_woken_by_another_thread() -> None:
    runs, may_wake = LoopRuns(), threading.Event()
    assert on_main_thread(), "where nobody may take the lock of an event"
    do_aside(may_wake.wait)
    try:
        with runs.running() as stop:
            runs.request_stop()
            assert stop.is_set(), "what ends now must bring no more"
            assert not stop.wait(0)
            may_wake.set()
            assert stop.wait(PATIENCE_S)
    finally:
        may_wake.set()


def test_a_second_run_at_the_same_time_is_refused() -> None:
    """Two runs of one loop: the first to end would say that nothing runs."""
    run_twice(LoopRuns())
    is_caught(lambda: run_twice(Unguarded()))


def test_a_refused_run_leaves_the_first_one_alone() -> None:
    loop = IdleLoop()
    with running(loop):
        assert loop.is_working.wait(PATIENCE_S)
        with pytest.raises(UsageError):
            loop.run()
        assert loop.running


# Stopping


class Itself(BaseLoop):
    """Shuts itself down while it works."""

    def work(self, stop: threading.Event, **_options: Any) -> None:
        self.answer = self.shutdown(timeout=PATIENCE_S)
        self.was_asked = stop.is_set()


def test_a_loop_that_shuts_itself_down_does_not_wait_for_itself() -> None:
    """A loop that waits for its own end waits for the whole timeout."""
    loop = Itself()
    run = Running(loop.run)
    assert run.ended()
    assert (loop.answer, loop.was_asked) == (False, True)


class Impatient(LoopRuns):
    """The mistake: without time to wait nobody looks."""

    def shutdown(self, timeout: float) -> bool:
        return timeout > 0 and super().shutdown(timeout)


def ask_without_time(runs: LoopRuns) -> None:
    assert runs.shutdown(0) is True
    with runs.running():
        assert Running(lambda: runs.shutdown(0)).outcome() is False
    assert runs.shutdown(0) is True


def test_shutting_down_without_time_says_whether_it_has_ended() -> None:
    """A timeout of 0 asks and looks once."""
    ask_without_time(LoopRuns())
    is_caught(lambda: ask_without_time(Impatient()))


def test_a_shutdown_waits_on_the_clock_of_the_loop_and_no_longer() -> None:
    clock = FakeClock()
    loop = BusyLoop(clock=clock)
    run = started(loop)
    waiting = Running(lambda: loop.shutdown(timeout=30))
    clock.wait_for_waiters(1)
    clock.advance(29.9)
    assert not waiting.ended(DOUBT_S)
    clock.advance(0.1)
    assert waiting.outcome() is False
    loop.finish.set()
    assert run.ended()


def test_the_end_of_a_run_ends_the_wait_for_it() -> None:
    """No polling: the clock stands still, and the wait ends all the same."""
    clock = FakeClock()
    loop = BusyLoop(clock=clock)
    started(loop)
    waiting = Running(lambda: loop.shutdown(timeout=30))
    clock.wait_for_waiters(1)
    loop.finish.set()
    assert waiting.outcome() is True


def test_leaving_the_block_shuts_down() -> None:
    loop = IdleLoop()
    with loop:
        run = started(loop)
    assert run.ended()


def test_many_threads_may_ask_at_once() -> None:
    loop = IdleLoop()
    run = started(loop)
    asking = [Running(lambda: loop.shutdown(timeout=PATIENCE_S)) for _ in range(20)]
    assert [each.outcome() for each in asking] == [True] * 20
    assert run.ended()


def test_a_loop_that_raises_has_stopped() -> None:
    class Broken(BaseLoop):
        def work(self, stop: threading.Event, **_options: Any) -> None:
            raise RuntimeError("broken")

    loop = Broken()
    with pytest.raises(RuntimeError, match="broken"):
        loop.run()
    assert loop.state is LoopState.STOPPED


def test_the_age_of_a_beat_begins_with_the_run() -> None:
    """A loop that was made long before it runs must not look stalled."""
    clock = FakeClock()
    loop = IdleLoop(clock=clock)
    clock.advance(1000)
    with running(loop):
        assert loop.is_working.wait(PATIENCE_S)
        assert loop.heartbeat.elapsed() == 0


# Waiting for what tells nobody


def test_wait_until_asks_before_it_waits() -> None:
    assert wait_until(lambda: True, timeout=0, clock=FakeClock()) is True
    assert wait_until(lambda: False, timeout=0, clock=FakeClock()) is False


def test_wait_until_asks_once_more_at_the_deadline() -> None:
    clock = FakeClock()
    answer: list[bool] = []
    waiting = Running(lambda: wait_until(lambda: bool(answer), timeout=0.25, clock=clock))
    clock.wait_for_waiters(1)
    answer.append(True)
    clock.advance(0.25)
    assert waiting.outcome() is True


def test_wait_until_gives_up_at_its_timeout() -> None:
    clock = FakeClock()
    waiting = Running(lambda: wait_until(lambda: False, timeout=1, poll_interval=0.5, clock=clock))
    for _ in range(2):
        clock.wait_for_waiters(1)
        clock.advance(0.5)
    assert waiting.outcome() is False
    eventually(lambda: clock.waiters == 0)
