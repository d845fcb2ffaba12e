"""Results of a run that wait together are decided together, and fail apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine.programs import compiled

from afl.clock import SYSTEM_CLOCK
from afl.runtime.context import ExecutionContext
from afl.runtime.deciding import Decisions, Settings
from afl.runtime.entities import TaskDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.plan import Plan
from afl.runtime.sql_store import SqliteStore
from afl.runtime.types import WorkflowId
from afl.telemetry import Telemetry

TEXT = """workflow W(items: [Long]) => (sums: [Long]) andThen foreach i in $.items {
    a = Add(a = i) yield W(sums = a.sum)
}"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "runs.db") as opened:
        yield opened


@contextmanager
def writer_held(store: SqliteStore) -> Iterator[None]:
    """As long as another write goes on, results have to wait together."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_tx: object) -> None:
        begun.set()
        go_on.wait()

    held = store.database.submit(hold)
    begun.wait()
    try:
        yield
    finally:
        go_on.set()
        held.result()


def begun(store: SqliteStore, count: int) -> tuple[Evaluator, WorkflowId, list[TaskDefinition]]:
    evaluator = Evaluator(store)
    run_id = evaluator.submit(compiled(TEXT), "W", {"items": list(range(count))})
    return evaluator, run_id, store.claim_tasks(["t.Add"], count)


def answer(task: TaskDefinition) -> dict[str, int]:
    assert task.data is not None
    return {"sum": task.data["a"] + 1}


def test_results_that_wait_together_are_one_request(store: SqliteStore) -> None:
    evaluator, run_id, tasks = begun(store, 5)
    with writer_held(store):
        before = store.database.statistics().requests
        pending = [evaluator.complete_task_later(each, answer(each)) for each in tasks]
        assert not any(each.done() for each in pending)
    for each in pending:
        assert each.result() == []
    # The one that held the writer, and one for all five.
    assert store.database.statistics().requests - before == 2
    assert evaluator.result(run_id).outputs == {"sums": [1, 2, 3, 4, 5]}


def test_a_lost_claim_is_refused_alone(store: SqliteStore) -> None:
    evaluator, run_id, tasks = begun(store, 3)
    stale = replace(tasks[1], fence=tasks[1].fence + 1)
    with writer_held(store):
        pending = [evaluator.complete_task_later(each, {"sum": 7}) for each in (tasks[0], stale)]
        twice = evaluator.complete_task_later(tasks[0], {"sum": 8})
        pending.append(evaluator.complete_task_later(tasks[2], {"sum": 9}))
    pending[0].result()
    pending[2].result()
    for lost in (pending[1], twice):
        with pytest.raises(StaleFence):
            lost.result()
    evaluator.complete_task(tasks[1], {"sum": 0})
    assert evaluator.result(run_id).outputs == {"sums": [7, 0, 9]}


def test_a_defect_of_one_result_leaves_the_others_alone(store: SqliteStore) -> None:
    _, run_id, tasks = begun(store, 2)
    plan = Plan(compiled(TEXT))
    settings = Settings("me", max_depth=10, runs_scripts=False)
    decisions = Decisions(store, settings, Telemetry(), SYSTEM_CLOCK, lambda _task: None)
    done: list[str] = []

    def fine(context: ExecutionContext) -> None:
        done.append(context.workflow_id)

    def defective(context: ExecutionContext) -> None:
        context.touch_run()
        raise RuntimeError("half way")

    with writer_held(store):
        good = decisions.about_task(tasks[0], plan, fine)
        bad = decisions.about_task(tasks[1], plan, defective)
    with pytest.raises(RuntimeError, match="half way"):
        bad.result()
    assert good.result() == []
    assert done[-1] == run_id
    run = store.get_run(run_id)
    assert run is not None
    assert run.version == 0
