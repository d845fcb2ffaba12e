"""What may enter a run: JSON values, and nothing that only looks like one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from afl.error_text import with_article
from afl.errors import UsageError

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
#: Nearly all are dicts; asking for the abstract class takes much longer.
_MAPPINGS = (dict, Mapping)


class NotJson(UsageError):  # noqa: N818 - what is wrong is what callers catch
    """A value that a run cannot keep."""


class JsonObject(dict[str, Any]):
    """What `json_object` gave: nobody else has it, and it need not be looked at again."""

    __slots__ = ()


def json_object(value: Mapping[str, Any], what: str) -> JsonObject:
    """A copy of `value` as plain dicts, lists and scalars; what is one already stays as it is.

    Raises NotJson, which names `what` and the place of the value in it.
    """
    if isinstance(value, JsonObject):
        return value
    if not isinstance(value, _MAPPINGS):
        raise NotJson(f"{what}: expected a mapping of names to values, got {_kind(value)}")
    try:
        return JsonObject(_copied(value, ""))
    except _Refused as refused:
        raise NotJson(f"{what}: {refused}") from None
    except RecursionError:
        raise NotJson(f"{what}: nested too deeply, or containing itself") from None


class _Refused(Exception):  # noqa: N818 - becomes a NotJson
    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place.removeprefix('.') or 'the value'} {problem}")


def _copied(value: Any, place: str) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, int):
        if not _SMALLEST <= value <= _LARGEST:
            raise _Refused(place, f"is {value}; whole numbers have at most 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _Refused(place, f"is {value}; JSON has no such number")
        return float(value)
    if isinstance(value, _MAPPINGS):
        # Here, and not in a function of its own: how deep a value may be hangs on it.
        return {_key(key, place): _copied(each, f"{place}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(each, f"{place}[{index}]") for index, each in enumerate(value)]
    raise _Refused(
        place, f"is {_kind(value)}; expected text, a number, a Boolean, null, a list or a map"
    )


def _key(key: Any, place: str) -> str:
    if not isinstance(key, str):
        raise _Refused(place, f"has the key {key!r}; keys are text")
    return _text(key, place)


def _text(value: str, place: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _Refused(place, "is text that is not valid Unicode (a lone surrogate)") from None
    return str.__str__(value)  # plain text, also of an enum


def _kind(value: object) -> str:
    kind = type(value)
    return with_article(f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
