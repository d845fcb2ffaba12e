"""Whatever is asked often is found by the index that is meant for it, never by reading a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest
from tests.engine.places import Databases

from afl.db.postgres.database import SETTINGS
from afl.runtime.postgres_store import (
    flows,
    holding,
    lists,
    pruning,
    queue,
    runs,
    steps,
    tasks,
)
from afl.runtime.postgres_store.runs import RUNS
from afl.runtime.postgres_store.tasks import TASKS

STEP, TASK = "afl_step_pkey", "afl_task_pkey"
OF_RUN = {"afl_step_run", TASK, "afl_task_stray"}
WAITING = {"afl_task_queue", "afl_task_running", "afl_task_lease", "afl_task_leased"}


def task(condition: str) -> str:
    return f"{TASKS.select} {condition}"


def run(condition: str) -> str:
    return f"{RUNS.select} {condition}"


STATEMENTS = {
    "step by id": (steps.BY_ID, {STEP}),
    "steps by ids": (steps.BY_IDS, {STEP}),
    "steps around tasks": (steps.OF_TASKS, {STEP, TASK}),
    "steps of a block": (steps.BY_BLOCK, {"afl_step_run", STEP, "afl_step_stray"}),
    "what yields gave": (steps.YIELDED, {"afl_step_yield"}),
    "steps of a run": (steps.BY_RUN, {"afl_step_run"}),
    "steps of a container": (steps.BY_CONTAINER, {"afl_step_run", STEP}),
    "root of a run": (steps.ROOT, {"afl_step_run"}),
    "whether a step is there": (steps.IS_THERE, {STEP}),
    "whether a statement has a stray step": (steps.STRAY_AT, {"afl_step_stray"}),
    "update of a step": (steps.UPDATE.one, {STEP}),
    "update of steps": (steps.UPDATE.many, {STEP}),
    "replacement of a step": (steps.REPLACE, {STEP}),
    "task by id": (task(tasks.BY_ID), {TASK}),
    "tasks by ids": (tasks.MANY_LOCKED, {TASK}),
    "open tasks of a run": (tasks.OPEN_OF_RUN, OF_RUN),
    "tasks of a run": (tasks.ALL_OF_RUN, OF_RUN),
    "pending tasks": (task(tasks.PENDING), {"afl_task_queue"}),
    "newest tasks": (task(tasks.NEWEST), {"afl_task_seq"}),
    "newest pending tasks": (task(tasks.newest_in("pending")), {"afl_task_queue"}),
    "newest running tasks": (task(tasks.newest_in("running")), {"afl_task_lease"}),
    "newest completed tasks": (task(tasks.newest_in("completed")), {"afl_task_seq"}),
    "tasks that stopped": (task(tasks.newest_in("failed")), {"afl_task_stopped"}),
    "runs of a runner": (tasks.RUNS_OF_RUNNER, {"afl_run_uuid"}),
    "update of a task": (tasks.UPDATE.one, {TASK}),
    "update of tasks": (tasks.UPDATE.many, {TASK}),
    "move of a task": (tasks.MOVE, {TASK}),
    "renewal of leases": (tasks.EXTEND, {TASK}),
    "claim by exact name": (queue.CLAIM_EXACT, {*WAITING, TASK}),
    "claim by short name": (queue.CLAIM, {*WAITING, TASK}),
    "wait for an exact name": (queue.LEFT_EXACT, WAITING),
    "wait for a short name": (queue.LEFT, WAITING),
    "lock of runs": (holding.LOCK_RUNS, {"afl_run_id"}),
    "run without parameters": (runs.HEAD, {"afl_run_id"}),
    "runs without parameters": (runs.HEADS, {"afl_run_id"}),
    "run by record": (run(runs.BY_UUID), {"afl_run_uuid"}),
    "run by id": (run(runs.BY_ID), {"afl_run_id"}),
    "run by key": (run(runs.BY_KEY), {"afl_run_key"}),
    "runs by state": (run(runs.BY_STATE), {"afl_run_state"}),
    "update of a run": (runs.UPDATE.one, {"afl_run_uuid"}),
    "update of runs": (runs.UPDATE.many, {"afl_run_uuid"}),
    "lock of flows": (flows.LOCK, {"afl_flow_uuid_key"}),
    "runs to prune": (pruning.OLD, {"afl_run_ended"}),
    "runs to prune by their own word": (pruning.EXPIRED, {"afl_run_retained"}),
    "steps to prune": (pruning.STATEMENTS.steps, {STEP, "afl_step_run"}),
    "tasks to prune": (pruning.STATEMENTS.tasks, {TASK, "afl_step_run"}),
    "stray tasks to prune": (pruning.STATEMENTS.stray_tasks, {"afl_task_stray", "afl_task_seq"}),
    "events to prune": (pruning.STATEMENTS.events, {"afl_event_run", "afl_event_pkey"}),
    "logs to prune": (pruning.STATEMENTS.logs, {"afl_log_runner", "afl_log_pkey"}),
    "run to prune": (pruning.STATEMENTS.run, {"afl_run_uuid"}),
    "runs that are half removed": (pruning.NOTED, {"afl_removal_pkey"}),
    "run that is removed": (pruning.STATEMENTS.unnote, {"afl_removal_uuid_key"}),
    "flows to prune": (pruning.UNUSED_FLOW, {"afl_flow_uuid_key", "afl_run_flow"}),
    "page of runs": (lists.NEWEST_RUNS, {"afl_run_pkey"}),
    "page of runs in a state": (lists.RUNS_IN_STATE, {"afl_run_state"}),
    "page of runs that fit": (
        lists.FITTING_RUNS,
        {"afl_run_workflow", "afl_run_id", "afl_run_pkey"},
    ),
    "last run": (lists.LAST_RUN, {"afl_run_pkey"}),
    "counts of runs": (lists.COUNT_RUNS, {"afl_run_state"}),
    "workflows that have runs": (lists.RUN_WORKFLOWS, {"afl_run_workflow"}),
    "ids of runs": (lists.RUN_IDS, {"afl_run_id"}),
    "page of tasks": (lists.NEWEST_TASKS, {"afl_task_seq"}),
    "page of pending tasks": (lists.PENDING_TASKS, {"afl_task_queue", TASK}),
    "page of running tasks": (lists.RUNNING_TASKS, {"afl_task_lease"}),
    "page of tasks that stopped": (lists.STOPPED_TASKS, {"afl_task_stopped"}),
    "page of tasks of a run": (lists.TASKS_OF_RUN, OF_RUN),
    "how far a page of tasks looks": (lists.LOOK_AT_NEWEST, {"afl_task_seq"}),
    "how far a page of stopped tasks looks": (lists.LOOK_AT_STOPPED, {"afl_task_stopped"}),
    "queues": (lists.QUEUES, {"afl_task_queue"}),
    "ids of tasks": (lists.TASK_IDS, {TASK}),
    "tasks that changed": (lists.CHANGED_TASKS, {TASK}),
    "page of steps": (lists.STEPS_OF_RUN, {"afl_step_run"}),
    "steps that changed": (lists.CHANGED_STEPS, {STEP}),
    "page of a log": (lists.LOGS_OF_RUN, {"afl_log_runner"}),
}


def numbered(sql: str) -> str:
    """With $1, $2, … as PostgreSQL wants them; the same name has the same number."""
    names: dict[str, str] = {}
    numbers = count(1)

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return f"${next(numbers)}"
        if name not in names:
            names[name] = f"${next(numbers)}"
        return names[name]

    return re.sub(r"%\((\w+)\)s|%s", number, sql)


#: Most tasks are done, some wait, few run: what statistics say of a busy database.
FILL = """\
INSERT INTO afl_task OVERRIDING SYSTEM VALUE
SELECT (json_populate_record(NULL::afl_task, json_build_object(
    'seq', n, 'uuid', 't' || n, 'name', 'a.F' || n % 7, 'short_name', 'F' || n % 7,
    'runner_id', 'r' || n % 300, 'workflow_id', 'r' || n % 300, 'flow_id', 'f',
    'step_id', 's' || n, 'created', n, 'updated', n, 'task_list_name', 'default',
    'state', CASE WHEN n % 40 = 0 THEN 'running' WHEN n % 5 = 0 THEN 'pending' ELSE 'completed' END,
    'data_type', '', 'owner', '', 'lease_expires', n, 'fence', 1, 'deliveries', 1,
    'failures', 0, 'not_before', 0, 'idempotency_key', '', 'lease_ms', 1000, 'held', false,
    'timeout_ms', 0, 'max_attempts', 0, 'backoff_ms', 0, 'version', 1, 'is_stray', n % 2
))).* FROM generate_series(1, 3000) AS n;
ANALYZE afl_task"""


@pytest.fixture(scope="module", params=["empty", "filled"])
def place(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[str]:
    databases = Databases(postgres_url)
    made = databases.new()
    if request.param == "filled":
        with psycopg.connect(made) as connection:
            connection.execute(FILL)
    yield made
    databases.close()


@pytest.mark.parametrize(("sql", "indexes"), STATEMENTS.values(), ids=STATEMENTS)
def test_the_index_is_used(place: str, sql: str, indexes: set[str]) -> None:
    with psycopg.connect(place) as connection:
        connection.execute(SETTINGS)
        rows = connection.execute(f"EXPLAIN (GENERIC_PLAN) {numbered(sql)}").fetchall()
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan
    assert set(re.findall(r"(?:using|on) (afl_\w+_(?:\w+))", plan)) <= indexes, plan
    assert set(re.findall(r"\bafl_\w+\b", plan)) >= indexes, plan


def test_the_search_for_plans_finds_a_table_that_is_read(place: str) -> None:
    with pytest.raises(AssertionError):
        test_the_index_is_used(place, steps.BY_STATE, set())
