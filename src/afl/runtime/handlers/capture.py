"""Capture: what the blocks of a step have yielded becomes its returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from afl.lang import ast
from afl.lang.names import Declared
from afl.runtime.arguments import attributes_of
from afl.runtime.context import ExecutionContext, case_id, round_id
from afl.runtime.handlers.blocks import bodies_of, catches_of
from afl.runtime.persistence import child_id
from afl.runtime.plan import Block, Kind, Statement
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId


class StatementCaptureHandler:
    """STATEMENT_CAPTURE_BEGIN: collect the yields in the order of the text, not of their ends.

    Later blocks win over earlier ones, and a `catch` over the blocks. The rounds of a foreach
    form a list, in the order of the elements, where the return is an array or Json.
    """

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        blocks = _blocks_that_ran(step, context)
        if blocks:
            captured = _captured(step, blocks, context)
            step.attributes.returns |= attributes_of(captured, _owner(step, context).returns)
        return True


def _blocks_that_ran(step: StepDefinition, context: ExecutionContext) -> list[Block]:
    bodies = bodies_of(step, context)
    blocks = list(bodies.blocks) if bodies is not None else []
    return blocks + catches_of(step, context)[: step.caught]


def _captured(
    step: StepDefinition, blocks: list[Block], context: ExecutionContext
) -> dict[str, Any]:
    aliases = _aliases(step, context)
    captured: dict[str, Any] = {}
    for plan in blocks:
        block = context.step(child_id(step.id, plan.id))
        if block is None:
            continue
        if plan.kind is Kind.SCRIPT:
            captured |= block.attributes.values()
        for inner, leaves in _leaves(block, plan):
            for statement in inner.yields:
                found = _finished([child_id(each, statement.id) for each in leaves], context)
                captured |= _yielded(statement, found, aliases, plan.kind is Kind.FOREACH)
    return captured


def _leaves(block: StepDefinition, plan: Block) -> Iterator[tuple[Block, list[StepId]]]:
    """The blocks that have yields: the block itself, the rounds or the cases of a group."""
    if plan.round is not None:
        rounds = range(int(block.foreach_value or 0))
        yield plan.round, [round_id(block, plan, number) for number in rounds]
    elif plan.cases:
        for _, case in plan.cases:
            yield case, [case_id(block, case)]
    else:
        yield plan, [block.id]


def _finished(ids: list[StepId], context: ExecutionContext) -> list[StepDefinition]:
    """In the order of the ids; those that never came to be are left out."""
    context.prefetch(ids)
    found = (context.step(each) for each in ids)
    return [each for each in found if each is not None and each.is_complete]


def _yielded(
    statement: Statement, rounds: list[StepDefinition], aliases: set[str], is_foreach: bool
) -> dict[str, Any]:
    values = _collected(statement, rounds) if is_foreach else _last(rounds)
    target = statement.call.name
    return {target: values} if target in aliases and values else values


def _last(rounds: list[StepDefinition]) -> dict[str, Any]:
    return {name: each.value for step in rounds for name, each in step.attributes.params.items()}


def _collected(statement: Statement, rounds: list[StepDefinition]) -> dict[str, Any]:
    values = _last(rounds)
    for arg in statement.call.args:
        if _is_list(arg.name, statement.callee):
            values[arg.name] = [each.attributes.params[arg.name].value for each in rounds]
    return values


def _is_list(name: str, target: Declared | None) -> bool:
    """Whether a return collects the rounds: an array or Json does, and one nobody declared."""
    declared = target.returns.get(name) if target is not None else None
    if declared is None:
        return True
    return isinstance(declared.type, ast.ArrayType) or declared.type.name == "Json"


def _owner(step: StepDefinition, context: ExecutionContext) -> Declared:
    if step.object_type == ObjectType.WORKFLOW:
        return context.workflow
    callee = context.statement_of(step).callee
    assert callee is not None
    return callee


def _aliases(step: StepDefinition, context: ExecutionContext) -> set[str]:
    """A yield to a mixin by its alias fills the attribute of that name."""
    mixins: list[ast.MixinSig | ast.MixinCall] = [*_owner(step, context).mixins]
    if step.object_type != ObjectType.WORKFLOW:
        mixins.extend(context.statement_of(step).call.mixins)
    return {each.alias for each in mixins if each.alias is not None}
