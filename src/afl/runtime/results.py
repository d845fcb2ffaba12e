"""Where a run stands, as `execute` and `resume` tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, overload

from afl.runtime.entities import EventDefinition, RunnerDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import EventState
from afl.runtime.types import StepId, WorkflowId


class ExecutionStatus(StrEnum):
    COMPLETED = "COMPLETED"
    #: It waits: for events, for a retry, or because an operator paused it.
    PAUSED = "PAUSED"
    #: It failed or was cancelled.
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"


@dataclass
class ExecutionResult:
    #: Not in error.
    success: bool
    workflow_id: WorkflowId
    outputs: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    #: Kept for callers that read it: a decision runs until nothing is left to do.
    iterations: int = 1
    status: str = ExecutionStatus.COMPLETED
    #: What it waits for; read from the store when it is looked at.
    pending_events: Sequence[EventDefinition] = ()


_STATUS = {
    RunnerState.COMPLETED: ExecutionStatus.COMPLETED,
    RunnerState.FAILED: ExecutionStatus.ERROR,
    RunnerState.CANCELLED: ExecutionStatus.ERROR,
}


def result_of(run: RunnerDefinition, store: PersistenceAPI) -> ExecutionResult:
    run_id = WorkflowId(run.workflow_id)
    status = _STATUS.get(RunnerState(run.state), ExecutionStatus.PAUSED)
    result = ExecutionResult(status != ExecutionStatus.ERROR, run_id, status=status)
    if status is ExecutionStatus.COMPLETED:
        root = store.get_step(StepId(str(run.step_id)))
        if root is not None:
            result.outputs = {name: each.value for name, each in root.attributes.returns.items()}
    elif status is ExecutionStatus.ERROR:
        result.error = StepFailure.from_dict(run.error or {"message": f"the run is {run.state}"})
    else:
        result.pending_events = _PendingEvents(store, run_id)
    return result


class _PendingEvents(Sequence[EventDefinition]):
    """Events of a run that are not over. Read when first looked at: few callers do."""

    def __init__(self, store: PersistenceAPI, workflow_id: WorkflowId) -> None:
        self._store = store
        self._workflow_id = workflow_id
        self._found: list[EventDefinition] | None = None

    def _events(self) -> list[EventDefinition]:
        if self._found is None:
            over = (EventState.COMPLETED, EventState.ERROR)
            found = self._store.get_events_by_workflow(self._workflow_id)
            self._found = [each for each in found if each.state not in over]
        return self._found

    @overload
    def __getitem__(self, index: int) -> EventDefinition: ...
    @overload
    def __getitem__(self, index: slice) -> list[EventDefinition]: ...
    def __getitem__(self, index: int | slice) -> EventDefinition | list[EventDefinition]:
        return self._events()[index]

    def __len__(self) -> int:
        return len(self._events())
