"""What is known about the type of a value before the program runs. Often nothing.

A type is a builtin name, an `ArrayOf`, a schema's declaration, or None for "not known". Not
knowing is never an error: Json values and undeclared facets are part of the language.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from afl.lang import ast
from afl.lang.names import Declared, Names

BUILTINS = ("String", "Long", "Int", "Double", "Boolean", "Json")
NUMBERS = frozenset({"Int", "Long", "Double"})


class ArrayOf(NamedTuple):
    element: Type


Type: TypeAlias = "str | ArrayOf | Declared | None"

_LITERALS: dict[str, Type] = {
    "string": "String",
    "integer": "Long",
    "double": "Double",
    "boolean": "Boolean",
}
_BOOLEAN_OPERATORS = frozenset(
    {"==", "!=", "<", ">", "<=", ">=", "&&", "||", "in", "not in"}
    | {"contains", "startsWith", "endsWith"}
)


def literal_type(literal: ast.Literal) -> Type:
    return _LITERALS.get(literal.kind)


def declared_type(names: Names, namespace: str, node: ast.TypeExpr) -> Type:
    """The type that a declaration writes; None if its name is not known."""
    if isinstance(node, ast.ArrayType):
        return ArrayOf(declared_type(names, namespace, node.element_type))
    if node.name in BUILTINS:
        return node.name
    return names.resolve_schema(namespace, node.name).declared


def field_type(names: Names, owner: Type, name: str) -> Type:
    """The type of a field of a value; None where nothing is known."""
    if isinstance(owner, Declared) and name in owner.params:
        return declared_type(names, owner.namespace, owner.params[name].type)
    return None


def accepts(expected: Type, actual: Type) -> bool:
    """Whether a value of one type may stand where another is declared."""
    if expected is None or actual is None or "Json" in (expected, actual):
        return True
    if isinstance(expected, ArrayOf) and isinstance(actual, ArrayOf):
        return accepts(expected.element, actual.element)
    if isinstance(expected, str) and isinstance(actual, str):
        return expected == actual or _widens(expected, actual)
    return expected is actual


def _widens(expected: str, actual: str) -> bool:
    """Whole numbers pass for any number; a Double does not pass for a whole one."""
    return expected in NUMBERS and actual in ("Int", "Long")


def type_name(type_: Type) -> str:
    if isinstance(type_, ArrayOf):
        return f"[{type_name(type_.element)}]"
    if isinstance(type_, Declared):
        return type_.qualified
    return type_ or "unknown"


def operator_type(operator: str, left: Type, right: Type) -> Type:
    """The type of `left operator right`."""
    if operator in _BOOLEAN_OPERATORS:
        return "Boolean"
    if operator == "/" or "Double" in (left, right):
        return "Double"
    return "Long" if left in ("Int", "Long") and right in ("Int", "Long") else None
