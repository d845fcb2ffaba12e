# ruff: noqa: S608 - statements are made of constants
"""Tasks: the questions that are asked about them, and single changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from afl.db.postgres import Reader, Transaction, inserting, updating
from afl.db.postgres.transaction import SERVER_TIME
from afl.errors import Conflict
from afl.runtime.asking.topics import work_topic
from afl.runtime.claims import check_save, ended, holds, may_follow, released
from afl.runtime.entities import TASK_TRANSITIONS, TaskDefinition, TaskState
from afl.runtime.persistence import Claim, task_id_of
from afl.runtime.postgres_store import runs
from afl.runtime.postgres_store.holding import Holding
from afl.runtime.rows.codec import to_json
from afl.runtime.rows.table import PERCENT, Row, Table, assignments, column_list
from afl.runtime.types import WorkflowId


def _is_stray(task: TaskDefinition) -> int:
    """Whether it is not the one task that the engine makes for a step."""
    return int(task.uuid != task_id_of(task.step_id))


TASKS = Table(
    "afl_task",
    TaskDefinition,
    extra={"short_name": "short_name", "is_stray": _is_stray},
    mark=PERCENT,
)

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
_ERROR = _CHANGING.index("error")
#: Terminal states are final, whatever the writer believes.
_ALLOWED = " ".join(
    f"{state}>{following},"
    for state, allowed in TASK_TRANSITIONS.items()
    for following in sorted({state, *allowed})
)
_MAY_FOLLOW = f"strpos(' {_ALLOWED}', ' ' || old.state || '>' || {{state}} || ',') > 0"
UPDATE = updating("afl_task", _CHANGING, key="uuid", version="version", only=_MAY_FOLLOW)
INSERT = inserting("afl_task", TASKS.columns)

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
MOVE = f"UPDATE afl_task SET {assignments(_MOVING, PERCENT)} WHERE uuid = %s"

#: So that nobody else claims or moves it meanwhile.
_LOCKED = "FOR NO KEY UPDATE"
BY_ID = "WHERE uuid = %s"
ONE_LOCKED = f"{TASKS.select} {BY_ID} {_LOCKED}"
MANY_LOCKED = f"{TASKS.select} WHERE uuid = ANY (%s::text[]) ORDER BY uuid {_LOCKED}"
# Tasks of steps are found by the steps of the run.
OF_RUN = """WHERE uuid = ANY (ARRAY (
    SELECT id FROM afl_step WHERE workflow_id = %(id)s
    UNION ALL
    SELECT uuid FROM afl_task WHERE workflow_id = %(id)s AND is_stray = 1
))"""
ALL_OF_RUN = f"{TASKS.select} {OF_RUN} ORDER BY seq"
OPEN_OF_RUN = f"""SELECT {column_list(TASKS.fields)}, seq FROM afl_task {OF_RUN}
AND state IN ('pending', 'running') ORDER BY uuid {_LOCKED}"""
#: The expression is in no index: else all tasks might be looked through for the few that wait.
_SORTED = "ORDER BY seq + 0"
PENDING = f"WHERE state = 'pending' AND task_list_name = %s {_SORTED}"
NEWEST = "ORDER BY seq DESC LIMIT %s"
RUNS_OF_RUNNER = "SELECT workflow_id FROM afl_run WHERE uuid = %s UNION SELECT %s::text"
BY_UNKNOWN_RUNNER = "WHERE runner_id = %s ORDER BY seq"
# The words of the indexes. Tasks that are completed are most of all, so their newest are soon
# found without one.
BY_STATE: dict[str, str] = {
    TaskState.PENDING: "WHERE state = 'pending'",
    TaskState.RUNNING: "WHERE state = 'running'",
    TaskState.COMPLETED: "WHERE state = 'completed'",
}
BY_STOPPED_STATE = "WHERE state IN ('failed', 'ignored', 'canceled', 'dead_letter')"

_NOW = "(SELECT now FROM clock)"
#: A lease never becomes shorter. One that ends further ahead than it is long comes from a clock
#: that was set back, and counts as over.
_ENDS = f"""greatest({_NOW} + %(lease)s, CASE
        WHEN {_NOW} < lease_expires AND lease_expires <= {_NOW} + lease_ms THEN lease_expires
        ELSE 0
    END)"""
#: An expression is in no index: few tasks may run when the plan is made, and all are found by ids.
EXTEND = f"""\
WITH clock AS MATERIALIZED (SELECT {SERVER_TIME} AS now),
claimed AS MATERIALIZED (
    SELECT uuid FROM afl_task WHERE uuid = ANY (%(ids)s::text[]) ORDER BY uuid {_LOCKED}
)
UPDATE afl_task SET
    lease_expires = {_ENDS},
    lease_ms = {_ENDS} - {_NOW},
    version = version + 1
WHERE uuid = ANY (ARRAY (SELECT uuid FROM claimed)) AND state || '' = 'running'
AND (uuid, fence) IN (SELECT * FROM unnest(%(ids)s::text[], %(fences)s::bigint[]))
RETURNING uuid, fence"""


# Questions


def get(reader: Reader, task_id: str) -> TaskDefinition | None:
    return TASKS.one(reader, BY_ID, task_id)


def of_run(reader: Reader, workflow_id: str) -> list[TaskDefinition]:
    return [TASKS.record(row) for row in reader.query_all(ALL_OF_RUN, {"id": workflow_id})]


def pending(reader: Reader, task_list: str) -> list[TaskDefinition]:
    return TASKS.all(reader, PENDING, task_list)


def newest(reader: Reader, limit: int) -> list[TaskDefinition]:
    return TASKS.all(reader, NEWEST, max(limit, 0))


def by_runner(reader: Reader, runner_id: str) -> list[TaskDefinition]:
    known = reader.query_all(RUNS_OF_RUNNER, (runner_id, runner_id))
    found = [task for (run,) in known for task in of_run(reader, run)]
    mine = [each for each in found if each.runner_id == runner_id]
    return mine or TASKS.all(reader, BY_UNKNOWN_RUNNER, runner_id)


def by_state(reader: Reader, state: str, limit: int) -> list[TaskDefinition]:
    return TASKS.all(reader, newest_in(state), state, max(limit, 0))


def newest_in(state: str) -> str:
    condition = BY_STATE.get(state, BY_STOPPED_STATE)
    order = "ORDER BY seq" if state == TaskState.COMPLETED else _SORTED
    return f"{condition} AND state = %s {order} DESC LIMIT %s"


# Questions of decisions: what they have read stays as it is


def get_locked(tx: Transaction, task_id: str) -> TaskDefinition | None:
    return TASKS.one(tx, f"{BY_ID} {_LOCKED}", task_id)


def first_of(rows: Sequence[Row]) -> TaskDefinition | None:
    return TASKS.record(rows[0]) if rows else None


def open_of_run_locked(tx: Transaction, workflow_id: WorkflowId) -> list[TaskDefinition]:
    rows = tx.query_all(OPEN_OF_RUN, {"id": workflow_id})
    return [TASKS.record(row[:-1]) for row in sorted(rows, key=_place)]


def _place(row: Row) -> int:
    return int(row[-1])


# Changes


def create(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    tx.put(INSERT, map(TASKS.row, tasks))
    announce(tx, tasks)


def update(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    rows = [(*_stands(each), each.version + 1, each.uuid) for each in tasks]
    ids = ", ".join(each.uuid for each in tasks)
    refusal = Conflict(
        f"written since it was read, over, or gone: task {ids}; read again and decide anew"
    )
    tx.put(UPDATE, rows, refusal)
    announce(tx, tasks)


def _stands(task: TaskDefinition) -> list[Any]:
    values = list(_standing(task))
    if task.error is not None:
        values[_ERROR] = to_json(task.error)
    return values


def save(tx: Transaction, task: TaskDefinition) -> None:
    Holding(tx).hold([task.workflow_id])
    stored = get_locked(tx, task.uuid)
    if not check_save(stored, task):
        return
    if stored is None:
        tx.put(INSERT, [TASKS.row(task)])
    else:
        TASKS.save(tx, replace(task, version=stored.version + 1))
    announce(tx, [task])
    runs.announce(tx, (task.workflow_id, task.runner_id))


def change_state(tx: Transaction, task_id: str, state: str) -> bool:
    found = get(tx, task_id)
    if found is None:
        return False
    Holding(tx).hold([found.workflow_id])
    task = get_locked(tx, task_id)
    if task is None or not may_follow(task.state, state):
        return False
    # Whatever follows, whoever had claimed it has lost it.
    _move(tx, replace(ended(task, state, tx.now, task.error), version=task.version + 1))
    return True


def release(tx: Transaction, claim: Claim, not_before: int) -> bool:
    task = get_locked(tx, claim.task_id)
    if task is None or not holds(task, claim.fence):
        return False
    _move(tx, released(task, tx.now, not_before))
    return True


def _move(tx: Transaction, task: TaskDefinition) -> None:
    """Write what claims change, over what was read in the same transaction."""
    tx.put(MOVE, [_moving(task)])
    announce(tx, [task])
    runs.announce(tx, (task.workflow_id, task.runner_id))


def extend(reader: Reader, claims: Sequence[Claim], lease_ms: int, told: int | None) -> list[bool]:
    ids, fences = [each.task_id for each in claims], [each.fence for each in claims]
    rows = reader.query_all(EXTEND, {"ids": ids, "fences": fences, "lease": lease_ms, "told": told})
    good = set(rows)
    return [tuple(each) in good for each in claims]


def announce(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    # Also what is not due yet: who waits must know when it will be.
    lists = {
        each.task_list_name for each in tasks if each.state == TaskState.PENDING and not each.held
    }
    # The end of a second task lets the first one of the step be claimed. The other way round,
    # who waits finds it when looking again: asking for it at each end would cost all others.
    lists |= {each.task_list_name for each in tasks if each.is_over and _is_stray(each)}
    for each in lists:
        tx.announce(work_topic(each))
