"""A call gives each argument once; so do mixins and yields."""

from afl.lang import ast
from afl.lang.codes import DUPLICATE_ARGUMENT
from afl.lang.names import Declared
from afl.lang.scopes import Scope
from afl.lang.validation.repeated import repeated
from afl.lang.validation.rule import Callee, Report, Rule


def check_call(report: Report, call: Callee, _declared: Declared | None, _scope: Scope) -> None:
    for arg in repeated(call.args):
        report(DUPLICATE_ARGUMENT, f"Duplicate argument name '{arg.name}'", arg)


def check_yield(report: Report, statement: ast.YieldStmt, scope: Scope) -> None:
    check_call(report, statement.call, None, scope)


RULE = Rule(
    "duplicate arguments",
    (DUPLICATE_ARGUMENT,),
    call=check_call,
    mixin=check_call,
    yields=check_yield,
)
