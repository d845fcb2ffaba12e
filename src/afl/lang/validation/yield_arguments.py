"""A yield fills declared returns with values of their types."""

from afl.lang import ast
from afl.lang.codes import ARGUMENT_TYPE, YIELD_ARGUMENT
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared
from afl.lang.scopes import Scope
from afl.lang.types import ArrayOf, accepts, declared_type, type_name
from afl.lang.validation.rule import Report, Rule


def check(report: Report, statement: ast.YieldStmt, scope: Scope) -> None:
    target = scope.owner.targets.get(statement.call.name)
    # Without declared returns anything may be yielded, as programs do.
    if target is None or not target.returns:
        return
    for arg in statement.call.args:
        if arg.name not in target.returns:
            message = f"{target.kind.capitalize()} '{target.name}' does not return '{arg.name}'"
            report(YIELD_ARGUMENT, message, arg, suggest(arg.name, target.returns))
            continue
        _check_type(report, target, arg, scope)


def _check_type(report: Report, target: Declared, arg: ast.NamedArg, scope: Scope) -> None:
    expected = declared_type(report.names, target.namespace, target.returns[arg.name].type)
    actual = scope.type_of(arg.value)
    verb, hint = "is", None
    if scope.in_foreach and isinstance(expected, ArrayOf):
        expected, verb = expected.element, "collects"
        hint = "each round of a foreach adds one element to the list"
    if not accepts(expected, actual):
        what = f"Return '{arg.name}' of '{target.name}' {verb} {type_name(expected)}"
        report(ARGUMENT_TYPE, f"{what}, but this is {type_name(actual)}", arg, hint)


RULE = Rule("yield arguments", (YIELD_ARGUMENT, ARGUMENT_TYPE), yields=check)
