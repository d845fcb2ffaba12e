# ruff: noqa: S608 - statements are made of constants
"""Tasks: their rows, the questions that are asked about them, and single changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from afl.db.sqlite import Reader, Transaction
from afl.errors import Conflict
from afl.runtime.asking.topics import work_topic
from afl.runtime.claims import (
    check_save,
    ended,
    extended,
    holds,
    may_follow,
    released,
)
from afl.runtime.entities import TASK_TRANSITIONS, TaskDefinition, TaskState
from afl.runtime.persistence import Claim, task_id_of
from afl.runtime.rows.codec import to_json
from afl.runtime.rows.table import Table, assignments
from afl.runtime.sql_store.runs import announce
from afl.runtime.sql_store.schema import STOPPED
from afl.runtime.types import WorkflowId


def _is_stray(task: TaskDefinition) -> int:
    """Whether it is not the one task that the engine makes for a step."""
    return int(task.uuid != task_id_of(task.step_id))


TASKS = Table("task", TaskDefinition, extra={"short_name": "short_name", "is_stray": _is_stray})

#: How a task stands; what it is never changes.
_CHANGING = (
    "state",
    "updated",
    "error",
    "owner",
    "lease_expires",
    "lease_ms",
    "fence",
    "deliveries",
    "failures",
    "not_before",
    "held",
)
_standing = attrgetter(*_CHANGING)
_STATE, _ERROR = map(_CHANGING.index, ("state", "error"))
#: Terminal states are final, whatever the writer believes. One text to search: SQLite would copy
#: a list of pairs into a table of its own at each use.
_ALLOWED = " ".join(
    f"{state}>{following},"
    for state, allowed in TASK_TRANSITIONS.items()
    for following in sorted({state, *allowed})
)
UPDATE = f"""UPDATE task SET {assignments(_CHANGING)}, version = ?
WHERE uuid = ? AND version = ? AND instr(' {_ALLOWED}', ' ' || state || '>' || ? || ',')"""

#: What claims move: no payload among it, which can be long.
_MOVING = (
    "state",
    "updated",
    "owner",
    "lease_expires",
    "lease_ms",
    "fence",
    "deliveries",
    "not_before",
    "version",
)
_moving = attrgetter(*_MOVING[1:], "uuid")
MOVE = f"UPDATE task SET {assignments(_MOVING)} WHERE uuid = ?"

BY_ID = "WHERE uuid = ?"
BY_IDS = "WHERE uuid IN (SELECT value FROM json_each(?))"
# Tasks of steps are found by the steps of the run.
OF_RUN = """WHERE seq IN (
    SELECT task.seq FROM step INDEXED BY step_run CROSS JOIN task ON task.uuid = step.id
    WHERE step.workflow_id = :id
    UNION ALL
    SELECT seq FROM task INDEXED BY task_stray WHERE workflow_id = :id AND is_stray = 1
)"""
ALL_OF_RUN = f"{OF_RUN} ORDER BY seq"
OPEN_OF_RUN = f"{OF_RUN} AND state IN ('pending', 'running') ORDER BY seq"
PENDING = "INDEXED BY task_queue WHERE state = 'pending' AND task_list_name = ? ORDER BY seq"
NEWEST = "ORDER BY seq DESC LIMIT ?"
RUNS_OF_RUNNER = "SELECT workflow_id FROM run WHERE uuid = ? UNION SELECT ?"
BY_UNKNOWN_RUNNER = "WHERE runner_id = ? ORDER BY seq"
RUNNING_OF_STEP = """\
SELECT 1 FROM task INDEXED BY task_running WHERE state = 'running' AND step_id = ? AND uuid <> ?"""
# The words of the indexes, or SQLite would not take them. Tasks that are completed are most of
# all, so their newest are soon found without one.
BY_STATE: dict[str, str] = {
    TaskState.PENDING: "INDEXED BY task_queue WHERE state = 'pending'",
    TaskState.RUNNING: "INDEXED BY task_running WHERE state = 'running'",
    TaskState.COMPLETED: "NOT INDEXED WHERE state = 'completed'",
}
BY_STOPPED_STATE = f"INDEXED BY task_stopped WHERE {STOPPED}"


# Questions


def get(reader: Reader, task_id: str) -> TaskDefinition | None:
    return TASKS.one(reader, BY_ID, task_id)


def get_many(reader: Reader, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
    return {each.uuid: each for each in TASKS.all(reader, BY_IDS, to_json(task_ids))}


def open_of_run(reader: Reader, workflow_id: WorkflowId) -> list[TaskDefinition]:
    return _named(reader, OPEN_OF_RUN, workflow_id)


def of_run(reader: Reader, workflow_id: str) -> list[TaskDefinition]:
    return _named(reader, ALL_OF_RUN, workflow_id)


def _named(reader: Reader, condition: str, key: str) -> list[TaskDefinition]:
    rows = reader.query_all(f"{TASKS.select} {condition}", {"id": key})
    return [TASKS.record(row) for row in rows]


def pending(reader: Reader, task_list: str) -> list[TaskDefinition]:
    return TASKS.all(reader, PENDING, task_list)


def newest(reader: Reader, limit: int) -> list[TaskDefinition]:
    return TASKS.all(reader, NEWEST, max(limit, 0))


def by_runner(reader: Reader, runner_id: str) -> list[TaskDefinition]:
    runs = reader.query_all(RUNS_OF_RUNNER, (runner_id, runner_id))
    found = [task for (run,) in runs for task in of_run(reader, run)]
    mine = [each for each in found if each.runner_id == runner_id]
    return mine or TASKS.all(reader, BY_UNKNOWN_RUNNER, runner_id)


def by_state(reader: Reader, state: str, limit: int) -> list[TaskDefinition]:
    return TASKS.all(reader, newest_in(state), state, max(limit, 0))


def newest_in(state: str) -> str:
    condition = BY_STATE.get(state, BY_STOPPED_STATE)
    return f"{condition} AND state = ? ORDER BY seq DESC LIMIT ?"


# Changes


def create(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    for each in filter(_is_stray, tasks):  # another of the same id is refused anyway
        _require_alone(tx, each)
    tx.executemany(TASKS.insert, map(TASKS.row, tasks))
    _announce(tx, tasks)


def update(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    for each in tasks:
        _require_alone(tx, each)
    rows = [
        (*_stands(each), each.version + 1, each.uuid, each.version, str(each.state))
        for each in tasks
    ]
    if tx.executemany(UPDATE, rows) != len(rows):
        ids = ", ".join(each.uuid for each in tasks)
        raise Conflict(
            f"written since it was read, over, or gone: task {ids}; read again and decide anew"
        )
    _announce(tx, tasks)


def _stands(task: TaskDefinition) -> list[Any]:
    values = list(_standing(task))
    values[_STATE] = str(task.state)  # of an enum, SQLite's driver asks long how to store it
    if task.error is not None:
        values[_ERROR] = to_json(task.error)
    return values


def _require_alone(reader: Reader, task: TaskDefinition) -> None:
    """A step has at most one running task; work of the runtime itself has no step."""
    if task.state != TaskState.RUNNING or task.step_id == "":
        return
    if reader.query_one(RUNNING_OF_STEP, (task.step_id, task.uuid)) is not None:
        raise Conflict(f"step {task.step_id} has a running task already; wait for its end")


def save(tx: Transaction, task: TaskDefinition) -> None:
    stored = get(tx, task.uuid)
    if check_save(stored, task):
        _require_alone(tx, task)
        version = task.version if stored is None else stored.version + 1
        TASKS.save(tx, replace(task, version=version))
        _announce(tx, [task])
        announce(tx, (task.workflow_id, task.runner_id))


def change_state(tx: Transaction, task_id: str, state: str, now: int) -> bool:
    task = get(tx, task_id)
    if task is None or not may_follow(task.state, state):
        return False
    # Whatever follows, whoever had claimed it has lost it.
    move(tx, [replace(ended(task, state, now, task.error), version=task.version + 1)])
    announce(tx, (task.workflow_id, task.runner_id))
    return True


def extend(tx: Transaction, claims: Sequence[Claim], now: int, lease_ms: int) -> list[bool]:
    held = [_held(tx, each) for each in claims]
    move(tx, [extended(each, now, lease_ms) for each in held if each is not None])
    return [each is not None for each in held]


def release(tx: Transaction, claim: Claim, now: int, not_before: int) -> bool:
    task = _held(tx, claim)
    if task is None:
        return False
    move(tx, [released(task, now, not_before)])
    announce(tx, (task.workflow_id, task.runner_id))
    return True


def move(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    """Write what claims change, over what was read in the same transaction."""
    tx.executemany(MOVE, [(str(each.state), *_moving(each)) for each in tasks])
    _announce(tx, tasks)


def _held(reader: Reader, claim: Claim) -> TaskDefinition | None:
    task = get(reader, claim.task_id)
    return task if holds(task, claim.fence) else None


def _announce(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    # Also what is not due yet: who waits must know when it will be.
    lists = {
        each.task_list_name for each in tasks if each.state == TaskState.PENDING and not each.held
    }
    # The end of a second task lets the first one of the step be claimed. The other way round,
    # who waits finds it when looking again: asking for it at each end would cost all others.
    lists |= {each.task_list_name for each in tasks if each.is_over and _is_stray(each)}
    for each in lists:
        tx.announce(work_topic(each))
