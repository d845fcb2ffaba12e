"""What a state does with a step."""

from __future__ import annotations

from typing import Protocol

from afl.runtime.context import ExecutionContext
from afl.runtime.step import StepDefinition


class StateHandler(Protocol):
    """The work of one state. It changes the step and the context, and nothing else.

    Raises StepFailure or EvaluationError if the step ends in error here.
    """

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        """Whether the step goes on to its next state; False: it waits here to be woken."""
