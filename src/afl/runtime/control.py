"""What an operator, or a handler that is under way, does to a run. Each is part of one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afl.ids import new_id
from afl.lang.names import Declared
from afl.runtime.arguments import attributes_of
from afl.runtime.claims import discarded, ended, holds
from afl.runtime.context import ExecutionContext
from afl.runtime.entities import LogDefinition, NoteType, RunnerState, TaskState
from afl.runtime.errors import (
    InvalidStepStateError,
    StaleFence,
    StepFailure,
    TaskNotFoundError,
)
from afl.runtime.handlers.blocks import bodies_of
from afl.runtime.handlers.scripts import script_of
from afl.runtime.persistence import task_id_of
from afl.runtime.progress import fail
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId
from afl.telemetry import ResultUndeclared, TaskDiscarded


def merge_returns(
    context: ExecutionContext, step: StepDefinition, values: Mapping[str, Any]
) -> None:
    """A result, or a part of one, becomes returns of the step."""
    callee = _callee(context, step)
    step.attributes.returns |= attributes_of(values, callee.returns if callee is not None else {})
    context.touch(step)


def check_returns(context: ExecutionContext, step: StepDefinition) -> None:
    """Warn in the log of the run if a result is not what the event facet declares."""
    callee, given = _callee(context, step), step.attributes.returns.keys()
    if callee is None or not callee.is_event or given == callee.returns.keys():
        return
    bodies = bodies_of(step, context)
    # Blocks behind the event may still yield what is missing.
    is_all = bodies is None or not bodies.blocks
    missing = [each for each in callee.returns if is_all and each not in given]
    undeclared = [each for each in given if each not in callee.returns]
    if step.state != StepState.EVENT_TRANSMIT or not (missing or undeclared):
        return
    context.add_log(_mismatch(context, step, callee, missing, undeclared))
    context.tell(
        ResultUndeclared,
        step=step.id,
        facet=callee.qualified,
        missing=", ".join(missing),
        undeclared=", ".join(undeclared),
    )


def _callee(context: ExecutionContext, step: StepDefinition) -> Declared | None:
    if step.object_type == ObjectType.WORKFLOW:
        return context.workflow
    return None if step.is_block else context.statement_of(step).callee


def _mismatch(
    context: ExecutionContext,
    step: StepDefinition,
    callee: Declared,
    missing: list[str],
    undeclared: list[str],
) -> LogDefinition:
    found = [f"'{each}' is missing" for each in missing]
    found += [f"'{each}' is not declared" for each in undeclared]
    place = context.statement_of(step).place
    return LogDefinition(
        uuid=new_id(),
        order=0,
        runner_id=context.run.uuid,
        step_id=step.id,
        object_id=step.id,
        object_type=step.object_type,
        note_type=NoteType.WARNING,
        message=f"result of {callee.qualified}: {', '.join(found)}",
        state=step.state,
        line=place.get("line", 0),
        file=place.get("source", ""),
        details={"missing": missing, "undeclared": undeclared},
        time=context.now,
    )


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
    if step.foreach_value is None and script_of(step, context) is not None:
        # What the script in front has left is there again when the attempt has failed.
        step.foreach_value = {name: each.value for name, each in step.attributes.returns.items()}
    merge_returns(context, step, values)
    return True


def drop_parts(context: ExecutionContext, step: StepDefinition) -> None:
    """An attempt has failed: parts of its result are none, and those of the next begin anew."""
    if step.state != StepState.EVENT_TRANSMIT:
        return
    has_none = step.foreach_value is None and script_of(step, context) is not None
    if not has_none and (step.attributes.returns or step.update_order):
        step.attributes.returns, step.update_order = {}, 0
        merge_returns(context, step, step.foreach_value or {})


def discard(context: ExecutionContext, task_id: str, reason: str) -> bool:
    """Give a task up; the step that waits for it fails. False if it was given up, or had ended."""
    task = context.task(task_id)
    if task is None:
        raise TaskNotFoundError(task_id)
    # Of now, not of the beginning: the task may have been claimed since.
    given_up = discarded(task, context.view.now_ms(), reason)
    if given_up is None:
        return False
    context.move_task(given_up)
    context.tell(TaskDiscarded, step=task.step_id, facet=task.name, reason=reason)
    step = context.step(StepId(task.step_id))
    if not task.is_over and step is not None and not step.is_terminal:
        drop_parts(context, step)
        fail(step, StepFailure(reason, "Discarded"), context)
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
