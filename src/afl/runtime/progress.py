"""Progress: how steps walk through their states, and how the end of one moves others.

Driven by what changed. A step that goes on is put on the agenda of the context; whatever ends
counts down those that wait for it, and the last count puts them on the agenda. So one decision
does everything that follows from a change, and touches nothing else.

Errors climb: a block ends in error when all that it waited for is over and something of it failed;
then its container does, unless a `catch` stops it; then the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from afl.errors import AflError, StoreError
from afl.lang.expressions import EvaluationError
from afl.log import get_logger
from afl.runtime.context import ExecutionContext
from afl.runtime.entities import RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.handlers import HANDLERS
from afl.runtime.handlers.blocks import (
    awaited_by,
    begin_block,
    bodies_of,
    catches_of,
    spawn_rounds,
)
from afl.runtime.handlers.initialization import is_event
from afl.runtime.handlers.scripts import script_of
from afl.runtime.persistence import child_id
from afl.runtime.plan import Kind, Statement
from afl.runtime.states import BLOCK_TRANSITIONS, StepState, select_transitions
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType
from afl.telemetry import StepEnded

_log = get_logger(__name__)


def _stages(transitions: Mapping[str, str], without: Collection[str] = ()) -> dict[str, str]:
    """For each state the next one that has work, or the last: the others are passed at once."""
    stages: dict[str, str] = {}
    for state, following in transitions.items():
        while following in transitions and (following not in HANDLERS or following in without):
            following = transitions[following]
        stages[state] = following
    return stages


_BLOCK_STAGES = _stages(BLOCK_TRANSITIONS)
_SCRIPT = (StepState.FACET_SCRIPTS_BEGIN,)
_EVENT = (StepState.EVENT_TRANSMIT,)
_BODY = (
    StepState.STATEMENT_BLOCKS_BEGIN,
    StepState.STATEMENT_BLOCKS_CONTINUE,
    StepState.STATEMENT_CAPTURE_BEGIN,
)


def _stages_of(step: StepDefinition, context: ExecutionContext) -> Mapping[str, str]:
    """Where a step has work. Known from the text, so it is found out once for each statement:
    most have no script and no body, and need not be asked for them at every step."""
    if step.is_block:
        return _BLOCK_STAGES
    key = context.text_of(step)
    found = context.plan.stages.get(key)
    if found is None:
        found = _stages(select_transitions(step.object_type), _idle_states(step, context))
        context.plan.stages[key] = found
    return found


def _idle_states(step: StepDefinition, context: ExecutionContext) -> list[str]:
    idle: list[str] = []
    if script_of(step, context) is None:
        idle += _SCRIPT
    if not is_event(step, context):
        idle += _EVENT
    bodies = bodies_of(step, context)
    if not (bodies is not None and bodies.blocks) and not catches_of(step, context):
        idle += _BODY
    return idle


def run_agenda(context: ExecutionContext) -> None:
    """Let everything go on that can, until nothing is left."""
    while (step := context.next_scheduled()) is not None:
        if not step.is_terminal:
            _advance(step, context)


def _advance(step: StepDefinition, context: ExecutionContext) -> None:
    """Walk on until the step waits or ends."""
    context.touch(step)
    if step.failed:
        _fail_because_of_others(step, context)
        return
    stages = _stages_of(step, context)
    while (following := stages.get(step.state)) is not None:
        step.change_state(following)
        handler = HANDLERS.get(following)
        if handler is None:
            break  # the end of the chain
        try:
            goes_on = handler.process(step, context)
        except (EvaluationError, StepFailure) as error:
            fail(step, error, context)
            return
        except StoreError:
            raise
        except _UNFORESEEN as error:
            fail(step, _unforeseen(step, error), context)
            return
        if not goes_on:
            step.request_state_change(False)
            return
    step.request_state_change(False)
    _ended(step, None, context)


#: What computing a step may raise where nobody thought of it. It ends this step, and not the
#: decision: that would blame whoever brought the result which led here. What drivers of stores
#: raise is not among them.
_UNFORESEEN = (
    AflError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def _unforeseen(step: StepDefinition, error: Exception) -> StepFailure:
    if isinstance(error, RecursionError):
        return StepFailure("Value is nested too deep to compute with", "EvaluationError")
    _log.error(
        "step_failed_unforeseen",
        run=step.workflow_id,
        step=step.id,
        step_name=step.name,
        state=step.state,
        exc_info=error,
    )
    return StepFailure(
        f"internal error: {type(error).__name__}: {error}; the log of the process has more",
        "EvaluationError",
    )


def answer(step: StepDefinition, context: ExecutionContext) -> None:
    """What the step waited for outside has come: it goes on."""
    if step.is_block:
        _count_down(step, None, context)
    else:
        context.schedule(step)


# Errors


def fail(step: StepDefinition, error: Exception | str, context: ExecutionContext) -> None:
    """The step meets an error: its next `catch` runs, or it ends."""
    failure = _failure(step, error, context)
    context.touch(step)
    catches = [] if step.is_block or _is_yield(step) else catches_of(step, context)
    if step.caught < len(catches):
        plan = catches[step.caught]
        step.caught += 1
        step.transition.set_error(failure)
        step.change_state(StepState.STATEMENT_BLOCKS_CONTINUE)
        step.pending, step.failed = 1, 0
        begin_block(context.new_block(step, plan), plan, context)
    else:
        _end_in_error(step, failure, context)


def _fail_because_of_others(step: StepDefinition, context: ExecutionContext) -> None:
    failure = _first_failure(step, context)
    if step.state == StepState.CREATED and not step.is_block:
        # It never began, so there is nothing that its `catch` could be about.
        step.mark_error(StepFailure.of(failure, {"not_run": step.name}))
        _ended(step, failure, context)
    else:
        fail(step, failure, context)


def _first_failure(step: StepDefinition, context: ExecutionContext) -> StepFailure:
    """The failure that counts: the first in the text, whichever came first in time."""
    noted = cause_of(step)
    if step.failed == 1 or _is_group_at_work(step, context):
        return noted
    awaited = awaited_by(step, context)
    context.prefetch(awaited)
    found = (context.step(each) for each in awaited)
    return next((cause_of(each) for each in found if each is not None and each.is_error), noted)


def _is_group_at_work(step: StepDefinition, context: ExecutionContext) -> bool:
    """Whether it waits for rounds or cases: it has noted the first one, and there may be very
    many."""
    if not step.is_block or step.state == StepState.CREATED:
        return False
    return context.block_of(step).kind is not Kind.PLAIN


def cause_of(step: StepDefinition) -> StepFailure:
    """The error of a step as it climbs: that it was not run concerns nobody else."""
    known = StepFailure.of(step.transition.error or "failed")
    known.place.pop("not_run", None)
    return known


def _end_in_error(step: StepDefinition, failure: StepFailure, context: ExecutionContext) -> None:
    step.mark_error(failure)
    _ended(step, failure, context)


def _failure(
    step: StepDefinition, error: Exception | str, context: ExecutionContext
) -> StepFailure:
    """The error with its place in the text, unless it brings one along."""
    if isinstance(error, StepFailure) and "step" in error.place:
        return error
    place = {} if step.is_block or not _has_statement(step) else context.statement_of(step).place
    if isinstance(error, EvaluationError):
        if error.location is not None:
            place |= {"line": error.location.line, "column": error.location.column}
        return StepFailure(error.message, "EvaluationError", place)
    return StepFailure.of(error, place)


def _has_statement(step: StepDefinition) -> bool:
    return step.object_type != ObjectType.WORKFLOW


def _is_yield(step: StepDefinition) -> bool:
    return step.object_type == ObjectType.YIELD_ASSIGNMENT


# Who waits for a step that has ended


def _ended(step: StepDefinition, failure: StepFailure | None, context: ExecutionContext) -> None:
    """A step that was touched before has ended."""
    if step.object_type == ObjectType.WORKFLOW:
        _end_run(failure, context)
    elif step.is_block:
        _tell_parent(step, failure, context)
    else:
        if not _is_yield(step):
            _tell_outside(step, failure, context)
            _tell_dependents(step, failure, context)
        _count_down(context.require(step.block_id), failure, context)


def _tell_outside(
    step: StepDefinition, failure: StepFailure | None, context: ExecutionContext
) -> None:
    context.tell(
        StepEnded,
        step=step.id,
        step_name=step.name,
        facet=step.facet_name,
        error=failure.message if failure else None,
        within=step.container_id,
        duration_s=(context.now - (step.timestamp or context.now)) / 1000,
    )


def _end_run(failure: StepFailure | None, context: ExecutionContext) -> None:
    state = RunnerState.COMPLETED if failure is None else RunnerState.FAILED
    context.end_run(state, failure)


def _tell_parent(
    block: StepDefinition, failure: StepFailure | None, context: ExecutionContext
) -> None:
    if block.block_id is None:
        _count_down(context.require(block.container_id), failure, context)
        return
    group = context.require(block.block_id)
    _count_down(group, failure, context, block.position)
    spawn_rounds(group, context)


def _tell_dependents(
    step: StepDefinition, failure: StepFailure | None, context: ExecutionContext
) -> None:
    statement = context.statement_of(step)
    for dependent in statement.dependents:
        if dependent.block is statement.block:
            _count_down_statement(dependent, str(step.block_id), step, failure, context)
        else:
            block_id = child_id(str(step.container_id), dependent.block.id)
            _count_down_statement(dependent, block_id, step, failure, context)
    for plan in statement.dependent_blocks:
        block = context.require(child_id(str(step.container_id), plan.id))
        _count_down(block, failure, context)


def _count_down_statement(
    statement: Statement,
    block_id: str,
    like: StepDefinition,
    failure: StepFailure | None,
    context: ExecutionContext,
) -> None:
    """One of the steps that a statement reads is over; the first one makes its record."""
    # Where it reads only one there is no record yet, unless that one was tried again.
    found = None
    if len(statement.needs) > 1 or not context.is_first_end(like):
        found = context.step(child_id(block_id, statement.id))
    if found is None:
        found = context.new_statement(statement, block_id, like)
        found.pending = len(statement.needs)
    _count_down(found, failure, context)


def _count_down(
    step: StepDefinition,
    failure: StepFailure | None,
    context: ExecutionContext,
    number: int | None = None,
) -> None:
    """One of those that a step waits for is over; `number` is that of a round or a case."""
    step.pending -= 1
    if failure is not None:
        step.failed += 1
        _note(step, failure, number)
    context.touch(step)
    if step.pending == 0:
        context.schedule(step)


def _note(step: StepDefinition, failure: StepFailure, number: int | None) -> None:
    """Keep a failure: the first, and of rounds and cases that with the smallest number. In a
    `catch` it stands beside the one that was caught."""
    met = step.transition.error
    if number is not None:
        if met is None or number < step.update_order:
            step.transition.set_error(failure)
            step.update_order = number
    elif met is None:
        step.transition.set_error(failure)
    elif step.caught and step.failed == 1:
        caught = StepFailure.of(met)
        message = f"{failure.message} (while handling: {caught.message})"
        step.transition.set_error(StepFailure(message, failure.error_type, failure.place))
