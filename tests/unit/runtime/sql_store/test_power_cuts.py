"""What a file holds after the machine has lost its power.

Stood for by a copy of the file and of as much of its log as was flushed: what SQLite had not
flushed when the power failed may be gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from afl import compile_source
from afl.clock import FakeClock
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import Claim
from afl.runtime.sql_store import SqliteStore
from afl.runtime.types import WorkflowId

PROGRAM = compile_source("""
namespace t

event facet Work(n: Long) => (n: Long)

workflow One(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    yield One(n = a.n)
}
""")


class Machine:
    """A store, and what would be left of it."""

    def __init__(self, store: SqliteStore, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.evaluator = Evaluator(store)
        self._log = Path(f"{store.database.path}-wal")
        self._flushes = self._size = 0

    def does(self, act: Callable[[], object]) -> None:
        """Note how much of the log is on the disk afterwards."""
        act()
        flushes = self.store.database.statistics().flushed_batches
        if flushes != self._flushes:
            self._flushes, self._size = flushes, self._log.stat().st_size

    def submits(self) -> WorkflowId:
        runs: list[WorkflowId] = []
        self.does(lambda: runs.append(self.evaluator.submit(PROGRAM, "One", {"n": 1})))
        return runs[0]

    def claims(self, *, is_durable: bool = False) -> TaskDefinition:
        tasks: list[TaskDefinition] = []
        self.does(
            lambda: tasks.extend(self.store.claim_tasks(["t.Work"], 1, is_durable=is_durable))
        )
        return tasks[0]

    @contextmanager
    def after_a_cut(self, folder: Path) -> Iterator[SqliteStore]:
        copy = folder / "cut.db"
        shutil.copy(self.store.database.path, copy)
        Path(f"{copy}-wal").write_bytes(self._log.read_bytes()[: self._size])
        with SqliteStore(copy, clock=self.clock) as store:
            yield store


@pytest.fixture
def machine(store: SqliteStore, clock: FakeClock) -> Machine:
    machine = Machine(store, clock)
    machine.does(lambda: None)
    return machine


def state_of(store: SqliteStore, task: TaskDefinition) -> tuple[str, int, int]:
    found = store.get_task(task.uuid)
    assert found is not None
    return found.state, found.fence, found.deliveries


def test_a_claim_may_be_undone_and_its_task_waits_again(machine: Machine, folder: Path) -> None:
    run = machine.submits()
    task = machine.claims()
    with machine.after_a_cut(folder) as store:
        assert state_of(store, task) == (TaskState.PENDING, 0, 0)
        (again,) = store.claim_tasks(["t.Work"], 1)
        Evaluator(store).complete_task(again, {"n": 1})
        found = store.get_run(run)
        assert found is not None
        assert found.state == RunnerState.COMPLETED


def test_a_claim_that_is_to_be_durable_stays(machine: Machine, folder: Path) -> None:
    machine.submits()
    task = machine.claims(is_durable=True)
    with machine.after_a_cut(folder) as store:
        assert state_of(store, task) == (TaskState.RUNNING, 1, 1)


def test_a_claim_that_was_extended_stays(machine: Machine, folder: Path) -> None:
    machine.submits()
    task = machine.claims()
    claim = Claim(task.uuid, task.fence)
    machine.does(lambda: machine.store.extend_leases([claim]))
    with machine.after_a_cut(folder) as store:
        assert state_of(store, task) == (TaskState.RUNNING, 1, 1)


def test_what_anybody_writes_takes_claims_along(machine: Machine, folder: Path) -> None:
    machine.submits()
    task = machine.claims()
    machine.submits()
    with machine.after_a_cut(folder) as store:
        assert state_of(store, task) == (TaskState.RUNNING, 1, 1)


def test_a_result_stays(machine: Machine, folder: Path) -> None:
    machine.submits()
    task = machine.claims()
    machine.does(lambda: machine.evaluator.complete_task(task, {"n": 1}))
    with machine.after_a_cut(folder) as store:
        assert state_of(store, task) == (TaskState.COMPLETED, 2, 1)
