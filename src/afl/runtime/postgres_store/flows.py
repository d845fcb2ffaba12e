"""Flows and their workflows. A flow that a run needs cannot be removed while the run is made."""

from __future__ import annotations

from collections.abc import Sequence

from afl.db.postgres import Transaction
from afl.errors import Conflict, StoreUnavailable
from afl.runtime.entities import FlowDefinition, WorkflowDefinition
from afl.runtime.rows.table import PERCENT, Table

FLOWS = Table(
    "afl_flow",
    FlowDefinition,
    extra={"flow_name": "name.name", "flow_path": "name.path"},
    mark=PERCENT,
)
WORKFLOWS = Table("afl_workflow", WorkflowDefinition, mark=PERCENT)

#: Nobody removes it, and nobody else who needs it has to wait.
_KEPT = "FOR KEY SHARE"
_KEEP = f"SELECT uuid FROM afl_flow WHERE uuid = ANY (%s::text[]) ORDER BY uuid {_KEPT}"  # noqa: S608
#: Who removes it waits for those who need it, and only then looks for their runs.
LOCK = "SELECT uuid FROM afl_flow WHERE uuid = ANY (%s::text[]) ORDER BY uuid FOR UPDATE"


def get_kept(tx: Transaction, flow_id: str) -> FlowDefinition | None:
    return FLOWS.one(tx, f"WHERE uuid = %s {_KEPT}", flow_id)


def keep(tx: Transaction, flows: Sequence[FlowDefinition]) -> None:
    """Have these there, as they are or as they are given, until the end of the transaction."""
    wanted = sorted({each.uuid for each in flows})
    rows = {each.uuid: FLOWS.row(each) for each in reversed(flows)}
    for _ in range(3):
        found = {row[0] for row in tx.query_all(_KEEP, (wanted,))}
        missing = [rows[each] for each in wanted if each not in found]
        if not missing:
            return
        # Others may add or remove the same one between two looks.
        tx.put(FLOWS.insert_new, missing)
        tx.flush()
    raise StoreUnavailable("somebody removes the program as often as it is added; try again")


def delete_flow(tx: Transaction, flow_id: str) -> bool:
    tx.query_all(LOCK, ([flow_id],))
    run = tx.query_one("SELECT workflow_id FROM afl_run WHERE flow_id = %s LIMIT 1", (flow_id,))
    if run is not None:
        raise Conflict(f"flow {flow_id} is needed by run {run[0]}; remove its runs first")
    tx.execute("DELETE FROM afl_workflow WHERE flow_id = %s", (flow_id,))
    return tx.execute("DELETE FROM afl_flow WHERE uuid = %s", (flow_id,)) > 0
