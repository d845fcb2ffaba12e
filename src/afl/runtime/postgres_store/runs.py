"""Runs: the questions that are asked about them, and their end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from afl.db.postgres import Reader, Transaction, inserting, updating
from afl.errors import Conflict
from afl.runtime.asking.topics import run_topic
from afl.runtime.entities import RunnerDefinition
from afl.runtime.rows.table import PERCENT, Row, Table
from afl.runtime.types import WorkflowId

RUNS = Table(
    "afl_run",
    RunnerDefinition,
    extra={"flow_id": "workflow.flow_id", "workflow_name": "workflow.name"},
    mark=PERCENT,
)

#: How a run stands. What it is never changes.
_CHANGING = ("state", "start_time", "end_time", "duration", "retain", "error", "step_id", "user")
_changing = RUNS.some(_CHANGING)
UPDATE = updating("afl_run", _CHANGING, key="uuid", version="version")
INSERT = inserting("afl_run", RUNS.columns)

_LOCKED = "FOR NO KEY UPDATE"
#: Without the parameters, which may be large.
_HEAD = RUNS.select.replace('"parameters"', "'[]'")
HEAD = f"{_HEAD} WHERE workflow_id = %s ORDER BY seq DESC LIMIT 1"
HEAD_LOCKED = f"{HEAD} {_LOCKED}"
HEADS = f"""{_HEAD} WHERE workflow_id = ANY (%s::text[])
ORDER BY workflow_id, seq {_LOCKED}"""
BY_UUID = "WHERE uuid = %s"
BY_ID = "WHERE workflow_id = %s ORDER BY seq DESC LIMIT 1"
ALL_BY_ID = "WHERE workflow_id = %s ORDER BY seq"
BY_KEY = 'WHERE "key" = %s'
BY_STATE = "WHERE state = %s ORDER BY seq"
NEWEST = "ORDER BY seq DESC LIMIT %s"


# Questions


def get(reader: Reader, workflow_id: WorkflowId) -> RunnerDefinition | None:
    return RUNS.one(reader, BY_ID, workflow_id)


def get_record(reader: Reader, runner_id: str) -> RunnerDefinition | None:
    return RUNS.one(reader, BY_UUID, runner_id)


def by_key(reader: Reader, key: str) -> RunnerDefinition | None:
    return RUNS.one(reader, BY_KEY, key)


def by_run(reader: Reader, workflow_id: WorkflowId) -> list[RunnerDefinition]:
    return RUNS.all(reader, ALL_BY_ID, workflow_id)


def by_state(reader: Reader, state: str) -> list[RunnerDefinition]:
    return RUNS.all(reader, BY_STATE, state)


def newest(reader: Reader, limit: int) -> list[RunnerDefinition]:
    return RUNS.all(reader, NEWEST, max(limit, 0))


def is_over(reader: Reader, workflow_id: WorkflowId) -> bool:
    row = reader.query_one(HEAD, (workflow_id,))
    return row is not None and RUNS.record(row).is_over


# Questions of decisions: what they have read stays as it is


def head_locked(tx: Transaction, workflow_id: WorkflowId) -> RunnerDefinition | None:
    return first_of(tx.query_all(HEAD_LOCKED, (workflow_id,)))


def first_of(rows: Sequence[Row]) -> RunnerDefinition | None:
    return RUNS.record(rows[0]) if rows else None


def heads_locked(
    tx: Transaction, workflow_ids: Sequence[WorkflowId]
) -> dict[WorkflowId, RunnerDefinition]:
    found = map(RUNS.record, tx.query_all(HEADS, (list(workflow_ids),)))
    return {WorkflowId(each.workflow_id): each for each in found}


def by_key_locked(tx: Transaction, key: str) -> RunnerDefinition | None:
    return RUNS.one(tx, f"{BY_KEY} {_LOCKED}", key)


# Changes


def create(tx: Transaction, runs: Sequence[RunnerDefinition]) -> None:
    tx.put(INSERT, map(RUNS.row, runs))


def update(tx: Transaction, runs: Sequence[RunnerDefinition]) -> None:
    rows = [(*_changing(each), each.version + 1, each.uuid) for each in runs]
    ids = ", ".join(each.uuid for each in runs)
    refusal = Conflict(f"written since it was read, or gone: run {ids}; read again and decide anew")
    tx.put(UPDATE, rows, refusal)


def save(tx: Transaction, run: RunnerDefinition) -> None:
    stored = RUNS.one(tx, f"{BY_UUID} {_LOCKED}", run.uuid)
    if stored is None:
        tx.put(INSERT, [RUNS.row(run)])
    else:
        RUNS.save(tx, replace(run, version=stored.version + 1))
    announce(tx, (run.workflow_id, run.uuid))


def change_state(tx: Transaction, runner_id: str, state: str) -> bool:
    run = RUNS.one(tx, f"{BY_UUID} {_LOCKED}", runner_id)
    if run is None:
        return False
    changed = replace(run, state=state)
    if changed.is_over and not run.end_time:
        # Retention counts from the end: without one the run would be as old as time.
        changed = replace(changed, end_time=tx.now, duration=tx.now - run.start_time)
    update(tx, [changed])
    announce(tx, (run.workflow_id, run.uuid))
    return True


def announce(tx: Transaction, ids: Iterable[str]) -> None:
    """Say that something of these runs has changed."""
    for each in set(ids):
        tx.announce(run_topic(each))
