"""Waiting for a run: how far it has come, what keeps it, and when that is said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.unit.operations.stage import Stage

from afl.errors import StoreUnavailable
from afl.operations.reading import TaskCounts
from afl.operations.waiting import Look, unserved_steps, wait_until_over
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import WorkflowId


@contextmanager
def time_passing(stage: Stage, seconds: int) -> Iterator[None]:
    """Second by second, whenever somebody waits for it."""

    def pass_by() -> None:
        for _ in range(seconds):
            stage.clock.wait_for_waiters(1)
            stage.clock.advance(1)

    mover = threading.Thread(target=pass_by)
    mover.start()
    yield
    mover.join()


def test_waiting_tells_each_change_and_ends_with_the_run(stage: Stage) -> None:
    stage.server(handlers=["t.Ask"])
    run = stage.talk()
    told: list[str] = []

    def tell(look: Look) -> None:
        told.append(str(look.counts))
        stage.answer("x")

    with time_passing(stage, 1):
        assert wait_until_over(stage.store, run, tell, clock=stage.clock) is None
    assert told == ["0 done, 0 running, 1 waiting", "1 done, 0 running, 1 waiting"]


class Away:
    """A store that is away for some of the questions."""

    def __init__(self, store: MemoryStore, *questions: int) -> None:
        self._store = store
        self._questions = questions
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        if name in ("get_tasks_by_runner", "wait_for_run"):
            self.asked += 1
            if self.asked in self._questions:
                raise StoreUnavailable("postgresql://db cannot be reached; is it running?")
        return getattr(self._store, name)


def test_outages_are_waited_for(stage: Stage) -> None:
    stage.server(handlers=["t.Ask"])
    run = stage.talk()
    # At the first look, and whenever the end is waited for.
    store: Any = Away(stage.store, 1, 3, 5)
    told: list[int] = []

    def tell(look: Look) -> None:
        told.append(look.counts.done)
        if look.counts.waiting:
            stage.answer("x")

    with time_passing(stage, 3):
        assert wait_until_over(store, run, tell, clock=stage.clock) is None
    assert told == [0, 1, 2]


def test_an_outage_is_waited_for_until_the_time_is_over(stage: Stage) -> None:
    run = stage.talk()
    store: Any = Away(stage.store, *range(1000))
    with time_passing(stage, 3), pytest.raises(StoreUnavailable, match="is it running"):
        wait_until_over(store, run, print, 3, clock=stage.clock)
    assert stage.clock.monotonic() == 4  # with the one that the stage takes


def test_waiting_ends_at_its_timeout(stage: Stage) -> None:
    stage.server(handlers=["t.Ask"])
    run = stage.talk()
    told: list[Look] = []
    last = wait_until_over(stage.store, run, told.append, 0, clock=stage.clock)
    assert told == [last] == [Look(TaskCounts(waiting=1))]


def test_that_nobody_serves_a_task_is_told_after_a_moment(stage: Stage) -> None:
    run = stage.talk()
    told: list[tuple[str, ...]] = []

    def tell(look: Look) -> None:
        told.append(look.unserved)
        if look.unserved:
            stage.evaluator.cancel(WorkflowId(run.workflow_id))

    with time_passing(stage, 1):
        assert wait_until_over(stage.store, run, tell, clock=stage.clock) is None
    assert told == [(), ("t.Ask",)]


def test_a_worker_that_is_registered_for_is_given_longer_to_come(stage: Stage) -> None:
    stage.store.register_handler("t.Ask", "handlers")
    run = stage.talk()
    told: list[tuple[str, ...]] = []
    with time_passing(stage, 4):
        last = wait_until_over(
            stage.store, run, lambda look: told.append(look.unattended), 4, clock=stage.clock
        )
    # At the end of the time, it is told in any case.
    assert told == [(), ("t.Ask",)]
    assert last is not None
    assert (last.unserved, last.unattended) == ((), ("t.Ask",))


def test_who_comes_within_the_moment_is_not_missed(stage: Stage) -> None:
    run = stage.talk()
    told: list[tuple[str, ...]] = []

    def tell(look: Look) -> None:
        told.append(look.unserved)
        stage.server(handlers=["t.Ask"])

    with time_passing(stage, 2):
        last = wait_until_over(stage.store, run, tell, 2, clock=stage.clock)
    assert last is not None
    assert ("t.Ask",) not in [last.unserved, *told]


def test_steps_that_nobody_serves_are_found(stage: Stage) -> None:
    run = stage.talk()
    [task] = stage.store.get_pending_tasks()
    assert unserved_steps(stage.store, run) == {task.step_id}
    stage.store.register_handler("t.Ask", "handlers")
    assert unserved_steps(stage.store, run) == frozenset()
