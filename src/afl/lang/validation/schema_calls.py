"""Making a value of a schema gives it fields it has, no mixins, no body and no catch."""

from afl.lang import ast
from afl.lang.codes import SCHEMA_BODY, SCHEMA_FIELD, SCHEMA_MIXIN
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared
from afl.lang.scopes import Scope
from afl.lang.validation.rule import Report, Rule


def check_call(
    report: Report, call: ast.CallExpr, declared: Declared | None, _scope: Scope
) -> None:
    if declared is None or not declared.is_schema:
        return
    for arg in call.args:
        if arg.name and arg.name not in declared.params:
            message = f"Unknown field '{arg.name}' for schema '{declared.name}'"
            report(SCHEMA_FIELD, message, arg, suggest(arg.name, declared.params))
    if call.mixins:
        message = f"Schema '{declared.name}' cannot have mixins"
        report(SCHEMA_MIXIN, message, call.mixins[0])


def check_block(report: Report, block: ast.Block, scope: Scope) -> None:
    for step in block.steps:
        if step.body is None and step.catch is None:
            continue
        declared = report.names.resolve(scope.namespace, step.call.name).declared
        if declared is not None and declared.is_schema:
            _check_step(report, step, f"Schema '{declared.name}'")


def _check_step(report: Report, step: ast.StepStmt, schema: str) -> None:
    """A value is there at once: nothing runs behind it, and nothing in it can be caught."""
    if step.bodies:
        hint = f"put these steps behind step '{step.name}', in its block"
        report(SCHEMA_BODY, f"{schema} cannot have a body", step.bodies[0], hint)
    if step.catch is not None:
        hint = "put the `catch` around the block, or compute the value in a step before"
        report(SCHEMA_BODY, f"{schema} cannot have a catch", step.catch, hint)


RULE = Rule(
    "schema calls",
    (SCHEMA_FIELD, SCHEMA_MIXIN, SCHEMA_BODY),
    call=check_call,
    block=check_block,
)
