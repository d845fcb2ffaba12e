"""A foreach goes over a list."""

from afl.lang import ast
from afl.lang.codes import FOREACH_ITERABLE
from afl.lang.scopes import Scope
from afl.lang.types import ArrayOf, type_name
from afl.lang.validation.rule import Report, Rule


def check(report: Report, clause: ast.ForeachClause, scope: Scope) -> None:
    type_ = scope.type_of(clause.iterable)
    if type_ is None or type_ == "Json" or isinstance(type_, ArrayOf):
        return
    message = f"A foreach goes over a list, but this is {type_name(type_)}"
    report(FOREACH_ITERABLE, message, clause.iterable)


RULE = Rule("foreach iterables", (FOREACH_ITERABLE,), foreach=check)
