"""A call gives a facet the arguments it declares, and leaves none out."""

from afl.lang import ast
from afl.lang.codes import MISSING_ARGUMENT, UNKNOWN_ARGUMENT
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared, reserved_namespaces
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
    # What is mixed in counts as given, under its own name or its alias.
    mixed_in = {each.alias or "" for each in call.mixins}
    mixed_in |= {arg.name for each in call.mixins for arg in each.args}
    _check_missing(report, call, declared, scope, mixed_in)


def check_mixin(report: Report, mixin: Callee, declared: Declared | None, scope: Scope) -> None:
    check_unknown(report, mixin, declared, scope)
    # A mixin of a program may leave parameters to who calls; those of the language do not.
    if declared is not None and declared.namespace in reserved_namespaces():
        _check_missing(report, mixin, declared, scope, set())


def _check_missing(
    report: Report, call: Callee, declared: Declared | None, scope: Scope, mixed_in: set[str]
) -> None:
    if declared is None:
        return
    given = mixed_in | {each.name for each in call.args}
    for name, param in declared.params.items():
        if name in given or getattr(param, "default", None) is not None:
            continue
        if report.names.has_implicit(scope.namespace, name):
            continue
        what = "field" if declared.is_schema else "parameter"
        message = f"{declared.kind.capitalize()} '{declared.name}' needs {what} '{name}'"
        report(MISSING_ARGUMENT, message, call)


RULE = Rule("arguments", (UNKNOWN_ARGUMENT, MISSING_ARGUMENT), call=check_call, mixin=check_mixin)
