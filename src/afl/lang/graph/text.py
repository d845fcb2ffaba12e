"""Expressions, calls and types on one line, for captions and tooltips.

The formatter writes programs; this writes labels. It never breaks a line, and parentheses stand
only where the meaning needs them.
"""

from __future__ import annotations

from collections.abc import Iterable

from afl.lang import ast
from afl.lang.formatter import spelling

_LEVELS = {"||": 1, "&&": 2, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_COMPARISON, _CONCATENATION, _UNARY, _ATOM = 3, 4, 7, 8


def expression_text(expr: ast.Expr) -> str:
    """The expression as it could be written."""
    if isinstance(expr, ast.Literal):
        return spelling.literal(expr).replace("\n", "\\n")
    if isinstance(expr, ast.Reference):
        return ".".join(["$", *expr.path] if expr.is_input else expr.path)
    if isinstance(expr, ast.ConcatExpr):
        return " ++ ".join(_inside(each, _CONCATENATION + 1) for each in expr.operands)
    if isinstance(expr, ast.BinaryExpr):
        return _binary(expr)
    if isinstance(expr, ast.UnaryExpr):
        return _unary(expr)
    if isinstance(expr, ast.ArrayLiteral):
        return f"[{', '.join(map(expression_text, expr.elements))}]"
    if isinstance(expr, ast.MapLiteral):
        return f"#{{{', '.join(map(_entry, expr.entries))}}}"
    return f"{_inside(expr.target, _ATOM)}[{expression_text(expr.index)}]"


def call_text(call: ast.CallExpr) -> str:
    mixins = "".join(f" with {_callee_text(each)}" for each in call.mixins)
    return _callee_text(call) + mixins


def parameter_text(param: ast.Parameter) -> str:
    default = "" if param.default is None else f" = {expression_text(param.default)}"
    return f"{param.name}: {type_text(param.type)}{default}"


def type_text(node: ast.TypeExpr) -> str:
    depth = 0
    while isinstance(node, ast.ArrayType):
        node, depth = node.element_type, depth + 1
    return "[" * depth + node.name + "]" * depth


def _callee_text(callee: ast.CallExpr | ast.MixinCall) -> str:
    alias = f" as {callee.alias}" if isinstance(callee, ast.MixinCall) and callee.alias else ""
    return f"{callee.name}({_args_text(callee.args)}){alias}"


def _args_text(args: Iterable[ast.NamedArg]) -> str:
    return ", ".join(f"{each.name} = {expression_text(each.value)}" for each in args)


def _entry(entry: ast.MapEntry) -> str:
    key = spelling.key(entry.key).replace("\n", "\\n")
    return f"{key}: {expression_text(entry.value)}"


def _binary(expr: ast.BinaryExpr) -> str:
    level = _level(expr)
    # Comparisons do not chain, so both of their sides bind tighter.
    left = _inside(expr.left, level + (level == _COMPARISON))
    return f"{left} {expr.operator} {_inside(expr.right, level + 1)}"


def _unary(expr: ast.UnaryExpr) -> str:
    operand = _inside(expr.operand, _UNARY)
    # `--` would read as one sign.
    space = " " if operand.startswith(expr.operator) else ""
    return expr.operator + space + operand


def _inside(expr: ast.Expr, level: int) -> str:
    text = expression_text(expr)
    return text if _level(expr) >= level else f"({text})"


def _level(expr: ast.Expr) -> int:
    if isinstance(expr, ast.BinaryExpr):
        return _LEVELS.get(expr.operator, _COMPARISON)
    if isinstance(expr, ast.ConcatExpr):
        return _CONCATENATION
    return _UNARY if isinstance(expr, ast.UnaryExpr) else _ATOM
