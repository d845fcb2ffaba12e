"""Flows and their workflows."""

from __future__ import annotations

from afl.db.sqlite import Transaction
from afl.errors import Conflict
from afl.runtime.entities import FlowDefinition, WorkflowDefinition
from afl.runtime.rows.table import Table

FLOWS = Table("flow", FlowDefinition, extra={"flow_name": "name.name", "flow_path": "name.path"})
WORKFLOWS = Table("workflow", WorkflowDefinition)


def delete_flow(tx: Transaction, flow_id: str) -> bool:
    run = tx.query_one("SELECT workflow_id FROM run WHERE flow_id = ? LIMIT 1", (flow_id,))
    if run is not None:
        raise Conflict(f"flow {flow_id} is needed by run {run[0]}; remove its runs first")
    tx.execute("DELETE FROM workflow WHERE flow_id = ?", (flow_id,))
    return tx.execute("DELETE FROM flow WHERE uuid = ?", (flow_id,)) > 0
