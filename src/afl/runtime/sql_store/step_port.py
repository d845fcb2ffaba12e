"""Steps and events, as the port has them."""

from __future__ import annotations

from afl.db.sqlite import Transaction
from afl.runtime.entities import EventDefinition
from afl.runtime.sql_store import events, runs, steps
from afl.runtime.sql_store.access import Access
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId


class StepPort(Access):
    def get_step(self, step_id: StepId) -> StepDefinition | None:
        return self._read(steps.get, step_id)

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]:
        return self._read(steps.by_block, block_id)

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._read(steps.by_run, workflow_id)

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        return self._read(steps.by_state, state)

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        return self._read(steps.by_container, container_id)

    def get_blocks_by_step(self, step_id: StepId) -> list[StepDefinition]:
        return self._read(steps.blocks, step_id)

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        return self._read(steps.root, workflow_id)

    def step_exists(self, statement_id: StatementId, block_id: BlockId | None) -> bool:
        return self._read(steps.exists, statement_id, block_id)

    def save_step(self, step: StepDefinition) -> None:
        step.sequence = self._write(_save_step, step)

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        return self._read(events.get, event_id)

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        return self._read(events.of_run, workflow_id)

    def get_all_events(self) -> list[EventDefinition]:
        return self._read(events.everything)

    def save_event(self, event: EventDefinition) -> None:
        self._write(events.save, event)


def _save_step(tx: Transaction, step: StepDefinition) -> int:
    runs.announce(tx, (step.workflow_id,))
    return steps.save(tx, step)
