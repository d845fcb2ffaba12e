"""Steps and events."""

from __future__ import annotations

from typing import Protocol

from afl.runtime.asking.access import R, R_contra, Storing, W, W_contra
from afl.runtime.entities import EventDefinition
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId


class Steps(Protocol[R_contra, W_contra]):
    def get(self, reader: R_contra, step_id: StepId, /) -> StepDefinition | None: ...

    def by_block(self, reader: R_contra, block_id: BlockId, /) -> list[StepDefinition]: ...

    def by_run(self, reader: R_contra, workflow_id: WorkflowId, /) -> list[StepDefinition]: ...

    def by_state(self, reader: R_contra, state: str, /) -> list[StepDefinition]: ...

    def by_container(self, reader: R_contra, container_id: StepId, /) -> list[StepDefinition]: ...

    def blocks(self, reader: R_contra, container_id: StepId, /) -> list[StepDefinition]: ...

    def root(self, reader: R_contra, workflow_id: WorkflowId, /) -> StepDefinition | None: ...

    def exists(
        self, reader: R_contra, statement_id: StatementId, block_id: BlockId | None, /
    ) -> bool: ...

    def save(self, tx: W_contra, step: StepDefinition, /) -> int:
        """Insert or replace, and announce it; the sequence that is stored now."""


class Events(Protocol[R_contra, W_contra]):
    def get(self, reader: R_contra, event_id: EventId, /) -> EventDefinition | None: ...

    def of_run(self, reader: R_contra, workflow_id: WorkflowId, /) -> list[EventDefinition]: ...

    def everything(self, reader: R_contra, /) -> list[EventDefinition]: ...

    def save(self, tx: W_contra, event: EventDefinition, /) -> None: ...


class AskedSteps(Storing[R, W]):
    _steps: Steps[R, W]
    _events: Events[R, W]

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        return self._read(self._steps.get, step_id)

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]:
        return self._read(self._steps.by_block, block_id)

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._read(self._steps.by_run, workflow_id)

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        return self._read(self._steps.by_state, state)

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        return self._read(self._steps.by_container, container_id)

    def get_blocks_by_step(self, step_id: StepId) -> list[StepDefinition]:
        return self._read(self._steps.blocks, step_id)

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        return self._read(self._steps.root, workflow_id)

    def step_exists(self, statement_id: StatementId, block_id: BlockId | None) -> bool:
        return self._read(self._steps.exists, statement_id, block_id)

    def save_step(self, step: StepDefinition) -> None:
        step.sequence = self._write(self._steps.save, step)

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        return self._read(self._events.get, event_id)

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        return self._read(self._events.of_run, workflow_id)

    def get_all_events(self) -> list[EventDefinition]:
        return self._read(self._events.everything)

    def save_event(self, event: EventDefinition) -> None:
        self._write(self._events.save, event)
