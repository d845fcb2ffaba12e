"""What an expression is worth, given the values it can read.

Pure: the environment is asked for inputs and steps, and nothing else happens. Values are JSON
values. A failure is an `EvaluationError` that says what went wrong and where in the text.

Where Python and AFL differ, AFL counts: `true` is not `1`, text is joined with `++` only, and what
is joined reads as it is written in AFL (`true`, `null` as nothing, maps and lists as JSON).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from afl.errors import AflError
from afl.lang import ast
from afl.lang.ast import SourceLocation
from afl.lang.limits import MAX_NESTING

T = TypeVar("T")

#: What whole numbers can be: those of 64 bits.
SMALLEST, LARGEST = -(2**63), 2**63 - 1

_CONTAINERS = frozenset({list, dict})


class EvaluationError(AflError):
    """A value could not be computed: the program or its inputs must change."""

    def __init__(self, message: str, location: SourceLocation | None = None) -> None:
        self.message = message
        self.location = location
        place = f" at line {location.line}, column {location.column}" if location else ""
        super().__init__(f"{message}{place}")


class Environment(NamedTuple):
    """What can be read: `$`, steps by name, and the variable of a foreach."""

    inputs: Mapping[str, Any]
    #: The attributes of a finished step. Raises KeyError if there is none of that name.
    step: Callable[[str], Mapping[str, Any]]
    variable: str | None = None
    value: Any = None


def evaluate(expr: ast.Expr, environment: Environment) -> Any:
    """The value of `expr`. Raises EvaluationError."""
    try:
        return _EVALUATORS[type(expr)](expr, environment)
    except _Failure as failure:
        raise EvaluationError(failure.message, expr.location) from None


class _Failure(Exception):  # noqa: N818 - becomes an EvaluationError with a place
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def bounded(value: T, location: SourceLocation | None = None) -> T:
    """A value that was put together from others. Raises EvaluationError if it is nested deeper
    than a text can be: nobody who reads it later need fear for the stack."""
    level: list[Any] = [value]
    # One level after the other: a call for each value would be slow, and could itself go too deep.
    for _ in range(MAX_NESTING):
        inner: list[Any] = []
        for each in level:
            items = each.values() if isinstance(each, dict) else each
            # Most hold no others, which is found out without looking at each in Python.
            if not _CONTAINERS.isdisjoint(map(type, items)):
                inner += [item for item in items if type(item) in _CONTAINERS]
        if not inner:
            return value
        level = inner
    raise EvaluationError(f"Value is nested more than {MAX_NESTING} deep", location)


# References


def _reference(expr: ast.Reference, environment: Environment) -> Any:
    if not expr.path:
        raise _Failure("Empty input reference" if expr.is_input else "Empty step reference")
    head, *rest = expr.path
    if head == environment.variable:
        return _walk(environment.value, head, rest)
    if expr.is_input:
        if head not in environment.inputs:
            raise _Failure(f"Input parameter '{head}' not found")
        return _walk(environment.inputs[head], f"$.{head}", rest)
    found = _step(head, rest, environment)
    return found if rest else bounded(found, expr.location)


def _step(name: str, rest: list[str], environment: Environment) -> Any:
    try:
        attributes = environment.step(name)
    except KeyError:
        raise _Failure(f"Step '{name}' not found") from None
    if not rest:
        return dict(attributes)
    if rest[0] not in attributes:
        raise _Failure(f"Attribute '{rest[0]}' of step '{name}' not found")
    return _walk(attributes[rest[0]], f"{name}.{rest[0]}", rest[1:])


def _walk(value: Any, path: str, names: list[str]) -> Any:
    """Follow names into maps. Only maps: attributes of Python objects are nobody's business."""
    for name in names:
        if value is None:
            raise _Failure(f"Cannot access '{name}': {path} is null")
        if not isinstance(value, Mapping):
            raise _Failure(f"Cannot access '{name}': {path} is {_kind(value)}, not a map")
        if name not in value:
            raise _Failure(f"Property '{name}' not found in {path}")
        value, path = value[name], f"{path}.{name}"
    return value


# Operators


def _concat(expr: ast.ConcatExpr, environment: Environment) -> str:
    return "".join([as_text(evaluate(each, environment)) for each in expr.operands])


def as_text(value: Any) -> str:
    """A value as it reads when joined to text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _binary(expr: ast.BinaryExpr, environment: Environment) -> Any:
    operator = expr.operator
    left = evaluate(expr.left, environment)
    if operator in _LOGIC:
        return _logic(operator, left, expr.right, environment)
    right = evaluate(expr.right, environment)
    if operator in _ARITHMETIC:
        return _arithmetic(operator, left, right)
    compare = _COMPARISONS.get(operator)
    if compare is None:
        raise _Failure(f"Unknown operator '{operator}'")
    return compare(operator, left, right)


#: The value of the left side that decides alone.
_LOGIC = {"&&": False, "||": True}


def _logic(operator: str, left: Any, right: ast.Expr, environment: Environment) -> bool:
    if _boolean(operator, left) is _LOGIC[operator]:
        return _LOGIC[operator]
    return _boolean(operator, evaluate(right, environment))


def _boolean(operator: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Failure(f"Type error in '{operator}': expected a Boolean, got {_kind(value)}")
    return value


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": lambda left, right: left % right,
}


def _arithmetic(operator: str, left: Any, right: Any) -> Any:
    for value in (left, right):
        if not _is_number(value):
            hint = "; join text with '++'" if isinstance(value, str) else ""
            raise _Failure(
                f"Type error in '{operator}': expected a number, got {_kind(value)}{hint}"
            )
    try:
        return _in_range(operator, _ARITHMETIC[operator](left, right))
    except ZeroDivisionError:
        raise _Failure("Division by zero") from None
    except OverflowError:
        raise _Failure(f"Number out of range in '{operator}'") from None


def _in_range(operator: str, value: Any) -> Any:
    """JSON has no infinity, and whole numbers have 64 bits: so it is in a program."""
    fits = SMALLEST <= value <= LARGEST if isinstance(value, int) else math.isfinite(value)
    if not fits:
        raise _Failure(f"Number out of range in '{operator}'")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: numbers by worth, and `true` equals no number."""
    if not isinstance(left, list | Mapping):
        return _is_same(left, right)
    # Not by recursion: inputs and results of handlers may be deep.
    inside: list[Iterator[tuple[Any, Any]]] = [iter([(left, right)])]
    while inside:
        for one, other in inside[-1]:
            if isinstance(one, list) and isinstance(other, list):
                if len(one) != len(other):
                    return False
                inside.append(zip(one, other, strict=True))
                break
            if isinstance(one, Mapping) and isinstance(other, Mapping):
                if one.keys() != other.keys():
                    return False
                inside.append(_entries(one, other))
                break
            if not _is_same(one, other):
                return False
        else:
            inside.pop()
    return True


def _entries(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    return ((each, other[key]) for key, each in one.items())


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _order(operator: str, left: Any, right: Any) -> bool:
    comparable = (_is_number(left) and _is_number(right)) or (
        isinstance(left, str) and isinstance(right, str)
    )
    if not comparable:
        raise _Failure(f"Type error in '{operator}': {_kind(left)} and {_kind(right)}")
    return bool(_ORDERS[operator](left, right))


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
}


def _member(operator: str, item: Any, container: Any) -> bool:
    if isinstance(container, list):
        return any(_equal(item, each) for each in container)
    if isinstance(container, Mapping | str) and isinstance(item, str):
        return item in container
    raise _Failure(f"Type error in '{operator}': {_kind(item)} and {_kind(container)}")


def _affix(operator: str, left: Any, right: Any) -> bool:
    if not (isinstance(left, str) and isinstance(right, str)):
        raise _Failure(f"Type error in '{operator}': {_kind(left)} and {_kind(right)}")
    return left.startswith(right) if operator == "startsWith" else left.endswith(right)


_COMPARISONS: dict[str, Callable[[str, Any, Any], bool]] = {
    "==": lambda _, left, right: _equal(left, right),
    "!=": lambda _, left, right: not _equal(left, right),
    **dict.fromkeys(_ORDERS, _order),
    "in": _member,
    "not in": lambda operator, item, container: not _member(operator, item, container),
    "contains": lambda operator, container, item: _member(operator, item, container),
    "startsWith": _affix,
    "endsWith": _affix,
}


def _unary(expr: ast.UnaryExpr, environment: Environment) -> Any:
    value = evaluate(expr.operand, environment)
    if expr.operator == "!":
        return not _boolean("!", value)
    if not _is_number(value):
        raise _Failure(f"Type error in '{expr.operator}': expected a number, got {_kind(value)}")
    return _in_range(expr.operator, -value)


def _literal(expr: ast.ArrayLiteral | ast.MapLiteral, environment: Environment) -> Any:
    return bounded(_put_together(expr, environment), expr.location)


def _put_together(expr: ast.Expr, environment: Environment) -> Any:
    """Literals in literals are one value, looked at once."""
    if isinstance(expr, ast.ArrayLiteral):
        return [_put_together(each, environment) for each in expr.elements]
    if isinstance(expr, ast.MapLiteral):
        return {each.key: _put_together(each.value, environment) for each in expr.entries}
    return evaluate(expr, environment)


def _index(expr: ast.IndexExpr, environment: Environment) -> Any:
    target = evaluate(expr.target, environment)
    index = evaluate(expr.index, environment)
    is_list = isinstance(target, list) and isinstance(index, int) and not isinstance(index, bool)
    is_map = isinstance(target, Mapping) and isinstance(index, str)
    if not (is_list or is_map):
        raise _Failure(f"Index error: {_kind(target)} has no element {as_text(index)!r}")
    try:
        return target[index]
    except (IndexError, KeyError):
        raise _Failure(f"Index error: there is no element {as_text(index)!r}") from None


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a Boolean"),
    ((int, float), "a number"),
    (str, "a String"),
    (list, "a list"),
    (Mapping, "a map"),
)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return next((name for types, name in _KINDS if isinstance(value, types)), "a value")


_EVALUATORS: dict[type, Callable[[Any, Environment], Any]] = {
    ast.Literal: lambda expr, _: expr.value,
    ast.Reference: _reference,
    ast.ConcatExpr: _concat,
    ast.BinaryExpr: _binary,
    ast.UnaryExpr: _unary,
    ast.IndexExpr: _index,
    ast.ArrayLiteral: _literal,
    ast.MapLiteral: _literal,
}
