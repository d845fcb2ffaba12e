"""What can go wrong with runs, steps and claims. Families as in `afl.errors`: by who must act.

Errors *of* a run (a handler that raised, a division by zero) are no exceptions here: they are
recorded on the step as a `StepFailure`, and climb.
"""

from __future__ import annotations

from typing import Any

from afl.error_text import kind_of, storable, text_of
from afl.errors import AflError, Conflict, NotFound, UsageError


class StepFailure(AflError):  # noqa: N818 - what happened is what callers read
    """Why a step ended in error: kept with the step, and with all that fail because of it. So its
    text is made such that it can be kept."""

    def __init__(
        self, message: str, error_type: str = "Error", place: dict[str, Any] | None = None
    ) -> None:
        self.message = _storable(message)
        super().__init__(self.message)
        #: The kind: the class of a handler's exception, `EvaluationError`, `AssertionError`, …
        self.error_type = _storable(error_type)
        #: `step`, and `line`, `column` and `source` of the statement, as far as known; `raised_at`,
        #: file, line and function of a handler.
        self.place = {key: _storable(each) for key, each in (place or {}).items()}

    def to_dict(self) -> dict[str, Any]:
        return {"message": self.message, "type": self.error_type, **self.place}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StepFailure:
        place = {key: each for key, each in data.items() if key not in ("message", "type")}
        return cls(data.get("message", ""), data.get("type", "Error"), place)

    @classmethod
    def of(cls, error: BaseException | str, place: dict[str, Any] | None = None) -> StepFailure:
        """What a raised error, or a plain message, says about a step."""
        if isinstance(error, StepFailure):
            return cls(error.message, error.error_type, {**error.place, **(place or {})})
        if isinstance(error, str):
            return cls(error, "Error", place)
        return cls(text_of(error), kind_of(error), place)


def _storable(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


class StepNotFoundError(NotFound, ValueError):
    """No step has this id."""

    def __init__(self, step_id: str) -> None:
        self.step_id = step_id
        super().__init__(f"Step {step_id} not found; check the id, and that it is the right store")


class RunNotFoundError(NotFound, ValueError):
    """No run has this id."""

    def __init__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"Run {workflow_id} not found; check the id, and that it is the right store"
        )


class TaskNotFoundError(NotFound, ValueError):
    """No task has this id."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"Task {task_id} not found; check the id, and that it is the right store")


class InvalidStepStateError(UsageError, ValueError):
    """The step is not where this can be done with it."""

    def __init__(self, step_id: str, state: str, expected: str, advice: str = "") -> None:
        self.step_id = step_id
        self.state = state
        self.expected = expected
        super().__init__(
            f"Step {step_id} is at {state}, expected {expected}" + (f"; {advice}" if advice else "")
        )


class InvalidRunStateError(UsageError, ValueError):
    """The run is not where this can be done with it."""

    def __init__(self, workflow_id: str, state: str, advice: str) -> None:
        self.workflow_id = workflow_id
        self.state = state
        super().__init__(f"Run {workflow_id} is {state}; {advice}")


class InvalidTaskStateError(UsageError, ValueError):
    """The task is not where this can be done with it."""

    def __init__(self, task_id: str, state: str, advice: str) -> None:
        self.task_id = task_id
        self.state = state
        super().__init__(f"Task {task_id} is {state}; {advice}")


class StaleFence(Conflict):
    """The claim was lost: somebody else has the task now, or it is over. Drop the result."""

    def __init__(self, task_id: str, fence: int, found: str) -> None:
        self.task_id = task_id
        self.fence = fence
        super().__init__(
            f"task {task_id}: the claim with fence {fence} is no longer good ({found}); its "
            "result is refused"
        )
