"""Runs: the questions that are asked about them, and their end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from afl.db.mongo import Document, Filter, Reader, Transaction
from afl.errors import Conflict
from afl.runtime.asking.topics import run_topic
from afl.runtime.entities import RunnerDefinition
from afl.runtime.mongo_store.documents import NEWEST_FIRST, OLDEST_FIRST, Documents
from afl.runtime.mongo_store.schema import RUNS
from afl.runtime.types import WorkflowId


def _kept_until(run: RunnerDefinition) -> int:
    # Numbers of others may be anything: what does not fit is kept for ever.
    return min(run.end_time + max(run.retain, 0), 2**63 - 1)


KIND = Documents(
    RUNS,
    RunnerDefinition,
    extra={
        "flow_id": "workflow.flow_id",
        "workflow_name": "workflow.name",
        "kept_until": _kept_until,
    },
)

#: How a run stands. What it is never changes.
_CHANGING = (
    "state",
    "start_time",
    "end_time",
    "duration",
    "retain",
    "error",
    "step_id",
    "user",
    "kept_until",
)
#: Without the parameters, which may be large.
_HEAD = {"parameters": 0}
#: Whoever decides about a run changes its document: of two at once, the second begins anew. The
#: answer tells the time.
_GROW = {"$inc": {"guard": 1}}
HOLD = {**_GROW, "$currentDate": {"held_at": True}}


# Questions


def get(reader: Reader, workflow_id: WorkflowId) -> RunnerDefinition | None:
    return KIND.one(reader, {"workflow_id": workflow_id}, sort=NEWEST_FIRST)


def get_record(reader: Reader, runner_id: str) -> RunnerDefinition | None:
    return KIND.one(reader, {"_id": runner_id})


def by_key(reader: Reader, key: str) -> RunnerDefinition | None:
    return KIND.one(reader, {"key": key})


def by_run(reader: Reader, workflow_id: WorkflowId) -> list[RunnerDefinition]:
    return KIND.all(reader, {"workflow_id": workflow_id})


def by_state(reader: Reader, state: str) -> list[RunnerDefinition]:
    return KIND.all(reader, {"state": state})


def newest(reader: Reader, limit: int) -> list[RunnerDefinition]:
    return KIND.some_of(reader, {}, limit, sort=NEWEST_FIRST)


def is_over(reader: Reader, workflow_id: WorkflowId) -> bool:
    found = KIND.one(reader, {"workflow_id": workflow_id}, sort=NEWEST_FIRST, fields=_HEAD)
    return found is not None and found.is_over


# Questions of decisions: what they have read stays as it is


class Held(NamedTuple):
    run: RunnerDefinition
    #: What its guard says.
    guard: int


def held(tx: Transaction, workflow_id: str) -> Held | None:
    """A run that nobody else decides about until the end of the transaction; without its
    parameters."""
    where = {"workflow_id": workflow_id}
    found = tx.change(RUNS, where, HOLD, sort=NEWEST_FIRST, fields=_HEAD)
    return None if found is None else _held(tx, found)


def held_by_key(tx: Transaction, key: str) -> Held | None:
    """The same, with its parameters."""
    found = tx.change(RUNS, {"key": key}, HOLD)
    return None if found is None else _held(tx, found)


def many_held(tx: Transaction, workflow_ids: Sequence[WorkflowId]) -> list[Held]:
    """The newest record of each run last."""
    where = {"workflow_id": {"$in": list(workflow_ids)}}
    tx.change_all(RUNS, where, HOLD)
    return [_held(tx, each) for each in tx.all(RUNS, where, sort=OLDEST_FIRST, fields=_HEAD)]


def _held(tx: Transaction, found: Document) -> Held:
    tx.heard_time(found["held_at"])
    return head_of(found)


def head_of(found: Document) -> Held:
    return Held(KIND.record({"parameters": "[]", **found}), found.get("guard", 0))


def heads_of(workflow_id: str, into: str) -> list[Filter]:
    """Stages that bring along the run of this id, as a list of at most one, without its
    parameters."""
    newest: list[Filter] = [{"$sort": dict(NEWEST_FIRST)}, {"$limit": 1}]
    head = [{"$match": {"workflow_id": workflow_id}}, *newest, {"$project": _HEAD}]
    return [{"$lookup": {"from": RUNS, "pipeline": head, "as": into}}]


# Changes


def create(tx: Transaction, runs: Sequence[RunnerDefinition]) -> None:
    tx.insert(RUNS, [KIND.new(tx, each) for each in runs])
    announce(tx, runs)


def update(tx: Transaction, runs: Sequence[RunnerDefinition]) -> None:
    ids = ", ".join(each.uuid for each in runs)
    refusal = Conflict(f"written since it was read, or gone: run {ids}; read again and decide anew")
    tx.update(RUNS, map(_update, runs), refusal)
    announce(tx, runs)


def _update(run: RunnerDefinition) -> tuple[Filter, Document]:
    where = {"_id": run.uuid, "version": run.version}
    return where, {"$set": {**KIND.some(run, _CHANGING), "version": run.version + 1}, **_GROW}


def save(tx: Transaction, run: RunnerDefinition, guard: int) -> None:
    """Insert or replace. A record that is new goes on with the guard that the run had."""
    stored = KIND.one(tx, {"_id": run.uuid})
    if stored is None:
        tx.insert(RUNS, [{**KIND.new(tx, run), "guard": guard}])
    else:
        tx.update(RUNS, [_replacement(replace(run, version=stored.version + 1))])
    announce(tx, [run])


def _replacement(run: RunnerDefinition) -> tuple[Filter, Document]:
    fields = KIND.document(run)
    where, change = {"_id": fields.pop("_id")}, {"$set": fields}
    if run.key is None:
        del fields["key"]
        change["$unset"] = {"key": ""}
    return where, change


def change_state(tx: Transaction, runner_id: str, state: str) -> bool:
    run = KIND.one(tx, {"_id": runner_id})
    if run is None:
        return False
    changed = replace(run, state=state)
    if changed.is_over and not run.end_time:
        # Retention counts from the end: without one the run would be as old as time.
        changed = replace(changed, end_time=tx.now, duration=tx.now - run.start_time)
    update(tx, [changed])
    return True


def announce(tx: Transaction, runs: Iterable[RunnerDefinition]) -> None:
    for each in runs:
        tx.announce(run_topic(each.workflow_id))
        tx.announce(run_topic(each.uuid))
