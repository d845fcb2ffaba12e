"""Objects that models write: their schema, and the check against it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from afl.agents.errors import InvalidArguments
from afl.agents.shapes import Field, Shape


class Place(msgspec.Struct):
    city: str
    above: Place | None = None


def test_a_field_may_have_any_name() -> None:
    shape = Shape([Field("class", int), Field("two words", str, "x")])
    assert shape.checked({"class": 1}) == {"class": 1, "two words": "x"}
    assert list(shape.schema["properties"]) == ["class", "two words"]
    assert shape.schema["required"] == ["class"]


def test_text_in_an_annotation_describes_the_field() -> None:
    shape = Shape([Field("n", Annotated[int, "how many", msgspec.Meta(ge=1)])])
    described = {"type": "integer", "description": "how many", "minimum": 1}
    assert shape.schema["properties"]["n"] == described
    with pytest.raises(InvalidArguments, match=">= 1"):
        shape.checked({"n": 0})


def test_types_within_are_part_of_the_schema() -> None:
    schema = Shape([Field("at", Place)]).schema
    assert schema["properties"]["at"] == {"$ref": "#/$defs/Place"}
    assert schema["$defs"]["Place"]["required"] == ["city"]


def test_a_default_is_not_shared() -> None:
    shape = Shape([Field("names", list[str], [])])
    first: Any = shape.checked({})
    first["names"].append("x")
    assert shape.checked({}) == {"names": []}


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "number"},
        "is_new": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
        "more": {"type": "object"},
        "any": {},
    },
    "required": ["name", "size", "tags", "any"],
}
GOOD: dict[str, Any] = {"name": "x", "size": 1, "tags": ["a"], "any": None}


def test_a_value_that_fits_a_schema_keeps_only_its_fields() -> None:
    whole = {**GOOD, "at": {"city": "Ulm", "zip": 1}, "more": {"a": [1]}, "is_new": False}
    shape = Shape.of_schema(SCHEMA)
    assert shape.checked({**whole, "because": "so"}) == {**whole, "at": {"city": "Ulm"}}
    assert shape.checked(GOOD) == GOOD


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "missing required field `name`"),
        ({**GOOD, "name": 1}, r"Expected `str`, got `int` - at `\$.name`"),
        ({**GOOD, "size": "1"}, "Expected `float`, got `str`"),
        ({**GOOD, "is_new": 1}, "Expected `bool`"),
        ({**GOOD, "tags": ["a", None]}, r"at `\$.tags\[1\]`"),
        ({**GOOD, "at": {}}, "missing required field `city`"),
        ({**GOOD, "more": []}, r"at `\$.more`"),
        (["name"], "Expected `object`, got `array`"),
        (None, "got `null`"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(value: Any, reason: str) -> None:
    with pytest.raises(InvalidArguments, match=reason):
        Shape.of_schema(SCHEMA).checked(value)


def test_a_schema_without_fields_takes_any_object() -> None:
    assert Shape.of_schema({"type": "object"}).checked({"a": 1}) == {}
