"""A call gives a facet the arguments it declares, and leaves none out."""

from collections.abc import Iterator

from afl.lang import ast
from afl.lang.codes import MISSING_ARGUMENT, POLICY_ARGUMENT, UNKNOWN_ARGUMENT
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared, reserved_namespaces
from afl.lang.scopes import Scope
from afl.lang.validation.mixed_in import may_be_left_out, mixed_in_names
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
    given = mixed_in_names(report.names, scope.namespace, call.mixins)
    given |= mixed_in_names(report.names, declared.namespace, declared.mixins)
    for name in _missing(report, call, declared, scope, given):
        report(MISSING_ARGUMENT, _needs(declared, name), call)


def check_mixin(report: Report, mixin: Callee, declared: Declared | None, scope: Scope) -> None:
    check_unknown(report, mixin, declared, scope)
    # A mixin of a program may leave parameters to who calls; those of the language do not.
    if declared is not None and declared.namespace in reserved_namespaces():
        for name in _missing(report, mixin, declared, scope, set()):
            hint = f"write `{mixin.name}({name} = …)`"
            report(POLICY_ARGUMENT, _needs(declared, name), mixin, hint)


def _missing(
    report: Report, call: Callee, declared: Declared, scope: Scope, mixed_in: set[str]
) -> Iterator[str]:
    given = mixed_in | {each.name for each in call.args}
    for name, param in declared.params.items():
        if name not in given and not may_be_left_out(report.names, scope.namespace, param):
            yield name


def _needs(declared: Declared, name: str) -> str:
    what = "field" if declared.is_schema else "parameter"
    return f"{declared.kind.capitalize()} '{declared.name}' needs {what} '{name}'"


RULE = Rule(
    "arguments",
    (UNKNOWN_ARGUMENT, MISSING_ARGUMENT, POLICY_ARGUMENT),
    call=check_call,
    mixin=check_mixin,
)
