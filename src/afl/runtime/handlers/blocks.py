"""Blocks: those that a step begins, and what runs in each.

A block counts what it waits for (`pending`); whoever of these ends counts down, and the last one
wakes it. Nothing is searched, however many there are.
"""

from __future__ import annotations

from typing import Any

from afl.lang import ast
from afl.lang.expressions import evaluate
from afl.runtime.context import ExecutionContext, round_name
from afl.runtime.errors import StepFailure
from afl.runtime.handlers.scripts import request_script
from afl.runtime.persistence import child_id
from afl.runtime.plan import Block, Bodies, Kind
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId

#: At most this many rounds of one foreach are under way; more begin as others end. It bounds what
#: one commit writes, and is as much as one worker can keep waiting.
FOREACH_WINDOW = 2000


def bodies_of(step: StepDefinition, context: ExecutionContext) -> Bodies | None:
    """What runs behind a step: its own body, which replaces that of its facet."""
    if step.object_type == ObjectType.WORKFLOW:
        return context.plan.bodies_of(context.workflow)
    statement = context.statement_of(step)
    if statement.own is not None and statement.own.blocks:
        return statement.own
    return context.plan.bodies_of(statement.callee) if statement.callee is not None else None


def catches_of(step: StepDefinition, context: ExecutionContext) -> list[Block]:
    """The `catch` clauses that an error of a step meets, from the inside out."""
    found = [bodies_of(step, context)]
    if step.object_type != ObjectType.WORKFLOW:
        own = context.statement_of(step).own
        if own is not found[0]:
            found.append(own)
    return [each.catch for each in found if each is not None and each.catch is not None]


class StatementBlocksBeginHandler:
    """STATEMENT_BLOCKS_BEGIN: create all blocks, then let each begin."""

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        bodies = bodies_of(step, context)
        blocks = bodies.blocks if bodies is not None else ()
        step.pending, step.failed = len(blocks), 0
        # All of them exist before the first one runs: it may finish what another waits for.
        for plan in blocks:
            begin_block(context.new_block(step, plan), plan, context)
        return True


def begin_block(block: StepDefinition, plan: Block, context: ExecutionContext) -> None:
    """Count what a new block waits for. A group with siblings to wait for begins after them."""
    block.pending = len(plan.statements) + len(plan.waits_for)
    if plan.kind is Kind.PLAIN or block.pending == 0:
        context.schedule(block)


def awaited_by(step: StepDefinition, context: ExecutionContext) -> list[StepId]:
    """What a step waits for that is no round and no case, in the order of the text."""
    if not step.is_block:
        return _awaited_by_statement(step, context)
    plan = context.block_of(step)
    if step.state == StepState.BLOCK_EXECUTION_END:
        return [child_id(step.id, each.id) for each in plan.yields]
    return [context.step_id_of(each, step, plan) for each in plan.awaited]


def _awaited_by_statement(step: StepDefinition, context: ExecutionContext) -> list[StepId]:
    if step.state == StepState.CREATED:
        statement, block = context.statement_of(step), context.require(step.block_id)
        return [context.step_id_of(each, block, statement.block) for each in statement.needs]
    bodies = bodies_of(step, context)
    return [child_id(step.id, each.id) for each in bodies.blocks] if bodies is not None else []


class WaitHandler:
    """…_CONTINUE: stay until all that was counted is over."""

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:  # noqa: ARG002
        return step.pending == 0


class BlockExecutionBeginHandler:
    """BLOCK_EXECUTION_BEGIN: start what can start now."""

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        plan = context.block_of(step)
        _BEGIN[plan.kind](step, plan, context)
        return True


def _begin_plain(step: StepDefinition, plan: Block, context: ExecutionContext) -> None:
    for statement in plan.statements:
        if not statement.needs:
            context.schedule(context.new_statement(statement, step.id, step))


def _begin_foreach(step: StepDefinition, plan: Block, context: ExecutionContext) -> None:
    items = _items(step, plan, context)
    step.pending, step.position, step.foreach_value = len(items), 0, len(items)
    _create_rounds(step, plan, items, context)


def spawn_rounds(step: StepDefinition, context: ExecutionContext) -> None:
    """A round of this foreach has ended: begin others, many at a time."""
    plan = context.block_of(step)
    if plan.kind is not Kind.FOREACH:
        return
    waiting = step.foreach_value - step.position
    if waiting and step.pending - waiting <= FOREACH_WINDOW // 2:
        _create_rounds(step, plan, _items(step, plan, context), context)


def _create_rounds(
    step: StepDefinition, plan: Block, items: list[Any], context: ExecutionContext
) -> None:
    assert plan.round is not None
    assert plan.foreach is not None
    container = context.require(step.container_id)
    live = step.pending - (len(items) - step.position)
    first, last = step.position, min(step.position + FOREACH_WINDOW - live, len(items))
    for number in range(first, last):
        name = round_name(number)
        made = context.new_block(container, plan.round, name=name, group=step, position=number)
        made.foreach_var, made.foreach_value = plan.foreach.variable, items[number]
        begin_block(made, plan.round, context)
    step.position = last


def _items(step: StepDefinition, plan: Block, context: ExecutionContext) -> list[Any]:
    assert plan.foreach is not None
    found = evaluate(plan.foreach.iterable, context.environment(step, plan))
    if found is None:
        return []
    if not isinstance(found, list):
        raise StepFailure(
            f"foreach {plan.foreach.variable}: expected a list, got {type(found).__name__}",
            "EvaluationError",
        )
    return found


def _begin_when(step: StepDefinition, plan: Block, context: ExecutionContext) -> None:
    environment = context.environment(step, plan)
    chosen = [
        (number, block)
        for number, (condition, block) in enumerate(plan.cases)
        if condition is not None and _holds(condition, evaluate(condition, environment))
    ]
    if not chosen:
        chosen = [
            (number, block)
            for number, (condition, block) in enumerate(plan.cases)
            if condition is None
        ]
    container = context.require(step.container_id)
    step.pending = len(chosen)
    for number, block in chosen:
        made = context.new_block(container, block, group=step, position=number)
        begin_block(made, block, context)


def _holds(condition: ast.Expr, value: Any) -> bool:
    if not isinstance(value, bool):
        place = f" at line {condition.location.line}" if condition.location else ""
        raise StepFailure(
            f"case{place}: expected a Boolean, got {type(value).__name__}", "EvaluationError"
        )
    return value


def _begin_script(step: StepDefinition, plan: Block, context: ExecutionContext) -> None:
    assert plan.script is not None
    container = context.require(step.container_id)
    step.pending = 1  # the script
    request_script(step, plan.script, dict(context.values(container.id)), context)


_BEGIN = {
    Kind.PLAIN: _begin_plain,
    Kind.FOREACH: _begin_foreach,
    Kind.WHEN: _begin_when,
    Kind.SCRIPT: _begin_script,
}


class BlockExecutionEndHandler:
    """BLOCK_EXECUTION_END: all statements are finished, so the yields can be evaluated."""

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        plan = context.block_of(step)
        step.pending = len(plan.yields)
        for each in plan.yields:
            context.schedule(context.new_statement(each, step.id, step))
        return step.pending == 0
