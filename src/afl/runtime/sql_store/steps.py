# ruff: noqa: S608 - statements are made of constants
"""Steps: their rows, and the questions that are asked about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from afl.db.sqlite import Reader, Row, Transaction
from afl.errors import Conflict
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import Yielded, child_id
from afl.runtime.sql_store.codec import from_json, reader_of, to_json
from afl.runtime.sql_store.rows import assignments, column_list, insert_sql
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition, StepTransition
from afl.runtime.types import (
    AttributeValue,
    BlockId,
    FacetAttributes,
    ObjectType,
    StatementId,
    StepId,
    VersionInfo,
    WorkflowId,
)

#: A column for each field, and behind them what does not fit into the column of its field.
_FIELDS = tuple(each.name for each in fields(StepDefinition))
_IN_PARTS = {"transition": "flags", "attributes": "params"}
COLUMNS = (
    *(_IN_PARTS.get(each, each) for each in _FIELDS),
    "original_state",
    "current_state",
    "error",
    "returns",
    "is_stray",
)
#: How a step stands: what changes as it runs. What it is stays, and the indexes on it.
_CHANGING = (
    "state",
    "original_state",
    "current_state",
    "flags",
    "error",
    "params",
    "returns",
    "foreach_value",
    "position",
    "pending",
    "failed",
    "caught",
    "update_order",
    "sequence",
)

_TRANSITION = _FIELDS.index("transition")
_ATTRIBUTES = _FIELDS.index("attributes")
_VERSION = _FIELDS.index("version")
_FOREACH_VALUE = _FIELDS.index("foreach_value")
_SEQUENCE = _FIELDS.index("sequence")
_ENUMS = tuple(map(_FIELDS.index, ("object_type", "container_type", "state")))
_values = attrgetter(*_FIELDS)

_INSERT = insert_sql("step", COLUMNS)
UPDATE = f"UPDATE step SET {assignments(_CHANGING)} WHERE id = ? AND sequence = ?"
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

_CHANGED, _REQUESTED, _PUSHED = 1, 2, 4

_read_attributes = reader_of(dict[str, tuple[Any, str]])


# Rows


def _row(step: StepDefinition) -> list[Any]:
    row = list(_values(step))
    for index in _ENUMS:
        # SQLite's module asks long for how to store what is not plain text.
        if row[index] is not None:
            row[index] = str(row[index])
    row[_TRANSITION] = _flags(step.transition)
    row[_ATTRIBUTES] = _packed(step.attributes.params)
    row[_VERSION] = _version_text(step.version)
    if step.foreach_value is not None:
        row[_FOREACH_VALUE] = to_json(step.foreach_value)
    row += (
        *_past(step),
        _error(step.transition),
        _packed(step.attributes.returns),
        _is_stray(step),
    )
    return row


def _standing(step: StepDefinition) -> tuple[Any, ...]:
    """How it stands, as it is written over an earlier one: by hand, because every step that goes
    on comes here."""
    return (
        str(step.state),
        *_past(step),
        _flags(step.transition),
        _error(step.transition),
        _packed(step.attributes.params),
        _packed(step.attributes.returns),
        None if step.foreach_value is None else to_json(step.foreach_value),
        step.position,
        step.pending,
        step.failed,
        step.caught,
        step.update_order,
        step.sequence + 1,
    )


def _past(step: StepDefinition) -> tuple[str | None, str | None]:
    """Where its transition began and stands: nearly always at its state."""
    state, transition = step.state, step.transition
    return (
        None if transition.original_state == state else transition.original_state,
        None if transition.current_state == state else transition.current_state,
    )


def _flags(transition: StepTransition) -> int:
    return (
        transition.changed * _CHANGED
        + transition.request_transition * _REQUESTED
        + transition.push_me * _PUSHED
    )


def _error(transition: StepTransition) -> str | None:
    if transition.error is None:
        return None
    return to_json(StepFailure.of(transition.error).to_dict())


def _is_stray(step: StepDefinition) -> int:
    """Whether it is in a block without the id that its place there gives it."""
    if step.block_id is None:
        return 0
    return int(step.statement_id is None or step.id != child_id(step.block_id, step.statement_id))


def _next_row(step: StepDefinition) -> list[Any]:
    """As it is written over an earlier one."""
    row = _row(step)
    row[_SEQUENCE] += 1
    return row


def _step(row: Row) -> StepDefinition:
    *values, original_state, current_state, error, returns = row
    step = StepDefinition(*values)
    flags = values[_TRANSITION]
    step.transition = StepTransition(
        step.state if original_state is None else original_state,
        step.state if current_state is None else current_state,
        bool(flags & _CHANGED),
        bool(flags & _REQUESTED),
        bool(flags & _PUSHED),
        None if error is None else StepFailure.from_dict(from_json(error)),
    )
    step.attributes = FacetAttributes(_unpacked(values[_ATTRIBUTES]), _unpacked(returns))
    step.version = _version_info(values[_VERSION])
    if step.foreach_value is not None:
        step.foreach_value = from_json(step.foreach_value)
    return step


def _packed(attributes: dict[str, AttributeValue]) -> str | None:
    if not attributes:
        return None
    return to_json({name: (each.value, each.type_hint) for name, each in attributes.items()})


def _unpacked(text: str | None) -> dict[str, AttributeValue]:
    if text is None:
        return {}
    return {
        name: AttributeValue(name, value, hint)
        for name, (value, hint) in _read_attributes(text).items()
    }


def _bare(text: str | None) -> dict[str, Any]:
    """The values alone."""
    if text is None:
        return {}
    return {name: value for name, (value, _) in _read_attributes(text).items()}


# All steps of a release have the same version, and the record cannot be changed.
@lru_cache(maxsize=64)
def _version_text(version: VersionInfo) -> str:
    return to_json((version.workflow_version, version.step_schema_version, version.runtime_version))


@lru_cache(maxsize=64)
def _version_info(text: str) -> VersionInfo:
    return VersionInfo(*from_json(text))


# Questions


def get(reader: Reader, step_id: StepId) -> StepDefinition | None:
    row = reader.query_one(BY_ID, (step_id,))
    return None if row is None else _step(row)


def get_many(reader: Reader, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
    found = _all(reader, BY_IDS, to_json(step_ids))
    return {each.id: each for each in found}


def by_block(reader: Reader, block_id: BlockId) -> list[StepDefinition]:
    return [_step(row) for row in reader.query_all(BY_BLOCK, {"id": block_id})]


def by_run(reader: Reader, workflow_id: WorkflowId) -> list[StepDefinition]:
    return _all(reader, BY_RUN, workflow_id)


def by_state(reader: Reader, state: str) -> list[StepDefinition]:
    return _all(reader, BY_STATE, state)


def by_container(reader: Reader, container_id: StepId) -> list[StepDefinition]:
    if reader.query_one(IS_THERE, (container_id,)) is None:
        return _all(reader, BY_UNKNOWN_CONTAINER, container_id)
    return [_step(row) for row in reader.query_all(BY_CONTAINER, {"id": container_id})]


def blocks(reader: Reader, container_id: StepId) -> list[StepDefinition]:
    return [each for each in by_container(reader, container_id) if each.is_block]


def yielded(reader: Reader, container_id: StepId) -> list[Yielded]:
    rows = reader.query_all(YIELDED, (container_id,))
    return [Yielded(statement, position, _bare(params)) for statement, position, params in rows]


def root(reader: Reader, workflow_id: WorkflowId) -> StepDefinition | None:
    row = reader.query_one(ROOT, (workflow_id,))
    return None if row is None else _step(row)


def exists(reader: Reader, statement_id: StatementId, block_id: BlockId | None) -> bool:
    if block_id is None:
        return reader.query_one(WITHOUT_BLOCK, (statement_id,)) is not None
    return (
        reader.query_one(IS_THERE, (child_id(block_id, statement_id),)) is not None
        or reader.query_one(STRAY_AT, (block_id, statement_id)) is not None
    )


def _all(reader: Reader, sql: str, *parameters: Any) -> list[StepDefinition]:
    return [_step(row) for row in reader.query_all(sql, parameters)]


# Changes


def create(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    _require_places(tx, steps)
    tx.executemany(_INSERT, [_row(each) for each in steps])


def _require_places(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    """Steps of the engine are told apart by their ids, strays by an index: here a stray meets one
    of the engine."""
    for each in filter(_is_stray, steps):
        if each.statement_id is None or each.block_id is None:
            continue
        if tx.query_one(IS_THERE, (child_id(each.block_id, each.statement_id),)) is not None:
            place = f"statement {each.statement_id} of block {each.block_id}"
            raise Conflict(f"already there: {place} has a step")


def update(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    rows = [(*_standing(each), each.id, each.sequence) for each in steps]
    if tx.executemany(UPDATE, rows) != len(rows):
        raise _conflict(steps)


def save(tx: Transaction, step: StepDefinition) -> int:
    """Insert or replace; the sequence that is stored now."""
    if tx.query_one(IS_THERE, (step.id,)) is None:
        create(tx, [step])
        return step.sequence
    if not tx.execute(REPLACE, [*_next_row(step), step.id, step.sequence]):
        raise _conflict([step])
    return step.sequence + 1


def _conflict(steps: Iterable[StepDefinition]) -> Conflict:
    ids = ", ".join(each.id for each in steps)
    return Conflict(f"written since it was read, or gone: step {ids}; read again and decide anew")
