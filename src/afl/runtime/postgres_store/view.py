"""What a decision reads, inside the transaction that will write what it decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from afl.db.postgres import Transaction
from afl.runtime.entities import FlowDefinition, RunnerDefinition, TaskDefinition
from afl.runtime.persistence import Yielded
from afl.runtime.postgres_store import flows, runs, steps, tasks
from afl.runtime.postgres_store.holding import Holding
from afl.runtime.postgres_store.tasks import TASKS
from afl.runtime.rows.steps import step_of
from afl.runtime.rows.table import Row
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, StepId, WorkflowId

T = TypeVar("T")


class PostgresView:
    """What it gives stays as it is until the decision is committed: it is locked, or its run is.

    Ends with the decision it was given to.
    """

    __slots__ = ("_at_hand", "_holding", "_now", "_tx")

    def __init__(self, tx: Transaction, holding: Holding) -> None:
        self._tx = tx
        self._holding = holding
        #: Steps that came along with their task: each is given once, as a copy is.
        self._at_hand: dict[StepId, StepDefinition] = {}
        #: The time after the last lock that may be compared with it.
        self._now: int | None = None

    def now_ms(self) -> int:
        return self._tx.now if self._now is None else self._now

    # Steps: safe to read while their run is locked, which most decisions see to first of all

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        return self.get_steps([step_id]).get(step_id)

    def get_steps(self, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
        found = {each: self._at_hand.pop(each) for each in step_ids if each in self._at_hand}
        missing = [each for each in step_ids if each not in found]
        if missing:
            read = self._settled(lambda: steps.get_many(self._tx, missing), dict.values)
            found.update(read)
        return found

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]:
        return self._settled(lambda: steps.by_block(self._tx, block_id), iter)

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        self._holding.hold([workflow_id])
        return steps.by_run(self._tx, workflow_id)

    def get_yielded(self, container_id: StepId) -> list[Yielded]:
        if not self._holding:
            self.get_step(container_id)
        return steps.yielded(self._tx, container_id)

    def _settled(self, read: Callable[[], T], each: Callable[[T], Iterable[StepDefinition]]) -> T:
        """Read again as long as there are steps of runs that were not locked before the reading."""
        found = read()
        while self._holding.hold(str(step.workflow_id) for step in each(found)):
            found = read()
        return found

    # Tasks

    def get_task(self, task_id: str) -> TaskDefinition | None:
        held, around, ((now,),) = self._tx.query_together(
            (tasks.ONE_LOCKED, (task_id,)), _around([task_id]), self._tx.clock
        )
        # Somebody may have claimed it while we waited: to the time at our beginning, such a lease
        # looks as if the clock had been set back.
        self._now = int(now)
        self._keep_at_hand(around)
        return tasks.first_of(held)

    def _keep_at_hand(self, around: Iterable[Row]) -> None:
        # Only of runs that were locked before: others may have changed since.
        self._at_hand.update(
            (each.id, each)
            for each in map(step_of, around)
            if str(each.workflow_id) in self._holding
        )

    def get_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
        held, around = self._tx.query_together(
            (tasks.MANY_LOCKED, (list(task_ids),)), _around(task_ids)
        )
        self._keep_at_hand(around)
        return {each.uuid: each for each in map(TASKS.record, held)}

    def get_open_tasks(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        self._holding.hold([workflow_id])
        return tasks.open_of_run_locked(self._tx, workflow_id)

    # Runs

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        run = runs.head_locked(self._tx, workflow_id)
        if run is not None:
            self._holding.add([workflow_id])
        return run

    def get_run_and_task(
        self, workflow_id: WorkflowId, task_id: str
    ) -> tuple[RunnerDefinition | None, TaskDefinition | None]:
        # In this order, and each sees what was committed before it: nothing of a run changes once
        # its row is locked.
        found, held, around = self._tx.query_together(
            (runs.HEAD_LOCKED, (workflow_id,)),
            (tasks.ONE_LOCKED, (task_id,)),
            _around([task_id]),
        )
        if found:
            self._holding.add([workflow_id])
        self._keep_at_hand(around)
        return runs.first_of(found), tasks.first_of(held)

    def get_runs(self, workflow_ids: Sequence[WorkflowId]) -> dict[WorkflowId, RunnerDefinition]:
        found = runs.heads_locked(self._tx, workflow_ids)
        self._holding.add(found)
        return found

    def get_run_by_key(self, key: str) -> RunnerDefinition | None:
        run = runs.by_key_locked(self._tx, key)
        if run is not None:
            self._holding.add([run.workflow_id])
        return run

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        return flows.get_kept(self._tx, flow_id)


def _around(task_ids: Sequence[str]) -> tuple[str, dict[str, Any]]:
    return steps.OF_TASKS, {"ids": list(task_ids)}
