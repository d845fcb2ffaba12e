"""Runs, flows and workflows, as the port has them."""

from __future__ import annotations

import math
import threading

from afl.db.postgres import Reader
from afl.runtime.entities import FlowDefinition, RunnerDefinition, WorkflowDefinition
from afl.runtime.persistence import Pruned
from afl.runtime.postgres_store import flows, pruning, runs
from afl.runtime.postgres_store.access import Access
from afl.runtime.postgres_store.flows import FLOWS, WORKFLOWS
from afl.runtime.rows.pruning import in_portions
from afl.runtime.types import WorkflowId


class RunPort(Access):
    def save_runner(self, runner: RunnerDefinition) -> None:
        self._write(runs.save, runner)

    def get_runner(self, runner_id: str) -> RunnerDefinition | None:
        return self._read(runs.get_record, runner_id)

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        return self._read(runs.get, workflow_id)

    def get_run_by_key(self, key: str) -> RunnerDefinition | None:
        return self._read(runs.by_key, key)

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        return self._read(runs.by_run, workflow_id)

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        return self._read(runs.by_state, state)

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        return self._read(runs.newest, limit)

    def update_runner_state(self, runner_id: str, state: str) -> bool:
        return self._write(runs.change_state, runner_id, state)

    def wait_for_run(
        self,
        workflow_id: WorkflowId,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        def seconds_left(reader: Reader) -> float:
            return 0 if runs.is_over(reader, workflow_id) else math.inf

        return self._wait(runs.run_topic(workflow_id), seconds_left, timeout, stop)

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
