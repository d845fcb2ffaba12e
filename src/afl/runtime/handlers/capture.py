"""Capture: what the blocks of a step have yielded becomes its returns."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import Any

from afl.lang import ast
from afl.lang.expressions import bounded
from afl.lang.names import Declared
from afl.runtime.arguments import attributes_of
from afl.runtime.context import ExecutionContext
from afl.runtime.handlers.blocks import bodies_of, catches_of
from afl.runtime.persistence import Yielded, child_id
from afl.runtime.plan import Block, Kind, Statement
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StatementId


class StatementCaptureHandler:
    """STATEMENT_CAPTURE_BEGIN: collect the yields in the order of the text, not of their ends.

    Later blocks win over earlier ones, and a `catch` over the blocks. The rounds of a foreach
    form a list, in the order of the elements, where the return is an array or Json.
    """

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        blocks = _blocks_that_ran(step, context)
        if blocks:
            captured = _captured(step, blocks, context)
            owner = _owner(step, context)
            returns = owner.returns if owner is not None else {}
            step.attributes.returns |= attributes_of(captured, returns)
        return True


def _blocks_that_ran(step: StepDefinition, context: ExecutionContext) -> list[Block]:
    bodies = bodies_of(step, context)
    blocks = list(bodies.blocks) if bodies is not None else []
    return blocks + catches_of(step, context)[: step.caught]


def _captured(
    step: StepDefinition, blocks: list[Block], context: ExecutionContext
) -> dict[str, Any]:
    found: defaultdict[str | None, list[Yielded]] = defaultdict(list)
    for each in context.yielded(step, _single_yields(blocks)):
        found[each.statement_id].append(each)
    aliases = _aliases(step, context)
    captured: dict[str, Any] = {}
    for plan in blocks:
        if plan.kind is Kind.SCRIPT:
            captured |= context.require(child_id(step.id, plan.id)).attributes.values()
        for inner in plan.inner:
            for statement in inner.yields:
                rounds = found[statement.id]
                captured |= _yielded(statement, rounds, aliases, plan.kind is Kind.FOREACH)
    return captured


def _single_yields(blocks: list[Block]) -> list[StatementId] | None:
    """The yields of these blocks; None if some of them may happen often, or not at all."""
    if any(each.inner != (each,) for each in blocks):
        return None
    return [statement.id for each in blocks for statement in each.yields]


def _yielded(
    statement: Statement, rounds: list[Yielded], aliases: set[str], is_foreach: bool
) -> dict[str, Any]:
    values = _collected(statement, rounds) if is_foreach else _last(rounds)
    target = statement.call.name
    return bounded({target: values}) if target in aliases and values else values


def _last(rounds: list[Yielded]) -> dict[str, Any]:
    return {name: value for each in rounds for name, value in each.values.items()}


def _collected(statement: Statement, rounds: list[Yielded]) -> dict[str, Any]:
    ordered = sorted(rounds, key=attrgetter("position"))
    values = _last(ordered[-1:])
    for arg in statement.call.args:
        if _is_list(arg.name, statement.callee):
            values[arg.name] = bounded([each.values[arg.name] for each in ordered])
    return values


def _is_list(name: str, target: Declared | None) -> bool:
    """Whether a return collects the rounds: an array or Json does, and one nobody declared."""
    declared = target.returns.get(name) if target is not None else None
    if declared is None:
        return True
    return isinstance(declared.type, ast.ArrayType) or declared.type.name == "Json"


def _owner(step: StepDefinition, context: ExecutionContext) -> Declared | None:
    """Whose returns they are; None where a step calls what nobody declares, and catches that."""
    if step.object_type == ObjectType.WORKFLOW:
        return context.workflow
    return context.statement_of(step).callee


def _aliases(step: StepDefinition, context: ExecutionContext) -> set[str]:
    """A yield to a mixin by its alias fills the attribute of that name."""
    owner = _owner(step, context)
    mixins: list[ast.MixinSig | ast.MixinCall] = [*owner.mixins] if owner is not None else []
    if step.object_type != ObjectType.WORKFLOW:
        mixins.extend(context.statement_of(step).call.mixins)
    return {each.alias for each in mixins if each.alias is not None}
