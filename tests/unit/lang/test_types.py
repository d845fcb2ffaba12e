"""What fits where: as far as types are known, and everywhere where they are not."""

from __future__ import annotations

import pytest

from afl.lang import ast
from afl.lang.names import Declared, Names
from afl.lang.parser import parse
from afl.lang.types import (
    BUILTINS,
    ArrayOf,
    Type,
    accepts,
    declared_type,
    field_type,
    literal_type,
    operator_type,
    type_name,
)

NAMES = Names(
    parse(
        """
        namespace shop {
            schema Item { sku: String, price: Double, box: Box, tags: [String] }
            schema Box { width: Long, lid: stock.Box }
        }
        namespace stock { schema Box { height: Long } }
        """
    )
)


def schema(name: str) -> Declared:
    found = NAMES.find(name)
    assert found is not None
    return found


ITEM, BOX = schema("shop.Item"), schema("shop.Box")


# Acceptance


@pytest.mark.parametrize("type_", [*BUILTINS, ArrayOf("Long"), ArrayOf(None), ITEM, None])
def test_a_type_accepts_itself(type_: Type) -> None:
    assert accepts(type_, type_)


@pytest.mark.parametrize("type_", [*BUILTINS, ArrayOf("Long"), ITEM, None])
def test_what_is_not_known_goes_with_everything(type_: Type) -> None:
    assert accepts(type_, None)
    assert accepts(None, type_)


@pytest.mark.parametrize("type_", [*BUILTINS, ArrayOf("Long"), ITEM])
def test_json_goes_with_everything(type_: Type) -> None:
    assert accepts(type_, "Json")
    assert accepts("Json", type_)


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        ("Int", "Long", True),
        ("Long", "Int", True),
        ("Double", "Int", True),
        ("Double", "Long", True),
        ("Int", "Double", False),
        ("Long", "Double", False),
        ("String", "Long", False),
        ("Long", "String", False),
        ("Boolean", "Long", False),
        ("Long", "Boolean", False),
        ("Double", "Boolean", False),
        ("String", "Boolean", False),
        ("String", ArrayOf("String"), False),
        (ArrayOf("String"), "String", False),
        (ArrayOf("Double"), ArrayOf("Long"), True),
        (ArrayOf("Long"), ArrayOf("Double"), False),
        (ArrayOf("Long"), ArrayOf(None), True),
        (ArrayOf("Long"), ArrayOf("Json"), True),
        (ArrayOf(ArrayOf("Long")), ArrayOf("Long"), False),
        (ArrayOf(ArrayOf("Long")), ArrayOf(ArrayOf("Int")), True),
        (ArrayOf(ITEM), ArrayOf(ITEM), True),
        (ArrayOf(ITEM), ArrayOf(BOX), False),
        (ITEM, BOX, False),
        (ITEM, "String", False),
        ("String", ITEM, False),
        (ITEM, ArrayOf(ITEM), False),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value),
)
def test_values_fit_as_declared(expected: Type, actual: Type, fits: bool) -> None:
    assert accepts(expected, actual) is fits


# Names of types


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        ("Long", "Long"),
        (ArrayOf("Long"), "[Long]"),
        (ArrayOf(ArrayOf(ITEM)), "[[shop.Item]]"),
        (ArrayOf(None), "[unknown]"),
        (None, "unknown"),
        (ITEM, "shop.Item"),
    ],
)
def test_types_are_named_as_people_write_them(type_: Type, name: str) -> None:
    assert type_name(type_) == name


# Where types come from


@pytest.mark.parametrize(
    ("value", "kind", "type_"),
    [
        ("x", "string", "String"),
        (1, "integer", "Long"),
        (1.5, "double", "Double"),
        (True, "boolean", "Boolean"),
        (None, "null", None),
    ],
)
def test_literals_have_types_and_null_fits_anywhere(
    value: str | float | bool | None, kind: str, type_: Type
) -> None:
    assert literal_type(ast.Literal(value, kind)) == type_


@pytest.mark.parametrize("name", BUILTINS)
def test_builtin_types_are_the_same_everywhere(name: str) -> None:
    assert declared_type(NAMES, "shop", ast.TypeRef(name)) == name


def test_other_types_are_schemas_seen_from_their_namespace() -> None:
    assert declared_type(NAMES, "shop", ast.TypeRef("Box")) is BOX
    assert declared_type(NAMES, "stock", ast.TypeRef("Box")) is schema("stock.Box")
    assert declared_type(NAMES, "stock", ast.TypeRef("shop.Box")) is BOX
    assert declared_type(NAMES, "stock", ast.TypeRef("Item")) is ITEM


def test_an_unknown_or_ambiguous_type_is_not_known() -> None:
    assert declared_type(NAMES, "shop", ast.TypeRef("Crate")) is None
    assert declared_type(NAMES, "", ast.TypeRef("Box")) is None


def test_arrays_have_elements() -> None:
    nested = ast.ArrayType(ast.ArrayType(ast.TypeRef("Item")))
    assert declared_type(NAMES, "shop", nested) == ArrayOf(ArrayOf(ITEM))


def test_fields_have_the_types_of_their_schema_and_its_namespace() -> None:
    assert field_type(NAMES, ITEM, "price") == "Double"
    assert field_type(NAMES, ITEM, "tags") == ArrayOf("String")
    assert field_type(NAMES, ITEM, "box") is BOX
    assert field_type(NAMES, BOX, "lid") is schema("stock.Box")


@pytest.mark.parametrize("owner", ["Json", "String", None, ArrayOf("Long"), ITEM])
def test_other_fields_are_not_known(owner: Type) -> None:
    assert field_type(NAMES, owner, "elsewhere") is None


# Operators


@pytest.mark.parametrize("operator", ["==", "!=", "<", ">=", "&&", "||", "in", "not in"])
def test_comparisons_and_logic_are_boolean_whatever_they_compare(operator: str) -> None:
    assert operator_type(operator, None, "String") == "Boolean"


@pytest.mark.parametrize("operator", ["contains", "startsWith", "endsWith"])
def test_text_operators_are_boolean(operator: str) -> None:
    assert operator_type(operator, "String", "String") == "Boolean"


@pytest.mark.parametrize(
    ("operator", "left", "right", "type_"),
    [
        ("+", "Int", "Int", "Long"),
        ("*", "Long", "Int", "Long"),
        ("%", "Long", "Long", "Long"),
        ("-", "Double", "Long", "Double"),
        ("+", "Long", "Double", "Double"),
        ("/", "Long", "Long", "Double"),
        ("+", None, "Long", None),
        ("+", "Json", "Long", None),
        ("+", "String", "Long", None),
    ],
)
def test_arithmetic_gives_whole_numbers_of_whole_numbers(
    operator: str, left: Type, right: Type, type_: Type
) -> None:
    assert operator_type(operator, left, right) == type_
