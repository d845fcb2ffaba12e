"""A call gives a facet the arguments it declares, and leaves none out."""

from afl.lang import ast
from afl.lang.codes import MISSING_ARGUMENT, UNKNOWN_ARGUMENT
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared
from afl.lang.scopes import Scope
from afl.lang.validation.rule import Callee, Report, Rule


def check_unknown(report: Report, call: Callee, declared: Declared | None, _scope: Scope) -> None:
    if declared is None or declared.is_schema:
        return
    for arg in call.args:
        if arg.name and arg.name not in declared.params:
            what = f"{declared.kind.capitalize()} '{declared.name}'"
            message = f"{what} has no parameter '{arg.name}'"
            report(UNKNOWN_ARGUMENT, message, arg, suggest(arg.name, declared.params))


def check_call(report: Report, call: ast.CallExpr, declared: Declared | None, scope: Scope) -> None:
    check_unknown(report, call, declared, scope)
    if declared is None:
        return
    given = {each.name for each in call.args}
    for mixin in call.mixins:
        given |= {each.name for each in mixin.args} | {mixin.alias or ""}
    for name, param in declared.params.items():
        if name in given or getattr(param, "default", None) is not None:
            continue
        if report.names.has_implicit(scope.namespace, name):
            continue
        what = "field" if declared.is_schema else "parameter"
        message = f"{declared.kind.capitalize()} '{declared.name}' needs {what} '{name}'"
        report(MISSING_ARGUMENT, message, call)


RULE = Rule("arguments", (UNKNOWN_ARGUMENT, MISSING_ARGUMENT), call=check_call, mixin=check_unknown)
