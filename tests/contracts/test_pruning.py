"""A run that is too large for one commit is removed in several, whoever makes them."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.contracts import mongo_stores, postgres_stores
from tests.engine.places import Store, open_at

from afl.ids import new_id
from afl.runtime.entities import LogDefinition, RunnerState, TaskState
from afl.runtime.errors import RunNotFoundError
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import IterationChanges, Pruned, task_id_of
from afl.runtime.rows import pruning
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import (
    add_tasks,
    claim_of,
    claim_one,
    new_event,
    new_run,
    new_step,
    new_task,
)

#: So many rows go in one commit here.
ROWS = 10
STEPS = 25
STRAYS = 3

#: Removes what is old, and is killed after the first commit.
KILLED = f"""\
import os, signal, sys
from afl.runtime.mongo_store import pruning as documents
from afl.runtime.rows import pruning
from tests.engine.places import open_at

class Killer:
    def sleep(self, seconds):
        os.kill(os.getpid(), signal.SIGKILL)

pruning.SYSTEM_CLOCK = Killer()
pruning.ROWS = documents.PIECE = {ROWS}
open_at(sys.argv[1]).prune_runs(0)
"""


class Between:
    """Does something between two commits."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def sleep(self, _seconds: float) -> None:
        self._act()


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "postgres":
        yield postgres_stores.emptied(request.getfixturevalue("postgres_url"))
    elif request.param == "mongo":
        yield mongo_stores.emptied(request.getfixturevalue("mongo_url"))
    else:
        folder = tempfile.mkdtemp(prefix="afl-")
        yield str(Path(folder) / "afl.db")
        shutil.rmtree(folder)


@pytest.fixture
def store(place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr("afl.runtime.rows.pruning.ROWS", ROWS)
    monkeypatch.setattr("afl.runtime.mongo_store.pruning.PIECE", ROWS)
    with open_at(place) as opened:
        yield opened


def add_failed(store: Store, run_id: str, ago_ms: int, steps: int, strays: int = 0) -> None:
    """A run that failed, with as many tasks, events and lines of its log as it has steps."""
    made = [new_step(workflow_id=run_id) for _ in range(steps)]
    of_run = {"workflow_id": run_id, "runner_id": run_id, "state": TaskState.FAILED}
    tasks = [new_task(uuid=task_id_of(each.id), step_id=each.id, **of_run) for each in made]
    ended = store.now_ms() - ago_ms
    store.commit(
        IterationChanges(
            created_runs=[new_run(run_id, state=RunnerState.FAILED, end_time=ended)],
            created_steps=made,
            created_tasks=[*tasks, *(new_task(**of_run) for _ in range(strays))],
            created_events=[new_event(each.id, workflow_id=run_id) for each in made],
            logs=[LogDefinition(new_id(), at, run_id) for at in range(steps)],
        )
    )


def kept(store: Store, run_id: str) -> list[int]:
    """How many records, steps, tasks, events and lines there are of a run."""
    run = WorkflowId(run_id)
    return [
        len(store.get_runners_by_workflow(run)),
        len(store.get_steps_by_workflow(run)),
        sum(each.workflow_id == run_id for each in store.get_all_tasks(1000)),
        sum(each.workflow_id == run_id for each in store.get_all_events()),
        len(store.get_logs_by_runner(run_id)),
    ]


def test_others_write_between_the_commits_of_a_removal(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else workers would lose what they have claimed while something large is removed."""
    add_failed(store, "large", 1000, STEPS, STRAYS)
    add_tasks(store, new_task())
    claim = claim_of(claim_one(store))
    seen = [STEPS]

    def renew() -> None:
        assert store.extend_leases([claim], 15_000) == [True]
        seen.append(len(store.get_steps_by_workflow(WorkflowId("large"))))

    monkeypatch.setattr(pruning, "SYSTEM_CLOCK", Between(renew))
    assert store.prune_runs(0) == Pruned(1, STEPS, STEPS + STRAYS)
    assert len(seen) > 2
    assert all(before - after <= ROWS for before, after in pairwise(seen))
    assert kept(store, "large") == [0, 0, 0, 0, 0]
    assert store.prune_runs(0) == Pruned(0, 0, 0)


def test_a_removal_that_was_killed_is_finished_by_the_next(store: Store, place: str) -> None:
    add_failed(store, "small", 3000, 1)
    add_failed(store, "large", 2000, STEPS, STRAYS)
    add_failed(store, "last", 1000, 1)
    killed = subprocess.run([sys.executable, "-c", KILLED, place], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert kept(store, "small") == [0, 0, 0, 0, 0]
    assert kept(store, "last") == [1, 1, 1, 1, 1]
    is_there, steps, tasks, *_ = kept(store, "large")
    assert not is_there, "what is half removed must not be found"
    assert 0 < steps < STEPS
    left = store.get_steps_by_workflow(WorkflowId("large"))
    with pytest.raises(RunNotFoundError):
        Evaluator(store).retry_step(left[0].id)
    assert store.prune_runs(0, limit=1) == Pruned(1, steps, tasks)
    assert kept(store, "large") == [0, 0, 0, 0, 0]
    assert store.prune_runs(0) == Pruned(1, 1, 1)
    assert store.prune_runs(0) == Pruned(0, 0, 0)


def test_of_many_runs_each_goes_in_one_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but those at the end of a commit, which are not found by anybody."""
    names = [str(each) for each in range(8)]
    for each in names:
        add_failed(store, each, 1000, 1)

    def look() -> None:
        for each in names:
            is_there, *others = kept(store, each)
            assert is_there == all(others)

    monkeypatch.setattr(pruning, "SYSTEM_CLOCK", Between(look))
    assert store.prune_runs(0) == Pruned(8, 8, 8)
