"""Text as PostgreSQL can keep it: all of Unicode but the character zero.

That one is written as two others. Nearly no text has either, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]

#: A character that nobody uses: it begins what stands for itself, and for the character zero.
_MARK = "\ue000"
_ITSELF, _ZERO = _MARK + "1", _MARK + "0"
_LONGEST_TOPIC = 200  # a notification has room for 8000 bytes


def kept(text: str) -> str:
    """As it is sent. Two that differ are sent as two that differ."""
    if "\0" in text or _MARK in text:
        return text.replace(_MARK, _ITSELF).replace("\0", _ZERO)
    return text


def is_plain(json: str) -> bool:
    """Whether no text in it can be sent as another. Where it is not sure: False."""
    return "\\u0000" not in json and _MARK not in json


def given(text: str) -> str:
    """As it was before."""
    if _MARK in text:
        return text.replace(_ZERO, "\0").replace(_ITSELF, _MARK)
    return text


def topic_of(name: str) -> str:
    """What to announce and to wait for: a name may have any length and any character. Its kind,
    up to a colon, stays readable."""
    name = kept(name)
    if len(name) <= _LONGEST_TOPIC:
        return name
    kind, colon, _ = name.partition(":")
    digest = sha256(name.encode(errors="replace")).hexdigest()
    return f"{kind}{colon}{digest}" if len(kind) + len(digest) < _LONGEST_TOPIC else digest


def kept_values(values: Iterable[Any]) -> list[Any]:
    return [_kept(each) for each in values]


def kept_names(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _kept(each) for name, each in values.items()}


def given_row(row: Row) -> Row:
    for each in row:
        if each.__class__ is str and _MARK in each:
            return tuple(given(each) if isinstance(each, str) else each for each in row)
    return row


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        # Plain text: drivers ask long for how to send the members of an enumeration.
        return kept(value if value.__class__ is str else str(value))
    if isinstance(value, list):
        return kept_values(value)
    return value
