# ruff: noqa: S608 - statements are made of constants
"""Tasks: their rows, the questions that are asked about them, and single changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from afl.db.sqlite import Reader, Transaction
from afl.errors import Conflict
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
from afl.runtime.sql_store.codec import to_json
from afl.runtime.sql_store.rows import Table, assignments
from afl.runtime.types import WorkflowId


def _is_stray(task: TaskDefinition) -> int:
    return int(task.step_id != "" and task.uuid != task_id_of(task.step_id))


TASKS = Table("task", TaskDefinition, extra={"short_name": "short_name", "is_stray": _is_stray})

#: What a task is. It never changes, so that an update leaves the indexes on it alone.
_FIXED = frozenset(
    {
        "uuid",
        "name",
        "runner_id",
        "workflow_id",
        "flow_id",
        "step_id",
        "created",
        "task_list_name",
        "idempotency_key",
        "short_name",
        "is_stray",
    }
)
_CHANGING = tuple(each for each in TASKS.columns if each not in _FIXED and each != "version")
_changing = TASKS.some(_CHANGING)
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
_moving = attrgetter(*_MOVING, "uuid")
MOVE = f"UPDATE task SET {assignments(_MOVING)} WHERE uuid = ?"

BY_ID = "WHERE uuid = ?"
BY_IDS = "WHERE uuid IN (SELECT value FROM json_each(?))"
OPEN_OF_RUN = "WHERE workflow_id = ? AND state IN ('pending', 'running') ORDER BY seq"
PENDING = "INDEXED BY task_queue WHERE state = 'pending' AND task_list_name = ? ORDER BY seq"
NEWEST = "ORDER BY seq DESC LIMIT ?"
# Tasks of a run have its id; the record of the run says which one that is.
BY_RUNNER = """WHERE workflow_id IN (SELECT workflow_id FROM run WHERE uuid = :id UNION SELECT :id)
AND runner_id = :id ORDER BY seq"""
BY_UNKNOWN_RUNNER = "WHERE runner_id = ? ORDER BY seq"
OF_RUN = "WHERE workflow_id = ? ORDER BY seq"
STRAYS_OF_STEP = """\
SELECT 1 FROM task WHERE step_id = ? AND is_stray = 1 AND state = 'pending' LIMIT 1"""
# The words of the indexes, or SQLite would not take them. Tasks that are completed are most of
# all, so their newest are soon found without one.
BY_STATE: dict[str, str] = {
    TaskState.PENDING: "INDEXED BY task_queue WHERE state = 'pending'",
    TaskState.RUNNING: "INDEXED BY task_lease_end WHERE state = 'running'",
    TaskState.COMPLETED: "NOT INDEXED WHERE state = 'completed'",
}
BY_STOPPED_STATE = """INDEXED BY task_stopped
WHERE state IN ('failed', 'ignored', 'canceled', 'dead_letter')"""


def work_topic(task_list: str) -> str:
    """Rung when a task of the list may be claimed, now or at a time to come."""
    return f"work:{task_list}"


# Questions


def get(reader: Reader, task_id: str) -> TaskDefinition | None:
    return TASKS.one(reader, BY_ID, task_id)


def get_many(reader: Reader, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
    return {each.uuid: each for each in TASKS.all(reader, BY_IDS, to_json(task_ids))}


def open_of_run(reader: Reader, workflow_id: WorkflowId) -> list[TaskDefinition]:
    return TASKS.all(reader, OPEN_OF_RUN, workflow_id)


def pending(reader: Reader, task_list: str) -> list[TaskDefinition]:
    return TASKS.all(reader, PENDING, task_list)


def newest(reader: Reader, limit: int) -> list[TaskDefinition]:
    return TASKS.all(reader, NEWEST, max(limit, 0))


def by_runner(reader: Reader, runner_id: str) -> list[TaskDefinition]:
    rows = reader.query_all(f"{TASKS.select} {BY_RUNNER}", {"id": runner_id})
    found = [TASKS.record(row) for row in rows]
    return found or TASKS.all(reader, BY_UNKNOWN_RUNNER, runner_id)


def of_run(reader: Reader, workflow_id: WorkflowId) -> list[TaskDefinition]:
    return TASKS.all(reader, OF_RUN, workflow_id)


def by_state(reader: Reader, state: str, limit: int) -> list[TaskDefinition]:
    return TASKS.all(reader, newest_in(state), state, max(limit, 0))


def newest_in(state: str) -> str:
    condition = BY_STATE.get(state, BY_STOPPED_STATE)
    return f"{condition} AND state = ? ORDER BY seq DESC LIMIT ?"


# Changes


def create(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    tx.executemany(TASKS.insert, map(TASKS.row, tasks))
    _announce(tx, tasks)


def update(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    rows = [
        (*_changing(each), each.version + 1, each.uuid, each.version, each.state) for each in tasks
    ]
    if tx.executemany(UPDATE, rows) != len(rows):
        ids = ", ".join(each.uuid for each in tasks)
        raise Conflict(
            f"written since it was read, over, or gone: task {ids}; read again and decide anew"
        )
    _announce(tx, tasks)


def save(tx: Transaction, task: TaskDefinition) -> None:
    stored = get(tx, task.uuid)
    if check_save(stored, task):
        version = task.version if stored is None else stored.version + 1
        TASKS.save(tx, replace(task, version=version))
        _announce(tx, [task])


def change_state(tx: Transaction, task_id: str, state: str, now: int) -> bool:
    task = get(tx, task_id)
    if task is None or not may_follow(task.state, state):
        return False
    # Whatever follows, whoever had claimed it has lost it.
    move(tx, [replace(ended(task, state, now, task.error), version=task.version + 1)])
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
    return True


def move(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    """Write what claims change, over what was read in the same transaction."""
    tx.executemany(MOVE, map(_moving, tasks))
    _announce(tx, tasks)


def _held(reader: Reader, claim: Claim) -> TaskDefinition | None:
    task = get(reader, claim.task_id)
    return task if holds(task, claim.fence) else None


def _announce(tx: Transaction, tasks: Iterable[TaskDefinition]) -> None:
    lists = {each.task_list_name for each in tasks if _makes_work(tx, each)}
    for each in lists:
        tx.announce(work_topic(each))


def _makes_work(reader: Reader, task: TaskDefinition) -> bool:
    if task.state == TaskState.PENDING:
        # Also what is not due yet: who waits must know when it will be.
        return not task.held
    return task.is_over and task.step_id != "" and _lets_go(reader, task)


def _lets_go(reader: Reader, task: TaskDefinition) -> bool:
    """Whether its end lets other tasks of its step be claimed, which there are rarely."""
    if reader.query_one(STRAYS_OF_STEP, (task.step_id,)) is not None:
        return True
    return _is_stray(task) == 1 and get(reader, task_id_of(task.step_id)) is not None
