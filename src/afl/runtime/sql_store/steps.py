# ruff: noqa: S608 - statements are made of constants
"""Steps: their rows, and the questions that are asked about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from afl.db.sqlite import Reader, Transaction
from afl.errors import Conflict
from afl.runtime.asking.topics import run_topic
from afl.runtime.persistence import Yielded, child_id
from afl.runtime.rows.codec import to_json
from afl.runtime.rows.steps import (
    CHANGING,
    COLUMNS,
    is_stray,
    next_row,
    row_of,
    standing,
    step_of,
    yielded_of,
)
from afl.runtime.rows.table import assignments, column_list, insert_sql
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, ObjectType, StatementId, StepId, WorkflowId

INSERT = insert_sql("step", COLUMNS)
UPDATE = f"UPDATE step SET {assignments(CHANGING)} WHERE id = ? AND sequence = ?"
REPLACE = f"UPDATE step SET {assignments(COLUMNS)} WHERE id = ? AND sequence = ?"
_SELECT = f"SELECT {column_list(COLUMNS[:-1])} FROM step"

BY_ID = f"{_SELECT} WHERE id = ?"
BY_IDS = f"{_SELECT} WHERE id IN (SELECT value FROM json_each(?))"
# Blocks and containers are steps of the same run.
BY_BLOCK = f"""{_SELECT} WHERE seq IN (
    SELECT seq FROM step INDEXED BY step_run
    WHERE workflow_id = (SELECT workflow_id FROM step WHERE id = :id)
    AND block_id = :id AND is_stray = 0
    UNION ALL
    SELECT seq FROM step INDEXED BY step_stray WHERE block_id = :id AND is_stray = 1
) ORDER BY seq"""
BY_RUN = f"{_SELECT} WHERE workflow_id = ? ORDER BY seq"
BY_CONTAINER = f"""{_SELECT} WHERE workflow_id = (SELECT workflow_id FROM step WHERE id = :id)
AND container_id = :id ORDER BY seq"""
BY_UNKNOWN_CONTAINER = f"{_SELECT} WHERE container_id = ? ORDER BY seq"
YIELDED = f"""\
SELECT statement_id, position, params FROM step INDEXED BY step_yield
WHERE container_id = ? AND object_type = '{ObjectType.YIELD_ASSIGNMENT}'
AND state = '{StepState.STATEMENT_COMPLETE}'"""
BY_STATE = f"{_SELECT} WHERE state = ? ORDER BY seq"
ROOT = f"""{_SELECT} INDEXED BY step_run
WHERE workflow_id = ? AND container_id IS NULL AND root_id IS NULL ORDER BY seq LIMIT 1"""
IS_THERE = "SELECT 1 FROM step WHERE id = ?"
STRAY_AT = """\
SELECT 1 FROM step INDEXED BY step_stray
WHERE is_stray = 1 AND block_id = ? AND statement_id = ? LIMIT 1"""
WITHOUT_BLOCK = "SELECT 1 FROM step WHERE block_id IS NULL AND statement_id = ? LIMIT 1"


# Questions


def get(reader: Reader, step_id: StepId) -> StepDefinition | None:
    row = reader.query_one(BY_ID, (step_id,))
    return None if row is None else step_of(row)


def get_many(reader: Reader, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
    found = _all(reader, BY_IDS, to_json(step_ids))
    return {each.id: each for each in found}


def by_block(reader: Reader, block_id: BlockId) -> list[StepDefinition]:
    return [step_of(row) for row in reader.query_all(BY_BLOCK, {"id": block_id})]


def by_run(reader: Reader, workflow_id: WorkflowId) -> list[StepDefinition]:
    return _all(reader, BY_RUN, workflow_id)


def by_state(reader: Reader, state: str) -> list[StepDefinition]:
    return _all(reader, BY_STATE, state)


def by_container(reader: Reader, container_id: StepId) -> list[StepDefinition]:
    if reader.query_one(IS_THERE, (container_id,)) is None:
        return _all(reader, BY_UNKNOWN_CONTAINER, container_id)
    return [step_of(row) for row in reader.query_all(BY_CONTAINER, {"id": container_id})]


def blocks(reader: Reader, container_id: StepId) -> list[StepDefinition]:
    return [each for each in by_container(reader, container_id) if each.is_block]


def yielded(reader: Reader, container_id: StepId) -> list[Yielded]:
    return [yielded_of(row) for row in reader.query_all(YIELDED, (container_id,))]


def root(reader: Reader, workflow_id: WorkflowId) -> StepDefinition | None:
    row = reader.query_one(ROOT, (workflow_id,))
    return None if row is None else step_of(row)


def exists(reader: Reader, statement_id: StatementId, block_id: BlockId | None) -> bool:
    if block_id is None:
        return reader.query_one(WITHOUT_BLOCK, (statement_id,)) is not None
    return (
        reader.query_one(IS_THERE, (child_id(block_id, statement_id),)) is not None
        or reader.query_one(STRAY_AT, (block_id, statement_id)) is not None
    )


def _all(reader: Reader, sql: str, *parameters: Any) -> list[StepDefinition]:
    return [step_of(row) for row in reader.query_all(sql, parameters)]


# Changes


def create(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    _require_places(tx, steps)
    tx.executemany(INSERT, [row_of(each) for each in steps])


def _require_places(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    """Steps of the engine are told apart by their ids, strays by an index: here a stray meets one
    of the engine."""
    for each in filter(is_stray, steps):
        if each.statement_id is None or each.block_id is None:
            continue
        if tx.query_one(IS_THERE, (child_id(each.block_id, each.statement_id),)) is not None:
            place = f"statement {each.statement_id} of block {each.block_id}"
            raise Conflict(f"already there: {place} has a step")


def update(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    rows = [(*standing(each), each.id, each.sequence) for each in steps]
    if tx.executemany(UPDATE, rows) != len(rows):
        raise _conflict(steps)


def save(tx: Transaction, step: StepDefinition) -> int:
    """Insert or replace; the sequence that is stored now."""
    tx.announce(run_topic(step.workflow_id))
    if tx.query_one(IS_THERE, (step.id,)) is None:
        create(tx, [step])
        return step.sequence
    if not tx.execute(REPLACE, [*next_row(step), step.id, step.sequence]):
        raise _conflict([step])
    return step.sequence + 1


def _conflict(steps: Iterable[StepDefinition]) -> Conflict:
    ids = ", ".join(each.id for each in steps)
    return Conflict(f"written since it was read, or gone: step {ids}; read again and decide anew")
