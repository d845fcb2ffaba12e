"""Runs, flows and workflows, as the port has them."""

from __future__ import annotations

from afl.db.postgres import Reader, Transaction
from afl.runtime.asking.runs import AskedRuns
from afl.runtime.entities import FlowDefinition, RunnerDefinition, WorkflowDefinition
from afl.runtime.persistence import Pruned
from afl.runtime.postgres_store import flows, pruning, runs
from afl.runtime.postgres_store.access import Access
from afl.runtime.postgres_store.flows import FLOWS, WORKFLOWS
from afl.runtime.rows.pruning import in_portions


class RunPort(AskedRuns[Reader, Transaction], Access):
    _runs = runs

    def save_runner(self, runner: RunnerDefinition) -> None:
        self._write(runs.save, runner)

    def update_runner_state(self, runner_id: str, state: str) -> bool:
        return self._write(runs.change_state, runner_id, state)

    def prune_runs(self, keep_ms: int, limit: int = 100) -> Pruned:
        return in_portions(lambda left: self._write(pruning.prune, keep_ms, left), limit)

    # Flows

    def save_flow(self, flow: FlowDefinition) -> None:
        self._write(FLOWS.save, flow)

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        return self._read(FLOWS.one, "WHERE uuid = %s", flow_id)

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        return self._read(FLOWS.one, "WHERE flow_path = %s ORDER BY seq DESC", path)

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        return self._read(FLOWS.one, "WHERE flow_name = %s ORDER BY seq DESC", name)

    def get_all_flows(self) -> list[FlowDefinition]:
        return self._read(FLOWS.all, "ORDER BY seq")

    def delete_flow(self, flow_id: str) -> bool:
        return self._write(flows.delete_flow, flow_id)

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        self._write(WORKFLOWS.save, workflow)

    def get_workflow(self, workflow_id: str) -> WorkflowDefinition | None:
        return self._read(WORKFLOWS.one, "WHERE uuid = %s", workflow_id)

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        return self._read(WORKFLOWS.one, "WHERE name = %s ORDER BY seq DESC", name)

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        return self._read(WORKFLOWS.all, "WHERE flow_id = %s ORDER BY seq", flow_id)

    def get_all_workflows(self, limit: int = 100) -> list[WorkflowDefinition]:
        return self._read(WORKFLOWS.all, "ORDER BY seq DESC LIMIT %s", max(limit, 0))
