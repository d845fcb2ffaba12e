"""What the engine asks costs what it finds, however much is kept: the server says what it read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.contracts.mongo_stores import client_of
from tests.engine.cases import BY_NAME
from tests.engine.worker import work_all

from afl.ids import new_id
from afl.runtime.entities import TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.listing import RunQuery, TaskQuery
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.schema import RUNS, STEPS, TASKS
from afl.runtime.persistence import IterationChanges
from afl.testing.contracts.store.exam import new_run, new_step, new_task

CROWD = 300
#: More than any of these questions finds, less than all that is kept.
MOST = 60
LARGE = {TASKS, STEPS, RUNS}


def crowd(store: MongoStore) -> None:
    """Runs of the past, and tasks of others that wait or run."""
    numbers = range(CROWD)
    changes = IterationChanges(
        created_runs=[new_run(f"old-{each}", state="completed") for each in numbers],
        created_steps=[new_step(workflow_id=f"old-{each}") for each in numbers],
        created_tasks=[
            *(new_task("x.Done", state=TaskState.COMPLETED) for _ in numbers),
            *(new_task("x.Other") for _ in numbers),
            *(
                new_task("x.Busy", state=TaskState.RUNNING, lease_ms=1, lease_expires=2**60)
                for _ in numbers
            ),
        ],
    )
    for task in changes.created_tasks:
        if task.state == TaskState.RUNNING:
            task.lease_expires = store.now_ms() + 3_600_000
            task.lease_ms = 3_600_001
    store.commit(changes)


@contextmanager
def watched(url: str) -> Iterator[list[dict[str, Any]]]:
    """What the server did meanwhile."""
    database = client_of(url)["afl"]
    database.command("profile", 0)
    database["system.profile"].drop()
    database.command("profile", 2)
    seen: list[dict[str, Any]] = []
    try:
        yield seen
    finally:
        database.command("profile", 0)
        seen += database["system.profile"].find({"ns": {"$in": [f"afl.{each}" for each in LARGE]}})


def check(seen: list[dict[str, Any]]) -> None:
    assert seen
    for each in seen:
        what = (each.get("command"), each.get("planSummary"), each.get("docsExamined"))
        assert "COLLSCAN" not in each.get("planSummary", ""), what
        assert each.get("docsExamined", 0) <= MOST, what


def test_a_run_costs_what_it_does(url: str, store: MongoStore) -> None:
    crowd(store)
    evaluator = Evaluator(store)
    case = BY_NAME["one event"]
    with watched(url) as seen:
        run_id = evaluator.submit(case.program, case.workflow, case.inputs, key=new_id())
        assert store.wait_for_work(["t.Ask", "Add"], 0)
        work_all(evaluator)
        assert store.wait_for_run(run_id, 0)
        assert not store.wait_for_work(["t.Ask", "Add"], 0)
        assert not store.claim_tasks(["t.Ask", "Add"], 9, is_told=True)
    check(seen)


def test_pages_cost_what_they_show(url: str, store: MongoStore) -> None:
    crowd(store)
    with watched(url) as seen:
        store.list_runs(RunQuery(), 5)
        store.list_runs(RunQuery(state="completed"), 5)
        store.list_runs(RunQuery(workflows=("shop.Order",)), 5)
        store.list_tasks(TaskQuery(), 5)
        store.list_tasks(TaskQuery(TaskState.PENDING), 5)
        store.list_tasks(TaskQuery(TaskState.FAILED), 5)
        store.find_run_ids("old-1", 3)
        store.find_task_ids("a", 3)
        store.get_runners_by_state("running")
        store.prune_runs(10**15)
    check(seen)
