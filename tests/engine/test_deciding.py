"""Results that wait together are decided together, and fail apart."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine.programs import compiled

from afl.clock import SYSTEM_CLOCK
from afl.collector import collector_paused
from afl.runtime.context import ExecutionContext
from afl.runtime.deciding import Decisions, Settings
from afl.runtime.entities import TaskDefinition
from afl.runtime.errors import RunNotFoundError, StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.plan import Plan
from afl.runtime.sql_store import SqliteStore
from afl.runtime.sql_store.pruning import prune
from afl.runtime.types import WorkflowId
from afl.telemetry import Telemetry

TEXT = """workflow W(items: [Long]) => (sums: [Long]) andThen foreach i in $.items {
    a = Add(a = i) yield W(sums = a.sum)
}"""


TWO_BLOCKS = """workflow W(n: Long) => (first: Long, second: Long) andThen {
    a = Add(a = $.n) yield W(first = a.sum)
} andThen {
    b = Add(a = $.n + 1) yield W(second = b.sum)
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


def test_results_of_many_runs_that_wait_together_are_one_request(store: SqliteStore) -> None:
    evaluator = Evaluator(store)
    program = compiled(TEXT)
    runs = [evaluator.submit(program, "W", {"items": [number, 7]}) for number in range(20)]
    tasks = store.claim_tasks(["t.Add"], 40)
    with writer_held(store):
        before = store.database.statistics().requests
        pending = [evaluator.complete_task_later(each, answer(each)) for each in tasks]
    for each in pending:
        each.result()
    assert store.database.statistics().requests - before == 2
    outputs = [evaluator.result(each).outputs for each in runs]
    assert outputs == [{"sums": [number + 1, 8]} for number in range(20)]


def test_blocks_that_end_in_different_commits_all_yield(store: SqliteStore) -> None:
    evaluator = Evaluator(store)
    run_id = evaluator.submit(compiled(TWO_BLOCKS), "W", {"n": 1})
    for task in store.claim_tasks(["t.Add"], 2):
        evaluator.complete_task(task, answer(task))
    assert evaluator.result(run_id).outputs == {"first": 2, "second": 3}


def test_blocks_that_end_in_one_commit_all_yield(store: SqliteStore) -> None:
    evaluator = Evaluator(store)
    run_id = evaluator.submit(compiled(TWO_BLOCKS), "W", {"n": 1})
    tasks = store.claim_tasks(["t.Add"], 2)
    with writer_held(store):
        pending = [evaluator.complete_task_later(each, answer(each)) for each in tasks]
    for each in pending:
        each.result()
    assert evaluator.result(run_id).outputs == {"first": 2, "second": 3}


def test_what_was_decided_is_let_go_of_without_the_collector(store: SqliteStore) -> None:
    evaluator = Evaluator(store)
    program = compiled(TEXT)
    count = 20

    def work() -> None:
        for number in range(count):
            evaluator.submit(program, "W", {"items": [number]})
        tasks = store.claim_tasks(["t.Add"], count)
        with writer_held(store):
            pending = [evaluator.complete_task_later(each, answer(each)) for each in tasks]
        for each in pending:
            each.result()

    work()  # what is made once, such as plans
    gc.collect()
    with collector_paused():
        work()
        # A circle in what is made for each result would be more than one object for each.
        assert gc.collect() < count


def test_a_result_of_a_run_that_is_gone_is_refused_alone(store: SqliteStore) -> None:
    evaluator, run_id, tasks = begun(store, 1)
    _, gone_id, lost = begun(store, 1)
    evaluator.cancel(gone_id)
    with writer_held(store):
        pruning = store.database.submit(lambda tx: prune(tx, 0, 100, store.now_ms() + 1000))
        good = evaluator.complete_task_later(tasks[0], answer(tasks[0]))
        bad = evaluator.complete_task_later(lost[0], answer(lost[0]))
    assert pruning.result().runs == 1
    good.result()
    with pytest.raises(RunNotFoundError):
        bad.result()
    assert evaluator.result(run_id).outputs == {"sums": [1]}


def test_a_full_batch_is_followed_by_another(store: SqliteStore) -> None:
    evaluator, run_id, tasks = begun(store, 300)
    with writer_held(store):
        pending = [evaluator.complete_task_later(each, answer(each)) for each in tasks]
    for each in pending:
        each.result()
    assert evaluator.result(run_id).outputs == {"sums": list(range(1, 301))}


def test_threads_that_wait_and_threads_that_do_not_share_commits(store: SqliteStore) -> None:
    evaluator = Evaluator(store)
    program = compiled(TEXT)
    runs = [evaluator.submit(program, "W", {"items": list(range(10))}) for _ in range(12)]
    tasks = store.claim_tasks(["t.Add"], 120)

    def work(mine: list[TaskDefinition]) -> None:
        later = [evaluator.complete_task_later(each, answer(each)) for each in mine[::2]]
        for each in mine[1::2]:
            evaluator.complete_task(each, answer(each))
        for pending in later:
            pending.result()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, [tasks[start::6] for start in range(6)]))
    for each in runs:
        assert evaluator.result(each).outputs == {"sums": list(range(1, 11))}


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
