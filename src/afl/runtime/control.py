"""What an operator, or a handler that is under way, does to a run. Each is part of one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afl.runtime.arguments import attributes_of
from afl.runtime.claims import ended, holds
from afl.runtime.context import ExecutionContext
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.errors import InvalidStepStateError, StaleFence, StepFailure
from afl.runtime.persistence import task_id_of
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId
from afl.telemetry import RunEnded


def merge_returns(
    context: ExecutionContext, step: StepDefinition, values: Mapping[str, Any]
) -> None:
    """A result, or a part of one, becomes returns of the step."""
    callee = None
    if step.object_type == ObjectType.WORKFLOW:
        callee = context.workflow
    elif not step.is_block:
        callee = context.statement_of(step).callee
    step.attributes.returns |= attributes_of(values, callee.returns if callee is not None else {})
    context.touch(step)


def change_params(
    context: ExecutionContext, step: StepDefinition, values: Mapping[str, Any]
) -> None:
    """Give parameters that the step has other values."""
    for name, each in step.attributes.params.items():
        if name in values:
            step.attributes.set_param(name, values[name], each.type_hint)
    context.touch(step)


def update(
    context: ExecutionContext,
    step_id: StepId,
    values: Mapping[str, Any],
    fence: int | None,
    order: int | None,
) -> bool:
    """Whether the partial result was taken."""
    step = context.require(step_id)
    if fence is not None:
        task = context.task(task_id_of(step_id))
        if not holds(task, fence):
            raise StaleFence(task_id_of(step_id), fence, "somebody else has it, or it is over")
    if step.state != StepState.EVENT_TRANSMIT:
        raise InvalidStepStateError(step_id, step.state, StepState.EVENT_TRANSMIT)
    if order is not None:
        if order <= step.update_order:
            return False
        step.update_order = order
    merge_returns(context, step, values)
    return True


def cancel(context: ExecutionContext) -> bool:
    """End a run now, with everything that is open in it."""
    if context.run.is_over:
        return False
    failure = StepFailure("the run was cancelled", "Cancelled")
    for task in context.view.get_open_tasks(context.workflow_id):
        context.move_task(ended(task, TaskState.CANCELED, context.now, failure.to_dict()))
    for step in context.view.get_steps_by_workflow(context.workflow_id):
        if not step.is_terminal:
            context.adopt([step])
            step.mark_error(failure)
            context.touch(step)
    context.end_run(RunnerState.CANCELLED, failure)
    context.tell(RunEnded, state=RunnerState.CANCELLED.value, error=failure.message)
    return True


def pause(context: ExecutionContext) -> bool:
    if context.run.state != RunnerState.RUNNING:
        return False
    _hold(context, True)
    context.run.state = RunnerState.PAUSED
    context.touch_run()
    return True


def unpause(context: ExecutionContext) -> bool:
    if context.run.state != RunnerState.PAUSED:
        return False
    _hold(context, False)
    context.run.state = RunnerState.RUNNING
    context.touch_run()
    return True


def _hold(context: ExecutionContext, held: bool) -> None:
    """Also tasks that are claimed: if their worker dies, nobody takes them while it is paused."""
    for task in context.view.get_open_tasks(context.workflow_id):
        context.move_task(replace(task, held=held))
