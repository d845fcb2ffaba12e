"""What a decision reads, inside the transaction that will write what it decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afl.db.mongo import Document, Transaction
from afl.runtime.entities import FlowDefinition, RunnerDefinition, TaskDefinition
from afl.runtime.mongo_store import flows, runs, steps, tasks
from afl.runtime.mongo_store.holding import Holding
from afl.runtime.persistence import Yielded
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, StepId, WorkflowId


class MongoView:
    """One state of the database. Whatever it gives is noted, and found unchanged when something is
    written. Ends with the decision it was given to.
    """

    __slots__ = ("_at_hand", "_holding", "_tx")

    def __init__(self, tx: Transaction, holding: Holding) -> None:
        self._tx = tx
        self._holding = holding
        #: Steps that came along with something else: each is given once, as a copy is.
        self._at_hand: dict[str, Document] = {}

    def now_ms(self) -> int:
        return self._tx.now

    # Steps

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        known = self._at_hand.pop(step_id, None)
        found = steps.get(self._tx, step_id) if known is None else steps.of(known)
        if found is not None:
            self._holding.see([found.workflow_id])
        return found

    def get_steps(self, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
        found = steps.get_many(self._tx, step_ids)
        self._holding.see(str(each.workflow_id) for each in found.values())
        return found

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]:
        self._see_run_of(StepId(block_id))
        found = steps.by_block(self._tx, block_id)
        self._holding.see(str(each.workflow_id) for each in found)
        return found

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        self._holding.see([workflow_id])
        return steps.by_run(self._tx, workflow_id)

    def get_yielded(self, container_id: StepId) -> list[Yielded]:
        self._see_run_of(container_id)
        return steps.yielded(self._tx, container_id)

    def _see_run_of(self, step_id: StepId) -> None:
        if not self._holding.has_runs:
            self.get_step(step_id)

    # Tasks

    def get_task(self, task_id: str) -> TaskDefinition | None:
        found = tasks.get_with_steps(self._tx, task_id)
        if found is None:
            return None
        return self._noted(*found)

    def _noted(self, task: TaskDefinition, around: Iterable[Document]) -> TaskDefinition:
        self._holding.tasks.add(task.uuid)
        self._at_hand.update((each["_id"], each) for each in around)
        return task

    def get_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
        found = tasks.get_many(self._tx, task_ids)
        self._holding.tasks.update(found)
        return found

    def get_open_tasks(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        self._holding.see([workflow_id])
        found = tasks.open_of_run(self._tx, workflow_id)
        self._holding.tasks.update(each.uuid for each in found)
        return found

    # Runs

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        return self._held_run(runs.held(self._tx, workflow_id))

    def get_run_and_task(
        self, workflow_id: WorkflowId, task_id: str
    ) -> tuple[RunnerDefinition | None, TaskDefinition | None]:
        found = tasks.get_with_run(self._tx, task_id, workflow_id)
        if found is None:
            return self.get_run(workflow_id), None
        self._tx.heard_time(found.time)
        task = self._noted(found.task, found.around)
        if found.run is None:
            return None, task
        self._holding.know(found.run)
        return found.run.run, task

    def get_runs(self, workflow_ids: Sequence[WorkflowId]) -> dict[WorkflowId, RunnerDefinition]:
        found = runs.many_held(self._tx, workflow_ids)
        for each in found:
            self._holding.add(each.run.workflow_id, each.guard)
        return {WorkflowId(each.run.workflow_id): each.run for each in found}

    def get_run_by_key(self, key: str) -> RunnerDefinition | None:
        return self._held_run(runs.held_by_key(self._tx, key))

    def _held_run(self, found: runs.Held | None) -> RunnerDefinition | None:
        if found is None:
            return None
        self._holding.add(found.run.workflow_id, found.guard)
        return found.run

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        return flows.get_kept(self._tx, flow_id)
