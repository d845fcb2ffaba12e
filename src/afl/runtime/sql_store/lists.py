# ruff: noqa: S608 - statements are made of constants
"""Lists in pages, counts that end early, and ids by their beginnings: what people look at.

Each question takes its index by name. Where none fits, a page looks at a number of records, and
says where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from afl.db.beginnings import bounds
from afl.db.sqlite import Reader, Row
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
from afl.runtime.rows.codec import to_json
from afl.runtime.rows.steps import COLUMNS, step_of
from afl.runtime.rows.table import column_list
from afl.runtime.sql_store.catalog import LOGS
from afl.runtime.sql_store.runs import RUNS
from afl.runtime.sql_store.schema import STOPPED
from afl.runtime.sql_store.tasks import OF_RUN, TASKS
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

_NEWEST = 2**63 - 1


# Runs

_HEADS = RUNS.select.replace("SELECT ", "SELECT seq, ", 1).replace('"parameters"', "'[]'")
_PAGE = "ORDER BY seq DESC LIMIT :limit"
NEWEST_RUNS = f"{_HEADS} WHERE seq < :before {_PAGE}"
RUNS_IN_STATE = f"""{_HEADS} INDEXED BY run_state
WHERE state = :state AND seq < :before {_PAGE}"""
#: The newest of each workflow and state; and of those the newest.
FITTING_RUNS = f"""{_HEADS} WHERE seq IN (
    SELECT found.seq FROM json_each(:workflows) AS wanted
    CROSS JOIN json_each(:states) AS allowed CROSS JOIN run AS found
    WHERE found.seq IN (
        SELECT seq FROM run INDEXED BY run_workflow
        WHERE workflow_name = wanted.value AND state = allowed.value
        AND seq < :before AND seq >= :lowest {_PAGE}
    )
    UNION ALL
    SELECT seq FROM run INDEXED BY run_id
    WHERE workflow_id IN (SELECT value FROM json_each(:ids))
    AND seq < :before AND seq >= :lowest AND state IN (SELECT value FROM json_each(:states))
) {_PAGE}"""
LAST_RUN = "SELECT max(seq) FROM run"
COUNT_RUNS = """\
SELECT counted.value, (
    SELECT count(*) FROM (
        SELECT 1 FROM run INDEXED BY run_state WHERE state = counted.value LIMIT :limit
    )
) FROM json_each(:states) AS counted"""
#: Few names, however many runs have them: each costs one look into the index.
RUN_WORKFLOWS = """\
WITH RECURSIVE found (name) AS (
    SELECT (SELECT workflow_name FROM run INDEXED BY run_workflow ORDER BY workflow_name LIMIT 1)
    UNION ALL
    SELECT (
        SELECT workflow_name FROM run INDEXED BY run_workflow
        WHERE workflow_name > found.name ORDER BY workflow_name LIMIT 1
    ) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL"""
RUN_IDS = """\
SELECT DISTINCT workflow_id FROM run INDEXED BY run_id
WHERE workflow_id >= ? AND workflow_id < ? ORDER BY workflow_id LIMIT ?"""

_RUN_STATES = [each.value for each in RunnerState]


def runs(reader: Reader, query: RunQuery, limit: int, cursor: str | None) -> Page[RunnerDefinition]:
    limit, before = max(limit, 0), position_of(cursor, _NEWEST)
    given: dict[str, Any] = {"before": before, "limit": limit + 1}
    if query.workflows is not None or query.ids is not None:
        given["workflows"] = to_json(query.workflows or ())
        given["ids"] = to_json(query.ids or ())
        given["states"] = to_json(_RUN_STATES if query.state is None else [query.state])
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
    rows = reader.query_all(COUNT_RUNS, {"states": to_json(_RUN_STATES), "limit": limit + 1})
    return {state: Count.up_to(limit, found) for state, found in rows if found}


def run_workflows(reader: Reader) -> list[str]:
    return [name for (name,) in reader.query_all(RUN_WORKFLOWS)]


def run_ids(reader: Reader, prefix: str, limit: int) -> list[str]:
    rows = reader.query_all(RUN_IDS, (*bounds(prefix), max(limit, 0)))
    return [found for (found,) in rows]


# Tasks

_TASK = TASKS.select.replace("SELECT ", "SELECT seq, ", 1)
_WAITING = """INDEXED BY task_queue WHERE state = 'pending'
AND task_list_name = :task_list AND short_name = :short_name AND name = :name"""
_STOPPED = f"INDEXED BY task_stopped WHERE {STOPPED} AND state = :state"
_FITS = """(:name IS NULL OR name = :name OR short_name = :name)
AND (:task_list IS NULL OR task_list_name = :task_list) AND (:state IS NULL OR state = :state)"""


def _of_queue(due: str) -> str:
    """The newest of each queue. What is due at once is in the order of the index; what waits for
    a retry is not, and is little."""
    return f"""\
SELECT found.seq FROM json_each(:queues) AS wanted CROSS JOIN task AS found WHERE found.seq IN (
    SELECT seq FROM task INDEXED BY task_queue
    WHERE state = 'pending' AND task_list_name = wanted.value ->> 0
    AND short_name = wanted.value ->> 1 AND name = wanted.value ->> 2
    AND held = wanted.value ->> 3 AND {due} AND seq < :before {_PAGE}
)"""


PENDING_TASKS = f"""{_TASK} WHERE seq IN (
{_of_queue("not_before = 0")}
UNION ALL
{_of_queue("not_before > 0")}
) {_PAGE}"""
RUNNING_TASKS = f"""{_TASK} INDEXED BY task_running
WHERE state = 'running' AND {_FITS} AND seq < :before {_PAGE}"""
TASKS_OF_RUN = f"{_TASK} {OF_RUN} AND {_FITS} AND seq < :before {_PAGE}"
STOPPED_TASKS = f"""{_TASK} {_STOPPED}
AND {_FITS} AND seq < :before AND seq >= :lowest {_PAGE}"""
NEWEST_TASKS = f"{_TASK} WHERE {_FITS} AND seq < :before AND seq >= :lowest {_PAGE}"
#: How far a page looks.
LOOK_AT_STOPPED = f"""SELECT count(*), min(seq) FROM (
    SELECT seq FROM task {_STOPPED} AND seq < :before ORDER BY seq DESC LIMIT {LOOKED_AT}
)"""
LOOK_AT_NEWEST = f"""SELECT count(*), min(seq) FROM (
    SELECT seq FROM task WHERE seq < :before ORDER BY seq DESC LIMIT {LOOKED_AT}
)"""
_COUNTED = {
    TaskState.PENDING: "INDEXED BY task_queue WHERE state = 'pending'",
    TaskState.RUNNING: "INDEXED BY task_running WHERE state = 'running'",
    **dict.fromkeys(
        (TaskState.FAILED, TaskState.IGNORED, TaskState.CANCELED, TaskState.DEAD_LETTER), _STOPPED
    ),
}
COUNT_TASKS = {
    state: f"SELECT count(*) FROM (SELECT 1 FROM task {condition} LIMIT :limit)"
    for state, condition in _COUNTED.items()
}
NEXT_QUEUE = """\
SELECT task_list_name, short_name, name FROM task INDEXED BY task_queue
WHERE state = 'pending' AND (task_list_name, short_name, name) > (?, ?, ?)
ORDER BY task_list_name, short_name, name LIMIT 1"""
QUEUE = f"""\
SELECT
(SELECT count(*) FROM (SELECT 1 FROM task {_WAITING} AND held = 0 LIMIT :limit)),
(SELECT count(*) FROM (SELECT 1 FROM task {_WAITING} AND held = 1 LIMIT :limit)),
(SELECT created FROM task {_WAITING} AND held = 0 ORDER BY not_before, seq LIMIT 1)"""
TASK_IDS = """\
SELECT uuid FROM task INDEXED BY task_id WHERE uuid >= ? AND uuid < ? ORDER BY uuid LIMIT ?"""
CHANGED_TASKS = f"""{TASKS.select} WHERE seq IN (
    SELECT task.seq FROM json_each(?) AS known CROSS JOIN task ON task.uuid = known.key
    WHERE task.version <> known.value
) ORDER BY seq"""


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
        given["queues"] = to_json(list(_fitting_queues(reader, query)))
        return _task_page(reader.query_all(PENDING_TASKS, given), limit, before)
    if query.state == TaskState.RUNNING:
        return _task_page(reader.query_all(RUNNING_TASKS, given), limit, before)
    return _looked_through(reader, query, given)


def _looked_through(
    reader: Reader, query: TaskQuery, given: dict[str, Any]
) -> Page[TaskDefinition]:
    """Of as many tasks as one page looks at, those that fit."""
    is_stopped = query.state in COUNT_TASKS
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
    counts = {}
    for state, sql in COUNT_TASKS.items():
        (found,) = reader.query_one(sql, {"state": state, "limit": limit + 1}) or (0,)
        if found:
            counts[str(state)] = Count.up_to(limit, found)
    return counts


def _queue_names(reader: Reader) -> Iterator[tuple[str, str, str]]:
    """List, short name and name of all queues that have tasks: few, however many those are."""
    task_list = short = name = ""
    while row := reader.query_one(NEXT_QUEUE, (task_list, short, name)):
        task_list, short, name = row
        yield task_list, short, name


def _fitting_queues(reader: Reader, query: TaskQuery) -> Iterator[tuple[str, str, str, int]]:
    for task_list, short, name in _queue_names(reader):
        if query.task_list in (None, task_list) and query.names(name):
            yield from ((task_list, short, name, held) for held in (0, 1))


def queues(reader: Reader, limit: int) -> list[Queue]:
    found = []
    for task_list, short, name in _queue_names(reader):
        given = {"task_list": task_list, "short_name": short, "name": name, "limit": limit + 1}
        waiting, held, oldest = reader.query_one(QUEUE, given) or (0, 0, 0)
        found.append(
            Queue(
                task_list, name, Count.up_to(limit, waiting), Count.up_to(limit, held), oldest or 0
            )
        )
    return sorted(found)


def task_ids(reader: Reader, prefix: str, limit: int) -> list[str]:
    rows = reader.query_all(TASK_IDS, (*bounds(prefix), max(limit, 0)))
    return [found for (found,) in rows]


def changed_tasks(reader: Reader, known: Mapping[str, int]) -> list[TaskDefinition]:
    return [TASKS.record(row) for row in reader.query_all(CHANGED_TASKS, (to_json(known),))]


# Steps

_STEP = f"SELECT {column_list(COLUMNS[:-1])} FROM step"
STEPS_OF_RUN = f"""{_STEP.replace("SELECT ", "SELECT seq, ", 1)} INDEXED BY step_run
WHERE workflow_id = :id AND seq > :after ORDER BY seq LIMIT :limit"""
CHANGED_STEPS = f"""{_STEP} WHERE seq IN (
    SELECT step.seq FROM json_each(?) AS known CROSS JOIN step ON step.id = known.key
    WHERE step.sequence <> known.value
) ORDER BY seq"""


def steps(
    reader: Reader, workflow_id: WorkflowId, limit: int, cursor: str | None
) -> Page[StepDefinition]:
    after, limit = position_of(cursor, 0), max(limit, 0)
    given = {"id": workflow_id, "after": after, "limit": limit + 1}
    rows = reader.query_all(STEPS_OF_RUN, given)
    return page_of([(seq, step_of(tuple(row))) for seq, *row in rows], limit, after)


def changed_steps(reader: Reader, known: Mapping[StepId, int]) -> list[StepDefinition]:
    return [step_of(row) for row in reader.query_all(CHANGED_STEPS, (to_json(known),))]


# Logs

LOGS_OF_RUN = f"""{LOGS.select.replace("SELECT ", "SELECT seq, ", 1)} INDEXED BY log_runner
WHERE runner_id = :id AND seq > :after ORDER BY seq LIMIT :limit"""


def logs(reader: Reader, runner_id: str, limit: int, cursor: str | None) -> Page[LogDefinition]:
    after, limit = position_of(cursor, 0), max(limit, 0)
    given = {"id": runner_id, "after": after, "limit": limit + 1}
    rows = reader.query_all(LOGS_OF_RUN, given)
    return page_of([(seq, LOGS.record(tuple(row))) for seq, *row in rows], limit, after)
