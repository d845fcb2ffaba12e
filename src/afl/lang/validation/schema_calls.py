"""Making a value of a schema gives it fields it has, and no mixins."""

from afl.lang import ast
from afl.lang.codes import SCHEMA_FIELD, SCHEMA_MIXIN
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared
from afl.lang.scopes import Scope
from afl.lang.validation.rule import Report, Rule


def check(report: Report, call: ast.CallExpr, declared: Declared | None, _scope: Scope) -> None:
    if declared is None or not declared.is_schema:
        return
    for arg in call.args:
        if arg.name and arg.name not in declared.params:
            message = f"Unknown field '{arg.name}' for schema '{declared.name}'"
            report(SCHEMA_FIELD, message, arg, suggest(arg.name, declared.params))
    if call.mixins:
        message = f"Schema '{declared.name}' cannot have mixins"
        report(SCHEMA_MIXIN, message, call.mixins[0])


RULE = Rule("schema calls", (SCHEMA_FIELD, SCHEMA_MIXIN), call=check)
