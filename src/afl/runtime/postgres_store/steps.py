# ruff: noqa: S608 - statements are made of constants
"""Steps: the questions that are asked about them, and their changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from afl.db.postgres import Reader, Transaction, inserting, updating
from afl.errors import Conflict
from afl.runtime.asking.topics import run_topic
from afl.runtime.persistence import Yielded, child_id
from afl.runtime.postgres_store.holding import Holding
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
from afl.runtime.rows.table import PERCENT, assignments, column_list
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, ObjectType, StatementId, StepId, WorkflowId

INSERT = inserting("afl_step", COLUMNS)
UPDATE = updating("afl_step", CHANGING, key="id", version="sequence")
REPLACE = f"UPDATE afl_step SET {assignments(COLUMNS, PERCENT)} WHERE id = %s AND sequence = %s"
_SELECT = f"SELECT {column_list(COLUMNS[:-1])} FROM afl_step"

BY_ID = f"{_SELECT} WHERE id = %s"
BY_IDS = f"{_SELECT} WHERE id = ANY (%s::text[])"
#: The steps of tasks, the blocks they are in, and what contains those that may end with them: only
#: then, and not for a round of a foreach, which tells the foreach, because its parameters can be
#: long.
OF_TASKS = f"""\
WITH RECURSIVE around (id, block_id, container_id, pending, height) AS (
    SELECT id, block_id, NULL, 0::bigint, 0 FROM afl_step
    WHERE id = ANY (ARRAY (SELECT step_id FROM afl_task WHERE uuid = ANY (%(ids)s::text[])))
    UNION
    SELECT block.id, block.block_id, block.container_id, block.pending, around.height + 1
    FROM around JOIN afl_step AS block ON block.id = around.block_id WHERE around.height < 2
)
{_SELECT} WHERE id = ANY (ARRAY (
    SELECT id FROM around
    UNION
    SELECT container_id FROM around
    WHERE block_id IS NULL AND pending BETWEEN 1 AND cardinality(%(ids)s::text[])
))"""
# Blocks and containers are steps of the same run.
BY_BLOCK = f"""{_SELECT} WHERE id = ANY (ARRAY (
    SELECT id FROM afl_step
    WHERE workflow_id = (SELECT workflow_id FROM afl_step WHERE id = %(id)s)
    AND block_id = %(id)s AND is_stray = 0
    UNION ALL
    SELECT id FROM afl_step WHERE block_id = %(id)s AND is_stray = 1
)) ORDER BY seq"""
BY_RUN = f"{_SELECT} WHERE workflow_id = %s ORDER BY seq"
BY_CONTAINER = f"""{_SELECT}
WHERE workflow_id = (SELECT workflow_id FROM afl_step WHERE id = %(id)s)
AND container_id = %(id)s ORDER BY seq"""
BY_UNKNOWN_CONTAINER = f"{_SELECT} WHERE container_id = %s ORDER BY seq"
YIELDED = f"""\
SELECT statement_id, position, params FROM afl_step
WHERE container_id = %s AND object_type = '{ObjectType.YIELD_ASSIGNMENT}'
AND state = '{StepState.STATEMENT_COMPLETE}'"""
BY_STATE = f"{_SELECT} WHERE state = %s ORDER BY seq"
ROOT = f"""{_SELECT}
WHERE workflow_id = %s AND container_id IS NULL AND root_id IS NULL ORDER BY seq LIMIT 1"""
IS_THERE = "SELECT 1 FROM afl_step WHERE id = %s"
STRAY_AT = "SELECT 1 FROM afl_step WHERE is_stray = 1 AND block_id = %s AND statement_id = %s"
WITHOUT_BLOCK = "SELECT 1 FROM afl_step WHERE block_id IS NULL AND statement_id = %s LIMIT 1"


# Questions


def get(reader: Reader, step_id: StepId) -> StepDefinition | None:
    row = reader.query_one(BY_ID, (step_id,))
    return None if row is None else step_of(row)


def get_many(reader: Reader, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
    return {each.id: each for each in _all(reader, BY_IDS, list(step_ids))}


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
    tx.put(INSERT, [row_of(each) for each in steps])


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
    rows = [(*standing(each), each.id) for each in steps]
    tx.put(UPDATE, rows, _conflict(steps))


def save(tx: Transaction, step: StepDefinition) -> int:
    """Insert or replace; the sequence that is stored now."""
    Holding(tx).hold([step.workflow_id])
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
