"""Capture: what the blocks of a step have yielded becomes its returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from operator import attrgetter
from typing import Any

from afl.lang import ast
from afl.lang.expressions import bounded
from afl.lang.names import Declared
from afl.runtime.arguments import attributes_of
from afl.runtime.context import ExecutionContext
from afl.runtime.handlers.blocks import bodies_of, catches_of
from afl.runtime.persistence import Yielded, child_id
from afl.runtime.plan import Block, Capture, Kind, Statement
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StatementId


class StatementCaptureHandler:
    """STATEMENT_CAPTURE_BEGIN: collect the yields in the order of the text, not of their ends.

    Later blocks win over earlier ones, and a `catch` over the blocks. The rounds of a foreach
    form a list, in the order of the elements, where the return is an array or Json.
    """

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        capture = _capture_of(step, context)
        if capture.blocks:
            captured = _captured(step, capture, context)
            step.attributes.returns |= attributes_of(captured, capture.returns)
        return True


def _capture_of(step: StepDefinition, context: ExecutionContext) -> Capture:
    """It follows from the text, so it is found out once for each statement."""
    key, known = (context.text_of(step), step.caught), context.plan.captures
    return known.get(key) or known.setdefault(key, _new_capture(step, context))


def _new_capture(step: StepDefinition, context: ExecutionContext) -> Capture:
    owner, bodies = _owner(step, context), bodies_of(step, context)
    blocks = (
        *(bodies.blocks if bodies is not None else ()),
        *catches_of(step, context)[: step.caught],
    )
    returns = owner.returns if owner is not None else {}
    return Capture(blocks, _single_yields(blocks), _aliases(step, owner, context), returns)


def _captured(step: StepDefinition, capture: Capture, context: ExecutionContext) -> dict[str, Any]:
    found: defaultdict[str | None, list[Yielded]] = defaultdict(list)
    for each in context.yielded(step, capture.single):
        found[each.statement_id].append(each)
    captured: dict[str, Any] = {}
    for plan in capture.blocks:
        if plan.kind is Kind.SCRIPT:
            captured |= context.require(child_id(step.id, plan.id)).attributes.values()
        for inner in plan.inner:
            for statement in inner.yields:
                rounds, is_foreach = found[statement.id], plan.kind is Kind.FOREACH
                captured |= _yielded(statement, rounds, capture.aliases, is_foreach)
    return captured


def _single_yields(blocks: Iterable[Block]) -> frozenset[StatementId] | None:
    """The yields of these blocks; None if some of them may happen often, or not at all."""
    if any(each.inner != (each,) for each in blocks):
        return None
    return frozenset(statement.id for each in blocks for statement in each.yields)


def _yielded(
    statement: Statement, rounds: list[Yielded], aliases: Set[str], is_foreach: bool
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


def _aliases(
    step: StepDefinition, owner: Declared | None, context: ExecutionContext
) -> frozenset[str]:
    """A yield to a mixin by its alias fills the attribute of that name."""
    mixins: list[ast.MixinSig | ast.MixinCall] = [*owner.mixins] if owner is not None else []
    if step.object_type != ObjectType.WORKFLOW:
        mixins.extend(context.statement_of(step).call.mixins)
    return frozenset(each.alias for each in mixins if each.alias is not None)
