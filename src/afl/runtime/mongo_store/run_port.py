"""Runs, flows and workflows, as the port has them."""

from __future__ import annotations

from functools import partial

from afl.db.mongo import Document, Reader, Transaction
from afl.runtime.asking.runs import AskedRuns
from afl.runtime.entities import FlowDefinition, RunnerDefinition, WorkflowDefinition
from afl.runtime.mongo_store import flows, pruning, runs
from afl.runtime.mongo_store.access import Access
from afl.runtime.mongo_store.documents import NEWEST_FIRST
from afl.runtime.mongo_store.flows import WORKFLOW_KIND
from afl.runtime.mongo_store.holding import Holding
from afl.runtime.persistence import Pruned
from afl.runtime.rows.pruning import pause


class RunPort(AskedRuns[Reader, Transaction], Access):
    _runs = runs

    def save_runner(self, runner: RunnerDefinition) -> None:
        self._write(_save_run, runner)

    def update_runner_state(self, runner_id: str, state: str) -> bool:
        return self._write(runs.change_state, runner_id, state)

    def prune_runs(self, keep_ms: int, limit: int = 100) -> Pruned:
        noted = self._read(pruning.noted, limit)
        found = self._read(pruning.outlived, keep_ms, limit - len(noted), self._now)
        return pruning.each_apart(self._prune_run, [*noted, *found])

    def _prune_run(self, run: Document) -> Pruned:
        piece = self._write(pruning.begin, run)
        if piece is None:
            return Pruned(0, 0, 0)
        pieces = [piece]
        while not pieces[-1].is_last:
            pause()
            pieces.append(self._read(pruning.remove_some, run))
        if len(pieces) > 1:
            self._write(pruning.end, run)
        return Pruned(1, sum(each.steps for each in pieces), sum(each.tasks for each in pieces))

    # Flows

    def save_flow(self, flow: FlowDefinition) -> None:
        self._write(flows.save, flow)

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        return self._read(flows.KIND.one, {"_id": flow_id})

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        return self._read(partial(flows.KIND.one, where={"flow_path": path}, sort=NEWEST_FIRST))

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        return self._read(partial(flows.KIND.one, where={"flow_name": name}, sort=NEWEST_FIRST))

    def get_all_flows(self) -> list[FlowDefinition]:
        return self._read(flows.KIND.all, {})

    def delete_flow(self, flow_id: str) -> bool:
        return self._write(flows.delete, flow_id)

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        self._save(WORKFLOW_KIND, workflow)

    def get_workflow(self, workflow_id: str) -> WorkflowDefinition | None:
        return self._read(WORKFLOW_KIND.one, {"_id": workflow_id})

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        return self._read(partial(WORKFLOW_KIND.one, where={"name": name}, sort=NEWEST_FIRST))

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        return self._read(WORKFLOW_KIND.all, {"flow_id": flow_id})

    def get_all_workflows(self, limit: int = 100) -> list[WorkflowDefinition]:
        return self._read(partial(WORKFLOW_KIND.some_of, where={}, limit=limit, sort=NEWEST_FIRST))


def _save_run(tx: Transaction, run: RunnerDefinition) -> None:
    # Its steps may be there already, and somebody may just decide about them.
    holding = Holding(tx)
    holding.hold([run.workflow_id])
    runs.save(tx, run, holding.guard_of(run.workflow_id))
