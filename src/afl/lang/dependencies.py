"""Which steps a step reads: what must be finished before it can begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from afl.lang import ast


def steps_read_by(step: ast.StepStmt) -> set[str]:
    """Names of the steps that the arguments of `step` and of its mixins read.

    The bodies behind a step read only the step itself, so they add nothing.
    """
    return set(step_names(call_expressions(step.call)))


def call_expressions(call: ast.CallExpr) -> Iterator[ast.Expr]:
    """Every argument of a call and of its mixins."""
    yield from (arg.value for arg in call.args)
    for mixin in call.mixins:
        yield from (arg.value for arg in mixin.args)


def step_names(expressions: Iterable[ast.Expr]) -> Iterator[str]:
    """The first name of each reference that is no input. Loop variables look the same."""
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Reference) and not node.is_input:
                yield node.path[0]
