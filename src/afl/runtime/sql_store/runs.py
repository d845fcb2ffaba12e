# ruff: noqa: S608 - statements are made of constants
"""Runs: their rows, the questions that are asked about them, and their end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from afl.db.sqlite import Reader, Transaction
from afl.errors import Conflict
from afl.runtime.asking.topics import run_topic
from afl.runtime.entities import ENDED_RUNNER_STATES, RunnerDefinition
from afl.runtime.rows.codec import to_json
from afl.runtime.rows.table import Table, assignments
from afl.runtime.types import WorkflowId

RUNS = Table(
    "run",
    RunnerDefinition,
    extra={"flow_id": "workflow.flow_id", "workflow_name": "workflow.name"},
)

#: How a run stands. What it is never changes.
_CHANGING = ("start_time", "end_time", "duration", "retain", "error", "step_id", "user")
_changing = RUNS.some(_CHANGING)
UPDATE = f"""UPDATE run SET {assignments(("state", *_CHANGING))}, version = ?
WHERE uuid = ? AND version = ?"""

#: Without the parameters, which may be large.
_HEAD = RUNS.select.replace('"parameters"', "'[]'")
HEAD = f"{_HEAD} WHERE workflow_id = ? ORDER BY seq DESC LIMIT 1"
STATE = "SELECT state FROM run WHERE workflow_id = ? ORDER BY seq DESC LIMIT 1"
HEADS = f"{_HEAD} WHERE workflow_id IN (SELECT value FROM json_each(?)) ORDER BY seq"
BY_UUID = "WHERE uuid = ?"
BY_ID = "WHERE workflow_id = ? ORDER BY seq DESC LIMIT 1"
ALL_BY_ID = "WHERE workflow_id = ? ORDER BY seq"
BY_KEY = 'WHERE "key" = ?'
BY_STATE = "WHERE state = ? ORDER BY seq"
NEWEST = "ORDER BY seq DESC LIMIT ?"


# Questions


def get(reader: Reader, workflow_id: WorkflowId) -> RunnerDefinition | None:
    return RUNS.one(reader, BY_ID, workflow_id)


def head(reader: Reader, workflow_id: WorkflowId) -> RunnerDefinition | None:
    row = reader.query_one(HEAD, (workflow_id,))
    return None if row is None else RUNS.record(row)


def heads(reader: Reader, workflow_ids: Sequence[WorkflowId]) -> dict[WorkflowId, RunnerDefinition]:
    found = map(RUNS.record, reader.query_all(HEADS, (to_json(workflow_ids),)))
    return {WorkflowId(each.workflow_id): each for each in found}


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
    row = reader.query_one(STATE, (workflow_id,))
    return row is not None and row[0] in ENDED_RUNNER_STATES


# Changes


def create(tx: Transaction, runs: Sequence[RunnerDefinition]) -> None:
    tx.executemany(RUNS.insert, map(RUNS.row, runs))


def update(tx: Transaction, runs: Sequence[RunnerDefinition]) -> None:
    rows = [
        # Of an enum, SQLite's driver asks long how to store it.
        (str(each.state), *_changing(each), each.version + 1, each.uuid, each.version)
        for each in runs
    ]
    if tx.executemany(UPDATE, rows) != len(rows):
        ids = ", ".join(each.uuid for each in runs)
        raise Conflict(f"written since it was read, or gone: run {ids}; read again and decide anew")


def save(tx: Transaction, run: RunnerDefinition) -> None:
    stored = get_record(tx, run.uuid)
    version = run.version if stored is None else stored.version + 1
    RUNS.save(tx, replace(run, version=version))
    announce(tx, (run.workflow_id, run.uuid))


def change_state(tx: Transaction, runner_id: str, state: str, now: int) -> bool:
    run = get_record(tx, runner_id)
    if run is None:
        return False
    changed = replace(run, state=state)
    if changed.is_over and not run.end_time:
        # Retention counts from the end: without one the run would be as old as time.
        changed = replace(changed, end_time=now, duration=now - run.start_time)
    update(tx, [changed])
    announce(tx, (run.workflow_id, run.uuid))
    return True


def announce(tx: Transaction, ids: Iterable[str]) -> None:
    """Say that something of these runs has changed."""
    for each in set(ids):
        tx.announce(run_topic(each))
