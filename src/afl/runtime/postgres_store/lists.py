# ruff: noqa: S608 - statements are made of constants
"""Lists in pages, counts that end early, and ids by their beginnings: what people look at.

Each is one statement. Where no index fits, a page looks at a number of records, and says where it
stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.db.beginnings import bounds
from afl.db.postgres import Reader
from afl.runtime.entities import (
    LogDefinition,
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.listing import (
    LOOKED_AT,
    Count,
    Page,
    Queue,
    RunQuery,
    TaskQuery,
    cursor_at,
    page_of,
    position_of,
    windows,
)
from afl.runtime.postgres_store.catalog import LOGS
from afl.runtime.postgres_store.runs import RUNS
from afl.runtime.postgres_store.tasks import OF_RUN, TASKS
from afl.runtime.rows.steps import COLUMNS, step_of
from afl.runtime.rows.table import Row, column_list
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

_NEWEST = 2**63 - 1


# Runs

_HEADS = RUNS.select.replace("SELECT ", "SELECT seq, ", 1).replace('"parameters"', "'[]'")
_PAGE = "ORDER BY seq DESC LIMIT %(limit)s"
NEWEST_RUNS = f"{_HEADS} WHERE seq < %(before)s {_PAGE}"
RUNS_IN_STATE = f"{_HEADS} WHERE state = %(state)s AND seq < %(before)s {_PAGE}"
#: The newest of each workflow and state; and of those the newest.
FITTING_RUNS = f"""{_HEADS} WHERE seq = ANY (ARRAY (
    SELECT found.seq FROM unnest(%(workflows)s::text[]) AS wanted
    CROSS JOIN unnest(%(states)s::text[]) AS allowed, LATERAL (
        SELECT seq FROM afl_run
        WHERE workflow_name = wanted AND state = allowed
        AND seq < %(before)s AND seq >= %(lowest)s {_PAGE}
    ) AS found
    UNION ALL
    SELECT seq FROM afl_run WHERE workflow_id = ANY (%(ids)s::text[])
    AND seq < %(before)s AND seq >= %(lowest)s AND state = ANY (%(states)s::text[])
)) {_PAGE}"""
LAST_RUN = "SELECT max(seq) FROM afl_run"
COUNT_RUNS = """\
SELECT counted, (
    SELECT count(*) FROM (SELECT FROM afl_run WHERE state = counted LIMIT %(limit)s) AS found
) FROM unnest(%(states)s::text[]) AS counted"""
#: Few names, however many runs have them: each costs one look into the index.
RUN_WORKFLOWS = """\
WITH RECURSIVE found (name) AS (
    SELECT (SELECT workflow_name FROM afl_run ORDER BY workflow_name LIMIT 1)
    UNION ALL
    SELECT (
        SELECT workflow_name FROM afl_run
        WHERE workflow_name > found.name ORDER BY workflow_name LIMIT 1
    ) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL"""
RUN_IDS = """\
SELECT DISTINCT workflow_id FROM afl_run
WHERE workflow_id >= %s AND workflow_id < %s ORDER BY workflow_id LIMIT %s"""

_RUN_STATES = [each.value for each in RunnerState]


def runs(reader: Reader, query: RunQuery, limit: int, cursor: str | None) -> Page[RunnerDefinition]:
    limit, before = max(limit, 0), position_of(cursor, _NEWEST)
    given: dict[str, Any] = {"before": before, "limit": limit + 1}
    if query.workflows is not None or query.ids is not None:
        given["workflows"] = list(query.workflows or ())
        given["ids"] = list(query.ids or ())
        given["states"] = _RUN_STATES if query.state is None else [query.state]
        rows = _fitting_runs(reader, given)
    elif query.state is not None:
        rows = reader.query_all(RUNS_IN_STATE, {**given, "state": query.state})
    else:
        rows = reader.query_all(NEWEST_RUNS, given)
    return page_of([(seq, RUNS.record(tuple(row))) for seq, *row in rows], limit, before)


def _fitting_runs(reader: Reader, given: dict[str, Any]) -> list[Row]:
    (last,) = reader.query_one(LAST_RUN) or (0,)
    rows: list[Row] = []
    for lowest in windows(min(given["before"], (last or 0) + 1)):
        rows = reader.query_all(FITTING_RUNS, {**given, "lowest": lowest})
        if len(rows) == given["limit"]:
            break
    return rows


def count_runs(reader: Reader, limit: int) -> dict[str, Count]:
    rows = reader.query_all(COUNT_RUNS, {"states": _RUN_STATES, "limit": limit + 1})
    return {state: Count.up_to(limit, found) for state, found in rows if found}


def run_workflows(reader: Reader) -> list[str]:
    return [name for (name,) in reader.query_all(RUN_WORKFLOWS)]


def run_ids(reader: Reader, prefix: str, limit: int) -> list[str]:
    rows = reader.query_all(RUN_IDS, (*bounds(prefix), max(limit, 0)))
    return [found for (found,) in rows]


# Tasks

_TASK = TASKS.select.replace("SELECT ", "SELECT seq, ", 1)
_STOPPED = """WHERE state IN ('failed', 'ignored', 'canceled', 'dead_letter')
AND state = %(state)s"""
_FITS = """(%(name)s::text IS NULL OR name = %(name)s OR short_name = %(name)s)
AND (%(task_list)s::text IS NULL OR task_list_name = %(task_list)s)
AND (%(state)s::text IS NULL OR state = %(state)s)"""
#: In no index, so that the few that wait or run are not looked for among all tasks.
_SORTED_PAGE = "ORDER BY seq + 0 DESC LIMIT %(limit)s"
_QUEUES = """\
WITH RECURSIVE queue (task_list_name, short_name, name) AS (
    (
        SELECT task_list_name, short_name, name FROM afl_task WHERE state = 'pending'
        ORDER BY task_list_name, short_name, name LIMIT 1
    )
    UNION ALL
    SELECT found.* FROM queue, LATERAL (
        SELECT task.task_list_name, task.short_name, task.name FROM afl_task AS task
        WHERE task.state = 'pending' AND (task.task_list_name, task.short_name, task.name)
            > (queue.task_list_name, queue.short_name, queue.name)
        ORDER BY task.task_list_name, task.short_name, task.name LIMIT 1
    ) AS found
)"""
_IN_QUEUE = """state = 'pending' AND task.task_list_name = queue.task_list_name
AND task.short_name = queue.short_name AND task.name = queue.name"""


def _of_queue(due: str) -> str:
    """The newest of each queue. What is due at once is in the order of the index; what waits for
    a retry is not, and is little."""
    return f"""\
SELECT found.uuid FROM queue CROSS JOIN (VALUES (false), (true)) AS wanted (held), LATERAL (
    SELECT uuid FROM afl_task AS task WHERE {_IN_QUEUE}
    AND task.held = wanted.held AND {due} AND seq < %(before)s {_PAGE}
) AS found WHERE (%(name)s::text IS NULL OR queue.name = %(name)s OR queue.short_name = %(name)s)
AND (%(task_list)s::text IS NULL OR queue.task_list_name = %(task_list)s)"""


PENDING_TASKS = f"""{_QUEUES}
{_TASK} WHERE uuid = ANY (ARRAY (
{_of_queue("not_before = 0")}
UNION ALL
{_of_queue("not_before > 0")}
)) {_SORTED_PAGE}"""
RUNNING_TASKS = f"""{_TASK} WHERE state = 'running' AND {_FITS}
AND seq < %(before)s {_SORTED_PAGE}"""
TASKS_OF_RUN = f"{_TASK} {OF_RUN} AND {_FITS} AND seq < %(before)s {_SORTED_PAGE}"
_WINDOW = "seq < %(before)s AND seq >= %(lowest)s"
STOPPED_TASKS = f"{_TASK} {_STOPPED} AND {_FITS} AND {_WINDOW} {_PAGE}"
NEWEST_TASKS = f"{_TASK} WHERE {_FITS} AND {_WINDOW} {_PAGE}"
#: How far a page looks.
LOOK_AT_STOPPED = f"""SELECT count(*), min(seq) FROM (
    SELECT seq FROM afl_task {_STOPPED} AND seq < %(before)s ORDER BY seq DESC LIMIT {LOOKED_AT}
) AS looked"""
LOOK_AT_NEWEST = f"""SELECT count(*), min(seq) FROM (
    SELECT seq FROM afl_task WHERE seq < %(before)s ORDER BY seq DESC LIMIT {LOOKED_AT}
) AS looked"""
_STOPPED_STATES = (
    TaskState.FAILED,
    TaskState.IGNORED,
    TaskState.CANCELED,
    TaskState.DEAD_LETTER,
)
_COUNTED = {
    TaskState.PENDING: "WHERE state = 'pending'",
    TaskState.RUNNING: "WHERE state = 'running'",
    **{
        each: f"""WHERE state IN ('failed', 'ignored', 'canceled', 'dead_letter')
AND state = '{each}'"""
        for each in _STOPPED_STATES
    },
}
COUNT_TASKS = "\nUNION ALL\n".join(
    f"""SELECT '{state}', count(*) FROM (
    SELECT FROM afl_task {condition} LIMIT %(limit)s
) AS found"""
    for state, condition in _COUNTED.items()
)


def _counted(condition: str) -> str:
    return f"""(SELECT count(*) FROM (
    SELECT FROM afl_task AS task WHERE {_IN_QUEUE} AND {condition} LIMIT %(limit)s
) AS found)"""


QUEUES = f"""{_QUEUES}
SELECT task_list_name, name, {_counted("held = false")}, {_counted("held = true")}, (
    SELECT created FROM afl_task AS task
    WHERE {_IN_QUEUE} AND held = false ORDER BY not_before, seq LIMIT 1
) FROM queue"""
TASK_IDS = "SELECT uuid FROM afl_task WHERE uuid >= %s AND uuid < %s ORDER BY uuid LIMIT %s"
CHANGED_TASKS = f"""{TASKS.select} WHERE uuid = ANY (%(ids)s::text[])
AND (uuid, version) NOT IN (SELECT * FROM unnest(%(ids)s::text[], %(versions)s::bigint[]))
ORDER BY seq + 0"""


def tasks(reader: Reader, query: TaskQuery, limit: int, cursor: str | None) -> Page[TaskDefinition]:
    limit, before = max(limit, 0), position_of(cursor, _NEWEST)
    given = {
        "before": before,
        "limit": limit + 1,
        "id": query.workflow_id,
        "name": query.name,
        "task_list": query.task_list,
        "state": query.state,
    }
    if query.workflow_id is not None:
        return _task_page(reader.query_all(TASKS_OF_RUN, given), limit, before)
    if query.state == TaskState.PENDING:
        return _task_page(reader.query_all(PENDING_TASKS, given), limit, before)
    if query.state == TaskState.RUNNING:
        return _task_page(reader.query_all(RUNNING_TASKS, given), limit, before)
    return _looked_through(reader, query, given)


def _looked_through(
    reader: Reader, query: TaskQuery, given: dict[str, Any]
) -> Page[TaskDefinition]:
    """Of as many tasks as one page looks at, those that fit."""
    is_stopped = query.state in _STOPPED_STATES
    is_narrowed = query.state is not None and not is_stopped
    looked = lowest = 0
    if is_narrowed or query.name is not None or query.task_list is not None:
        row = reader.query_one(LOOK_AT_STOPPED if is_stopped else LOOK_AT_NEWEST, given)
        looked, lowest = row or (0, 0)
    given["lowest"] = lowest or 0
    rows = reader.query_all(STOPPED_TASKS if is_stopped else NEWEST_TASKS, given)
    page = _task_page(rows, given["limit"] - 1, given["before"])
    if page.has_more or looked < LOOKED_AT:
        return page
    return Page(page.items, cursor_at(lowest), has_more=True)


def _task_page(rows: list[Row], limit: int, before: int) -> Page[TaskDefinition]:
    return page_of([(seq, TASKS.record(tuple(row))) for seq, *row in rows], limit, before)


def count_tasks(reader: Reader, limit: int) -> dict[str, Count]:
    rows = reader.query_all(COUNT_TASKS, {"limit": limit + 1})
    return {state: Count.up_to(limit, found) for state, found in rows if found}


def queues(reader: Reader, limit: int) -> list[Queue]:
    rows = reader.query_all(QUEUES, {"limit": limit + 1})
    return sorted(
        Queue(task_list, name, Count.up_to(limit, waiting), Count.up_to(limit, held), oldest or 0)
        for task_list, name, waiting, held, oldest in rows
    )


def task_ids(reader: Reader, prefix: str, limit: int) -> list[str]:
    rows = reader.query_all(TASK_IDS, (*bounds(prefix), max(limit, 0)))
    return [found for (found,) in rows]


def changed_tasks(reader: Reader, known: Mapping[str, int]) -> list[TaskDefinition]:
    given = {"ids": list(known), "versions": list(known.values())}
    return [TASKS.record(row) for row in reader.query_all(CHANGED_TASKS, given)]


# Steps

_STEP = f"SELECT {column_list(COLUMNS[:-1])} FROM afl_step"
STEPS_OF_RUN = f"""{_STEP.replace("SELECT ", "SELECT seq, ", 1)}
WHERE workflow_id = %(id)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s"""
CHANGED_STEPS = f"""{_STEP} WHERE id = ANY (%(ids)s::text[])
AND (id, sequence) NOT IN (SELECT * FROM unnest(%(ids)s::text[], %(sequences)s::bigint[]))
ORDER BY seq"""


def steps(
    reader: Reader, workflow_id: WorkflowId, limit: int, cursor: str | None
) -> Page[StepDefinition]:
    after, limit = position_of(cursor, 0), max(limit, 0)
    given = {"id": workflow_id, "after": after, "limit": limit + 1}
    rows = reader.query_all(STEPS_OF_RUN, given)
    return page_of([(seq, step_of(tuple(row))) for seq, *row in rows], limit, after)


def changed_steps(reader: Reader, known: Mapping[StepId, int]) -> list[StepDefinition]:
    given = {"ids": list(known), "sequences": list(known.values())}
    return [step_of(row) for row in reader.query_all(CHANGED_STEPS, given)]


# Logs

LOGS_OF_RUN = f"""{LOGS.select.replace("SELECT ", "SELECT seq, ", 1)}
WHERE runner_id = %(id)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s"""


def logs(reader: Reader, runner_id: str, limit: int, cursor: str | None) -> Page[LogDefinition]:
    after, limit = position_of(cursor, 0), max(limit, 0)
    given = {"id": runner_id, "after": after, "limit": limit + 1}
    rows = reader.query_all(LOGS_OF_RUN, given)
    return page_of([(seq, LOGS.record(tuple(row))) for seq, *row in rows], limit, after)
