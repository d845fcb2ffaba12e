"""Arguments and defaults have the type that the parameter declares, as far as that is known."""

from afl.lang import ast
from afl.lang.codes import ARGUMENT_TYPE
from afl.lang.names import Declared
from afl.lang.scopes import Scope
from afl.lang.types import accepts, declared_type, type_name
from afl.lang.validation.rule import Callee, Report, Rule


def check_call(report: Report, call: Callee, declared: Declared | None, scope: Scope) -> None:
    if declared is None:
        return
    for arg in call.args:
        param = declared.params.get(arg.name)
        if param is None:
            continue
        expected = declared_type(report.names, declared.namespace, param.type)
        actual = scope.type_of(arg.value)
        if not accepts(expected, actual):
            message = (
                f"Argument '{arg.name}' of '{declared.name}' is {type_name(expected)}, "
                f"but this is {type_name(actual)}"
            )
            report(ARGUMENT_TYPE, message, arg)


def check_default(report: Report, param: ast.Parameter, scope: Scope) -> None:
    assert param.default is not None
    expected = declared_type(report.names, scope.namespace, param.type)
    actual = scope.type_of(param.default)
    if not accepts(expected, actual):
        message = (
            f"Parameter '{param.name}' is {type_name(expected)}, "
            f"but its default is {type_name(actual)}"
        )
        report(ARGUMENT_TYPE, message, param)


RULE = Rule(
    "argument types",
    (ARGUMENT_TYPE,),
    call=check_call,
    mixin=check_call,
    default=check_default,
)
