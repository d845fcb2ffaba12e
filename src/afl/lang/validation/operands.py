"""Operators get values they can work on: an error for literals, a warning for what is inferred."""

from afl.lang import ast
from afl.lang.codes import OPERAND_INFERRED, OPERAND_TYPE
from afl.lang.scopes import Scope
from afl.lang.types import NUMBERS, Type, type_name
from afl.lang.validation.rule import Report, Rule

_ARITHMETIC = frozenset("+-*/%")
_LOGIC = frozenset({"!", "&&", "||"})

Operation = ast.BinaryExpr | ast.UnaryExpr


def check(report: Report, expr: Operation, scope: Scope) -> None:
    for operand in _operands(expr):
        type_ = scope.type_of(operand)
        if _fits(expr.operator, type_):
            continue
        code = OPERAND_TYPE if isinstance(operand, ast.Literal) else OPERAND_INFERRED
        hint = "join text with `++`" if expr.operator == "+" and type_ == "String" else None
        report(code, _complaint(expr, type_name(type_)), operand, hint)


def _operands(expr: Operation) -> tuple[ast.Expr, ...]:
    return (expr.operand,) if isinstance(expr, ast.UnaryExpr) else (expr.left, expr.right)


def _fits(operator: str, type_: Type) -> bool:
    if type_ is None or type_ == "Json":
        return True
    if operator in _LOGIC:
        return type_ == "Boolean"
    return operator not in _ARITHMETIC or (isinstance(type_, str) and type_ in NUMBERS)


def _complaint(expr: Operation, type_: str) -> str:
    what = f"Operator '{expr.operator}'"
    if expr.operator in _LOGIC:
        return f"{what} takes Booleans, not {type_}"
    if isinstance(expr, ast.UnaryExpr):
        return f"{what} cannot negate {type_} operand"
    return f"{what} is arithmetic and takes numbers, not {type_}"


RULE = Rule("operands", (OPERAND_TYPE, OPERAND_INFERRED), operation=check)
