"""A block has one step of a name."""

from afl.lang import ast
from afl.lang.codes import DUPLICATE_STEP
from afl.lang.scopes import Scope
from afl.lang.validation.repeated import repeated
from afl.lang.validation.rule import Report, Rule


def check(report: Report, block: ast.Block, _scope: Scope) -> None:
    for step in repeated(block.steps):
        report(DUPLICATE_STEP, f"Duplicate step name '{step.name}'", step)


RULE = Rule("duplicate steps", (DUPLICATE_STEP,), block=check)
