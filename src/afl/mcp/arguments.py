"""Arguments and results as types: their JSON Schemas, and what is said about wrong ones.

What is said names the argument and what it may be, so that whoever called can correct it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from afl.errors import UsageError
from afl.lang.diagnostics import suggest

_MISSING = re.compile(r"Object missing required field `(?P<name>\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.+)`")
_PLACED = re.compile(r"(?P<what>.*) - at `\$\.?(?P<path>.*)`")


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a tool takes."""


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a tool gives. Fields that were not set are left out."""

    success: Annotated[bool, Meta(description="If not, `error` says why, and what to do.")]
    error: str | UnsetType = UNSET


A = TypeVar("A", bound=Arguments)


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of an object of this type, as MCP wants it: an object at the root."""
    whole = msgspec.json.schema(kind)
    others = dict(whole["$defs"])
    root = {key: value for key, value in others.pop(kind.__name__).items() if key in _ROOT}
    return {**root, "$defs": others} if others else root


_ROOT = ("type", "properties", "required", "additionalProperties")


def read(kind: type[A], given: dict[str, Any]) -> A:
    """The arguments of a call. Raises UsageError that says what is wrong with them."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise UsageError(_explained(str(error), kind, given)) from None


def _explained(text: str, kind: type[Arguments], given: dict[str, Any]) -> str:
    properties = schema_of(kind)["properties"]
    if missing := _MISSING.fullmatch(text):
        return f"{missing['name']} is required"
    if unknown := _UNKNOWN.fullmatch(text):
        hint = suggest(unknown["name"], properties) or f"it takes {', '.join(properties)}"
        return f"there is no argument '{unknown['name']}'; {hint}"
    if placed := _PLACED.fullmatch(text):
        name = placed["path"]
        options = properties.get(name, {}).get("enum")
        if options:
            return f"Invalid {name}: {given[name]!r}; use one of {', '.join(map(str, options))}"
        return f"Invalid {name}: {placed['what']}"
    return text


def as_plain(value: Result) -> dict[str, Any]:
    """The values of a result as JSON has them; first whether it was done."""
    plain: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    return {"success": plain.pop("success"), **plain}
