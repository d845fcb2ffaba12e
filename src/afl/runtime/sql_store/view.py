"""What a decision reads, inside the transaction that will write what it decides."""

from __future__ import annotations

from collections.abc import Sequence

from afl.db.sqlite import Reader
from afl.runtime.entities import (
    FlowDefinition,
    RunnerDefinition,
    TaskDefinition,
)
from afl.runtime.persistence import Yielded
from afl.runtime.sql_store import runs, steps, tasks
from afl.runtime.sql_store.flows import FLOWS
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, StepId, WorkflowId


class SqliteView:
    """One consistent state of the database. Ends with the decision it was given to."""

    __slots__ = ("_now", "reader")

    def __init__(self, reader: Reader, now: int) -> None:
        self.reader = reader
        self._now = now

    def now_ms(self) -> int:
        return self._now

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        return steps.get(self.reader, step_id)

    def get_steps(self, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
        return steps.get_many(self.reader, step_ids)

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]:
        return steps.by_block(self.reader, block_id)

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return steps.by_run(self.reader, workflow_id)

    def get_yielded(self, container_id: StepId) -> list[Yielded]:
        return steps.yielded(self.reader, container_id)

    def get_task(self, task_id: str) -> TaskDefinition | None:
        return tasks.get(self.reader, task_id)

    def get_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
        return tasks.get_many(self.reader, task_ids)

    def get_open_tasks(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        return tasks.open_of_run(self.reader, workflow_id)

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        return runs.head(self.reader, workflow_id)

    def get_run_and_task(
        self, workflow_id: WorkflowId, task_id: str
    ) -> tuple[RunnerDefinition | None, TaskDefinition | None]:
        return self.get_run(workflow_id), self.get_task(task_id)

    def get_runs(self, workflow_ids: Sequence[WorkflowId]) -> dict[WorkflowId, RunnerDefinition]:
        return runs.heads(self.reader, workflow_ids)

    def get_run_by_key(self, key: str) -> RunnerDefinition | None:
        return runs.by_key(self.reader, key)

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        return FLOWS.one(self.reader, "WHERE uuid = ?", flow_id)
