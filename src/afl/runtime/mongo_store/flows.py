"""Flows and their workflows. A flow that a run needs cannot be removed while the run is made:
both change its guard, which is there as long as the flow is."""

from __future__ import annotations

from collections.abc import Sequence

from afl.db.mongo import Transaction
from afl.errors import Conflict
from afl.runtime.entities import FlowDefinition, WorkflowDefinition
from afl.runtime.mongo_store.documents import Documents
from afl.runtime.mongo_store.schema import FLOWS, GUARDS, RUNS, WORKFLOWS

KIND = Documents(FLOWS, FlowDefinition, extra={"flow_name": "name.name", "flow_path": "name.path"})
WORKFLOW_KIND = Documents(WORKFLOWS, WorkflowDefinition)

_GROW = {"$inc": {"n": 1}}


def guard_of(flow_id: str) -> str:
    return f"flow:{flow_id}"


def get_kept(tx: Transaction, flow_id: str) -> FlowDefinition | None:
    """A flow that nobody removes before the end of the transaction."""
    is_there = tx.change_all(GUARDS, {"_id": guard_of(flow_id)}, _GROW)
    return KIND.one(tx, {"_id": flow_id}) if is_there else None


def keep(tx: Transaction, flows: Sequence[FlowDefinition]) -> None:
    """Have these there, as they are or as they are given, until the end of the transaction."""
    for each in {each.uuid: each for each in reversed(flows)}.values():
        if not tx.change_all(GUARDS, {"_id": guard_of(each.uuid)}, _GROW):
            tx.insert(FLOWS, [KIND.new(tx, each)])
            tx.insert(GUARDS, [{"_id": guard_of(each.uuid), "n": 1}])


def keep_workflows(tx: Transaction, workflows: Sequence[WorkflowDefinition]) -> None:
    """Those that are there stay as they are."""
    made = [WORKFLOW_KIND.new(tx, each) for each in workflows]
    changes = [({"_id": each.pop("_id")}, {"$setOnInsert": each}) for each in made]
    tx.update(WORKFLOWS, changes, upsert=True)


def save(tx: Transaction, flow: FlowDefinition) -> None:
    tx.write()
    tx.change_all(GUARDS, {"_id": guard_of(flow.uuid)}, _GROW, upsert=True)
    KIND.save(tx, flow, tx.next_number())


def delete(tx: Transaction, flow_id: str) -> bool:
    tx.change_all(GUARDS, {"_id": guard_of(flow_id)}, _GROW)
    run = tx.one(RUNS, {"flow_id": flow_id}, fields={"workflow_id": 1})
    if run is not None:
        raise Conflict(
            f"flow {flow_id} is needed by run {run['workflow_id']}; remove its runs first"
        )
    return remove(tx, flow_id)


def remove(tx: Transaction, flow_id: str) -> bool:
    tx.write()
    tx.remove(GUARDS, {"_id": guard_of(flow_id)})
    tx.remove(WORKFLOWS, {"flow_id": flow_id})
    return tx.remove(FLOWS, {"_id": flow_id}) > 0


def remove_unused(tx: Transaction, flow_id: str) -> None:
    """One without a name that no run needs any more."""
    tx.change_all(GUARDS, {"_id": guard_of(flow_id)}, _GROW)
    is_nameless = tx.one(FLOWS, {"_id": flow_id, "flow_name": ""}, fields={"_id": 1})
    is_needed = tx.one(RUNS, {"flow_id": flow_id}, fields={"_id": 1})
    if is_nameless is not None and is_needed is None:
        remove(tx, flow_id)
