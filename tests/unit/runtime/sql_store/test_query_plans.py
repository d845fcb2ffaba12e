"""Whatever is asked often is found by the index that is meant for it, never by reading a table."""

from __future__ import annotations

import re

import pytest

from afl.db.sqlite import Row
from afl.runtime.entities import TaskState
from afl.runtime.sql_store import SqliteStore, lists, pruning, queue, runs, steps, tasks
from afl.runtime.sql_store.runs import RUNS
from afl.runtime.sql_store.tasks import TASKS

#: Indexes of few rows, which may be read from end to end.
SMALL = {"task_running", "task_stray", "step_stray"}
OF_RUN = {"step_run", "task_id", "task_stray", "rowid"}
WAITING = {"task_queue", "task_running", "rowid"}


def task(condition: str) -> str:
    return f"{TASKS.select} {condition}"


def run(condition: str) -> str:
    return f"{RUNS.select} {condition}"


STATEMENTS = {
    "step by id": (steps.BY_ID, {"step_id"}),
    "steps by ids": (steps.BY_IDS, {"step_id"}),
    "steps of a block": (steps.BY_BLOCK, {"step_run", "step_id", "step_stray", "rowid"}),
    "what yields gave": (steps.YIELDED, {"step_yield"}),
    "steps of a run": (steps.BY_RUN, {"step_run"}),
    "steps of a container": (steps.BY_CONTAINER, {"step_run", "step_id"}),
    "root of a run": (steps.ROOT, {"step_run"}),
    "whether a step is there": (steps.IS_THERE, {"step_id"}),
    "whether a statement has a stray step": (steps.STRAY_AT, {"step_stray"}),
    "update of a step": (steps.UPDATE, {"step_id"}),
    "replacement of a step": (steps.REPLACE, {"step_id"}),
    "task by id": (task(tasks.BY_ID), {"task_id"}),
    "open tasks of a run": (task(tasks.OPEN_OF_RUN), OF_RUN),
    "pending tasks": (task(tasks.PENDING), {"task_queue"}),
    "tasks by ids": (task(tasks.BY_IDS), {"task_id"}),
    "runs of a runner": (tasks.RUNS_OF_RUNNER, {"run_uuid"}),
    "tasks of a run": (task(tasks.ALL_OF_RUN), OF_RUN),
    "running task of a step": (tasks.RUNNING_OF_STEP, {"task_running"}),
    "tasks that stopped": (task(tasks.newest_in("failed")), {"task_stopped"}),
    "update of a task": (tasks.UPDATE, {"task_id"}),
    "move of a task": (tasks.MOVE, {"task_id"}),
    "what can be claimed": (queue.CANDIDATES.full, WAITING),
    "what can be claimed by exact name": (queue.CANDIDATES.exact, WAITING),
    "names that end alike": (queue.NEXT_NAME, {"task_queue"}),
    "next time": (queue.NEXT_TIME, {"task_queue", "task_running"}),
    "claim of tasks that were chosen": (queue.TAKE, {"rowid"}),
    "run without parameters": (runs.HEAD, {"run_id"}),
    "run by record": (run(runs.BY_UUID), {"run_uuid"}),
    "run by id": (run(runs.BY_ID), {"run_id"}),
    "run by key": (run(runs.BY_KEY), {"run_key"}),
    "runs by state": (run(runs.BY_STATE), {"run_state"}),
    "update of a run": (runs.UPDATE, {"run_uuid"}),
    "runs to prune": (pruning.OLD, {"run_ended"}),
    "runs to prune by their own word": (pruning.EXPIRED, {"run_retained"}),
    "steps to prune": (pruning.STATEMENTS.steps, {"step_run", "rowid"}),
    "tasks to prune": (pruning.STATEMENTS.tasks, {"task_id", "step_run"}),
    "stray tasks to prune": (pruning.STATEMENTS.stray_tasks, {"task_stray", "rowid"}),
    "events to prune": (pruning.STATEMENTS.events, {"event_run", "rowid"}),
    "logs to prune": (pruning.STATEMENTS.logs, {"log_runner", "rowid"}),
    "run to prune": (pruning.STATEMENTS.run, {"run_uuid"}),
    "runs that are half removed": (pruning.NOTED, set()),
    "run that is removed": (pruning.STATEMENTS.unnote, {"sqlite_autoindex_removal_1"}),
    "flows to prune": (pruning.UNUSED_FLOW, {"sqlite_autoindex_flow_1", "run_flow"}),
    "page of runs": (lists.NEWEST_RUNS, {"rowid"}),
    "page of runs in a state": (lists.RUNS_IN_STATE, {"run_state"}),
    "page of runs that fit": (lists.FITTING_RUNS, {"run_workflow", "run_id", "rowid"}),
    "last run": (lists.LAST_RUN, set()),
    "counts of runs": (lists.COUNT_RUNS, {"run_state"}),
    "ids of runs": (lists.RUN_IDS, {"run_id"}),
    "page of tasks": (lists.NEWEST_TASKS, {"rowid"}),
    "page of pending tasks": (lists.PENDING_TASKS, {"task_queue", "rowid"}),
    "page of running tasks": (lists.RUNNING_TASKS, {"task_running"}),
    "page of tasks that stopped": (lists.STOPPED_TASKS, {"task_stopped"}),
    "page of tasks of a run": (lists.TASKS_OF_RUN, OF_RUN),
    "how far a page of tasks looks": (lists.LOOK_AT_NEWEST, {"rowid"}),
    "how far a page of stopped tasks looks": (lists.LOOK_AT_STOPPED, {"task_stopped"}),
    "count of running tasks": (lists.COUNT_TASKS[TaskState.RUNNING], {"task_running"}),
    "count of failed tasks": (lists.COUNT_TASKS[TaskState.FAILED], {"task_stopped"}),
    "next queue": (lists.NEXT_QUEUE, {"task_queue"}),
    "what waits in a queue": (lists.QUEUE, {"task_queue"}),
    "ids of tasks": (lists.TASK_IDS, {"task_id"}),
    "tasks that changed": (lists.CHANGED_TASKS, {"task_id", "rowid"}),
    "page of steps": (lists.STEPS_OF_RUN, {"step_run"}),
    "steps that changed": (lists.CHANGED_STEPS, {"step_id", "rowid"}),
    "page of a log": (lists.LOGS_OF_RUN, {"log_runner"}),
}


def plan(store: SqliteStore, sql: str) -> list[str]:
    return [detail for *_numbers, detail in _explained(store, "EXPLAIN QUERY PLAN", sql)]


def _explained(store: SqliteStore, how: str, sql: str) -> list[Row]:
    marks = [None] * sql.count("?")
    named = dict.fromkeys(re.findall(r":(\w+)", sql))
    return store.database.write(lambda tx: tx.query_all(f"{how} {sql}", named or marks))


@pytest.mark.parametrize(("sql", "indexes"), STATEMENTS.values(), ids=STATEMENTS)
def test_the_index_is_used(store: SqliteStore, sql: str, indexes: set[str]) -> None:
    found = plan(store, sql)
    text = "\n".join(found)
    used = set(re.findall(r"USING (?:COVERING )?INDEX (\w+)", text))
    if "USING INTEGER PRIMARY KEY" in text:
        used.add("rowid")
    assert used == indexes
    scanned = [each for each in found if re.match(r"SCAN (step|task|event|run|flow|log)\b", each)]
    assert [each for each in scanned if each.split()[-1] not in SMALL] == []


@pytest.mark.parametrize(
    "sql",
    [
        steps.BY_RUN,
        pruning.OLD,
        lists.NEWEST_RUNS,
        lists.RUNS_IN_STATE,
        lists.STOPPED_TASKS,
        lists.NEWEST_TASKS,
        lists.NEXT_QUEUE,
        lists.QUEUE,
        lists.RUN_IDS,
        lists.STEPS_OF_RUN,
        lists.LOGS_OF_RUN,
    ],
)
def test_the_order_comes_with_the_index(store: SqliteStore, sql: str) -> None:
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan(store, sql)


@pytest.mark.parametrize(
    ("sql", "index"),
    [(lists.COUNT_TASKS[TaskState.PENDING], "task_queue"), (lists.RUN_WORKFLOWS, "run_workflow")],
)
def test_who_begins_at_an_end_of_an_index_reads_nothing_else_and_stops(
    store: SqliteStore, sql: str, index: str
) -> None:
    read = [each for each in plan(store, sql) if re.match(r"(SCAN|SEARCH) (run|task)\b", each)]
    assert read
    assert all(index in each for each in read)
    assert "LIMIT" in sql


@pytest.mark.parametrize(
    ("state", "index"), [("pending", "task_queue"), ("running", "task_running")]
)
def test_open_tasks_are_read_from_an_index_that_holds_no_others(
    store: SqliteStore, state: str, index: str
) -> None:
    found = plan(store, task(tasks.newest_in(state)))
    assert found[0] == f"SCAN task USING INDEX {index}"


@pytest.mark.parametrize(
    "sql", [steps.UPDATE, steps.INSERT, tasks.UPDATE, tasks.MOVE, TASKS.insert, runs.UPDATE]
)
def test_what_is_written_row_by_row_needs_no_table_of_its_own(store: SqliteStore, sql: str) -> None:
    """A list in the condition of an index would be copied into one for each row."""
    assert "OpenEphemeral" not in [each[1] for each in _explained(store, "EXPLAIN", sql)]
