"""Values that every service takes, and every store.

What tools give and models write may be no Unicode: the name of a file, half of a character.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.error_text import storable


def readable(value: Any) -> Any:
    """A JSON value whose texts are storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {readable(key): readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [readable(each) for each in value]
    return value
