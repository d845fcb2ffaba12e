"""Trying a failed step again: the way back up, undoing what failed because of it.

Rare, so simple: where finishing a step counts down, a retry counts again. It may read whole
blocks, from the step up to the root, and nothing beside that way.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from afl.runtime.claims import revived
from afl.runtime.context import ExecutionContext
from afl.runtime.control import drop_parts
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.errors import InvalidRunStateError, InvalidStepStateError
from afl.runtime.handlers.blocks import awaited_by
from afl.runtime.persistence import child_id, task_id_of
from afl.runtime.plan import Kind
from afl.runtime.progress import cause_of
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, ObjectType, StepId


def retry(context: ExecutionContext, step_id: StepId) -> None:
    """Queue the task of a failed step again. Raises InvalidStepStateError, InvalidRunStateError."""
    step = context.require(step_id)
    task = context.task(task_id_of(step_id))
    if not step.is_error or task is None or not task.is_over:
        advice = "try the event step again whose error it has" if step.is_error else ""
        raise InvalidStepStateError(step_id, step.state, "a failed event step", advice)
    if task.state == TaskState.COMPLETED:
        advice = "its event was answered; try the step again that failed behind it"
        raise InvalidStepStateError(step_id, step.state, StepState.STATEMENT_ERROR, advice)
    _require_unhandled(step, context)
    _reset(step, StepState.EVENT_TRANSMIT, context)
    drop_parts(context, step)
    _climb(step, context)
    # The run may have been paused, or may have gone on, since the task ended.
    context.move_task(revived(task, context.now, held=context.is_paused))


def _require_unhandled(step: StepDefinition, context: ExecutionContext) -> None:
    if context.run.state == RunnerState.CANCELLED:
        advice = "a cancelled run stays so; submit it again"
        raise InvalidRunStateError(context.workflow_id, context.run.state, advice)
    if context.run.state == RunnerState.COMPLETED:
        advice = "its error was handled; submit it again"
        raise InvalidRunStateError(context.workflow_id, context.run.state, advice)
    for each in (step, *_ancestors(step, context)):
        if each.caught:
            advice = f"the catch of '{each.name}' has run already; submit the run again"
            raise InvalidStepStateError(step.id, step.state, StepState.STATEMENT_ERROR, advice)


def _ancestors(step: StepDefinition, context: ExecutionContext) -> Iterable[StepDefinition]:
    while (parent := step.block_id or step.container_id) is not None:
        step = context.require(parent)
        yield step


def _climb(step: StepDefinition, context: ExecutionContext) -> None:
    """Bring back everything on the way to the root that ended because of this step."""
    while step.object_type != ObjectType.WORKFLOW:
        block = context.require(step.block_id)
        for each in _revive_dependents(step, context).values():
            _recount_block(each, context)
        _recount_block(block, context)
        if block.block_id is not None:
            _recount_group(context.require(block.block_id), context)
        container = context.require(block.container_id)
        was_over = container.is_error
        _recount_container(container, context)
        if not was_over:
            return
        step = container
    run = context.run
    run.state, run.end_time, run.duration, run.error = RunnerState.RUNNING, 0, 0, None
    context.touch_run()


def _reset(step: StepDefinition, state: str, context: ExecutionContext) -> None:
    step.change_state(state)
    step.transition.error = None
    context.touch(step)


def _revive_dependents(
    step: StepDefinition, context: ExecutionContext
) -> dict[StepId, StepDefinition]:
    """Let statements that were not run wait again; the sibling blocks that this concerns."""
    touched: dict[StepId, StepDefinition] = {}
    container = str(step.container_id)
    pending = [(step, context.statement_of(step))]
    while pending:
        current, statement = pending.pop()
        for plan in statement.dependent_blocks:
            block = context.require(child_id(container, plan.id))
            if plan.kind is not Kind.PLAIN:
                _reset(block, StepState.CREATED, context)
            touched[block.id] = block
        for dependent in statement.dependents:
            is_near = dependent.block is statement.block
            home = (
                StepId(str(current.block_id))
                if is_near
                else child_id(container, dependent.block.id)
            )
            if not is_near:
                touched[home] = context.require(home)
            found = context.step(child_id(home, dependent.id))
            if found is not None and found.is_error:
                _reset(found, StepState.CREATED, context)
                pending.append((found, dependent))
            if found is not None and found.state == StepState.CREATED:
                _recount(found, context)
    return touched


def _recount_block(block: StepDefinition, context: ExecutionContext) -> None:
    """Count again what a block waits for, and open it if it was over."""
    if block.state == StepState.STATEMENT_ERROR:
        _reset(block, StepState.BLOCK_EXECUTION_CONTINUE, context)
    context.adopt(context.view.get_steps_by_block(BlockId(block.id)))
    _recount(block, context)


def _recount_group(group: StepDefinition, context: ExecutionContext) -> None:
    """Count again the rounds or cases that a group waits for; of rounds, not all have begun."""
    stored = context.view.get_steps_by_block(BlockId(group.id))
    context.adopt(stored)
    blocks = sorted((context.require(each.id) for each in stored), key=attrgetter("position"))
    if group.is_error:
        _reset(group, StepState.BLOCK_EXECUTION_CONTINUE, context)
    is_foreach = context.block_of(group).kind is Kind.FOREACH
    _count(group, blocks, group.foreach_value if is_foreach else len(blocks), context)
    group.update_order = next((each.position for each in blocks if each.is_error), 0)


def _recount_container(container: StepDefinition, context: ExecutionContext) -> None:
    if container.is_error:
        _reset(container, StepState.STATEMENT_BLOCKS_CONTINUE, context)
    _recount(container, context)


def _recount(step: StepDefinition, context: ExecutionContext) -> None:
    awaited = [context.step(each) for each in awaited_by(step, context)]
    _count(step, [each for each in awaited if each is not None], len(awaited), context)


def _count(
    step: StepDefinition, begun: list[StepDefinition], total: int, context: ExecutionContext
) -> None:
    """Those that have begun, in the order of the text: the error of the first one counts."""
    failed = [each for each in begun if each.is_error]
    step.pending = total - sum(each.is_terminal for each in begun)
    step.failed = len(failed)
    step.transition.error = cause_of(failed[0]) if failed else None
    context.touch(step)
