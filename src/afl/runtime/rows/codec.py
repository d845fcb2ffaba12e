"""JSON values of records, and which have none.

Three things that Python has and JSON has not are refused before
anything is written: text that is not valid Unicode (a lone surrogate), numbers that are none (NaN,
infinity), and objects that are no data. What JSON spells in another way comes back in that way: a
tuple as a list, a key as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from afl.db.refusals import not_text
from afl.errors import StoreMisused

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def to_json(value: Any) -> str:
    """The JSON text of a value. Raises StoreMisused if it has none."""
    try:
        text = _encode(value)
    except UnicodeEncodeError as error:
        raise not_text(error) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreMisused(
            f"a value cannot be kept as JSON: {error}; hand over plain data"
        ) from error
    # The encoder writes null for a number that is none; whoever has no null need not look.
    if b"null" in text and _has_odd_number(value):
        raise StoreMisused(
            "NaN and infinity cannot be kept as JSON; hand over null or text in their place"
        )
    return text.decode()


def from_json(text: str) -> Any:
    return _decode(text)


def reader_of(kind: Any) -> Callable[[str], Any]:
    """What reads JSON text of values of one type."""
    return msgspec.json.Decoder(kind).decode


def _has_odd_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_odd_number, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_odd_number, value))
    return False
