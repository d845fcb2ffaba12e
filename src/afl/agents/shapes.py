"""The shape of an object that a model writes: its JSON Schema, and the check against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from afl.agents.errors import InvalidArguments

#: The field must be there.
REQUIRED: Any = msgspec.NODEFAULT

_SIMPLE: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
}


class Field(NamedTuple):
    name: str
    #: A Python type. Text in an `Annotated` describes the field.
    type: Any
    default: Any = REQUIRED


class Shape:
    """Fields with types."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._struct = _struct(fields)

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any]) -> Shape:
        """What a JSON Schema of an object says about names, types and what must be there. Its
        finer rules are for the model alone."""
        return cls(_fields_of(schema))

    @property
    def schema(self) -> dict[str, Any]:
        """As JSON Schema, in one piece."""
        (whole,), components = msgspec.json.schema_components(
            (self._struct,), ref_template="#/$defs/{name}"
        )
        # Asked for by its reference: another type may have the same name.
        own = dict(components.pop(whole["$ref"].removeprefix("#/$defs/")))
        own.pop("title", None)
        own.setdefault("additionalProperties", False)
        return {**own, "$defs": components} if components else own

    def read(self, value: Any) -> msgspec.Struct:
        """The value as an object of this shape; fields that it does not have are dropped.

        Raises InvalidArguments.
        """
        try:
            return msgspec.convert(value, self._struct)
        except (msgspec.ValidationError, RecursionError) as problem:
            raise InvalidArguments(str(problem)) from None

    def checked(self, value: Any) -> dict[str, Any]:
        """The value with exactly the fields of this shape. Raises InvalidArguments."""
        read = msgspec.to_builtins(self.read(value))
        assert isinstance(read, dict)
        return read


def _struct(fields: Sequence[Field]) -> type[msgspec.Struct]:
    # Neutral names: a field may be called `class`.
    names = {f"field_{index}": each.name for index, each in enumerate(fields)}
    members = [
        (name, _described(each.type), _default(each.default))
        for name, each in zip(names, fields, strict=True)
    ]
    return msgspec.defstruct("Value", members, rename=names, kw_only=True)


def _default(value: Any) -> Any:
    if value is REQUIRED:
        return msgspec.field()
    if isinstance(value, list | dict | set | bytearray):
        copy: Callable[[], Any] = value.copy  # each object its own
        return msgspec.field(default_factory=copy)
    return msgspec.field(default=value)


def _described(annotation: Any) -> Any:
    """Text in an `Annotated` as msgspec wants to see it."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *notes = get_args(annotation)
    for note in notes:
        meta = msgspec.Meta(description=note) if isinstance(note, str) else note
        inner = Annotated[inner, meta]
    return inner


def _fields_of(schema: Mapping[str, Any]) -> list[Field]:
    required = set(schema.get("required", ()))
    return [
        # What need not be there is left out, not made up.
        Field(name, _type_of(each)) if name in required else Field(name, *_optional(each))
        for name, each in schema.get("properties", {}).items()
    ]


def _optional(schema: Any) -> tuple[Any, Any]:
    return _type_of(schema) | msgspec.UnsetType, msgspec.UNSET


def _type_of(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "array":
        return list[_type_of(schema.get("items"))]  # type: ignore[misc]
    if kind == "object":
        return _struct(_fields_of(schema)) if schema.get("properties") else dict[str, Any]
    return _SIMPLE.get(kind, Any) if isinstance(kind, str) else Any
