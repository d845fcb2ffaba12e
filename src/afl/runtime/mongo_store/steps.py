"""Steps: the questions that are asked about them, and their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from afl.db.mongo import Document, Filter, Reader, Transaction
from afl.db.mongo.fields import fields_of
from afl.errors import Conflict
from afl.runtime.asking.topics import run_topic
from afl.runtime.mongo_store.documents import OLDEST_FIRST
from afl.runtime.mongo_store.holding import Holding
from afl.runtime.mongo_store.schema import STEPS
from afl.runtime.persistence import Yielded, child_id
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
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, ObjectType, StatementId, StepId, WorkflowId

_NAMES = tuple("_id" if each == "id" else each for each in COLUMNS)
_READ = _NAMES[:-1]
_BLOCKS = [str(each) for each in ObjectType if ObjectType.is_block(each)]


# Questions


def get(reader: Reader, step_id: StepId) -> StepDefinition | None:
    found = reader.one(STEPS, {"_id": step_id})
    return None if found is None else of(found)


def get_many(reader: Reader, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
    found = map(of, reader.all(STEPS, {"_id": {"$in": list(step_ids)}}))
    return {each.id: each for each in found}


def by_block(reader: Reader, block_id: BlockId) -> list[StepDefinition]:
    # Blocks and containers are steps of the same run; strays may be of any.
    found = _in_run_of(reader, block_id, {"block_id": block_id, "is_stray": 0})
    strays = reader.all(STEPS, {"block_id": block_id, "is_stray": 1})
    return _in_order([*found, *strays])


def by_run(reader: Reader, workflow_id: WorkflowId) -> list[StepDefinition]:
    return _all(reader, {"workflow_id": workflow_id})


def by_state(reader: Reader, state: str) -> list[StepDefinition]:
    return _all(reader, {"state": state})


def by_container(reader: Reader, container_id: StepId) -> list[StepDefinition]:
    return _in_container(reader, container_id, {})


def blocks(reader: Reader, step_id: StepId) -> list[StepDefinition]:
    return _in_container(reader, step_id, {"object_type": {"$in": _BLOCKS}})


def yielded(reader: Reader, container_id: StepId) -> list[Yielded]:
    where = {
        "container_id": container_id,
        "object_type": str(ObjectType.YIELD_ASSIGNMENT),
        "state": str(StepState.STATEMENT_COMPLETE),
    }
    names = ("statement_id", "position", "params")
    found = reader.all(STEPS, where, fields=dict.fromkeys(names, 1))
    return [yielded_of(tuple(map(each.get, names))) for each in found]


def root(reader: Reader, workflow_id: WorkflowId) -> StepDefinition | None:
    where = {"workflow_id": workflow_id, "container_id": None, "root_id": None}
    found = reader.one(STEPS, where, sort=OLDEST_FIRST)
    return None if found is None else of(found)


def exists(reader: Reader, statement_id: StatementId, block_id: BlockId | None) -> bool:
    if block_id is None:
        return _is_there(reader, {"block_id": None, "statement_id": statement_id})
    return _is_there(reader, {"_id": child_id(block_id, statement_id)}) or _is_there(
        reader, {"is_stray": 1, "block_id": block_id, "statement_id": statement_id}
    )


def of(document: Document) -> StepDefinition:
    return step_of(fields_of(document, _READ))


def _all(reader: Reader, where: Filter) -> list[StepDefinition]:
    return [of(each) for each in reader.all(STEPS, where, sort=OLDEST_FIRST)]


def _in_container(reader: Reader, container_id: StepId, more: Filter) -> list[StepDefinition]:
    where = {"container_id": container_id, **more}
    if _is_there(reader, {"_id": container_id}):
        return _in_order(_in_run_of(reader, container_id, where))
    return _all(reader, where)


def _in_run_of(reader: Reader, step_id: str, where: Filter) -> list[Document]:
    found = reader.one(STEPS, {"_id": step_id}, fields={"workflow_id": 1})
    return (
        [] if found is None else reader.all(STEPS, {"workflow_id": found["workflow_id"], **where})
    )


def _in_order(documents: list[Document]) -> list[StepDefinition]:
    return [of(each) for each in sorted(documents, key=lambda each: int(each["seq"]))]


def _is_there(reader: Reader, where: Filter) -> bool:
    return reader.one(STEPS, where, fields={"_id": 1}) is not None


# Changes


def create(tx: Transaction, steps: Sequence[StepDefinition], number: Callable[[str], int]) -> None:
    """`number` gives the next number in a run."""
    _require_places(tx, steps)
    tx.insert(STEPS, [_new(each, number(each.workflow_id)) for each in steps])


def _new(step: StepDefinition, number: int) -> Document:
    values = zip(_NAMES, row_of(step), strict=True)
    made: dict[str, Any] = {name: each for name, each in values if each is not None}
    return {**made, "seq": number}


def _require_places(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    """Steps of the engine are told apart by their ids, strays by an index: here a stray meets one
    of the engine."""
    for each in filter(is_stray, steps):
        if each.statement_id is None or each.block_id is None:
            continue
        if _is_there(tx, {"_id": child_id(each.block_id, each.statement_id)}):
            place = f"statement {each.statement_id} of block {each.block_id}"
            raise Conflict(f"already there: {place} has a step")


def update(tx: Transaction, steps: Sequence[StepDefinition]) -> None:
    changes = [
        (_unchanged(each), {"$set": dict(zip(CHANGING, standing(each), strict=True))})
        for each in steps
    ]
    tx.update(STEPS, changes, _conflict(steps))


def save(tx: Transaction, step: StepDefinition) -> int:
    """Insert or replace; the sequence that is stored now."""
    holding = Holding(tx)
    holding.hold([step.workflow_id])
    tx.announce(run_topic(step.workflow_id))
    if not _is_there(tx, {"_id": step.id}):
        create(tx, [step], holding.next_number)
        return step.sequence
    values = dict(zip(_NAMES, next_row(step), strict=True))
    del values["_id"]
    tx.update(STEPS, [(_unchanged(step), {"$set": values})], _conflict([step]))
    return step.sequence + 1


def _unchanged(step: StepDefinition) -> Filter:
    return {"_id": step.id, "sequence": step.sequence}


def _conflict(steps: Iterable[StepDefinition]) -> Conflict:
    ids = ", ".join(each.id for each in steps)
    return Conflict(f"written since it was read, or gone: step {ids}; read again and decide anew")
