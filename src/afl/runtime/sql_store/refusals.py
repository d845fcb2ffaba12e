"""Values that no column can take: what the caller is told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from afl.db.refusals import not_text, too_large_number
from afl.errors import StoreMisused

#: A missing value, and one of the wrong kind. Python has no name for the second before 3.12.
_WRONG_VALUE = (sqlite3.SQLITE_CONSTRAINT_NOTNULL, 3091)


@contextmanager
def refusing() -> Iterator[None]:
    """Raise StoreMisused where a value cannot be kept; all else comes out as it is."""
    try:
        yield
    except (UnicodeEncodeError, OverflowError, sqlite3.Error) as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise meaning from error


def _meaning(error: Exception) -> StoreMisused | None:
    if isinstance(error, UnicodeEncodeError):
        return not_text(error)
    if isinstance(error, OverflowError):
        return too_large_number()
    is_wrong = getattr(error, "sqlite_errorcode", None) in _WRONG_VALUE
    if is_wrong or str(error).startswith("Error binding parameter"):
        return StoreMisused(f"a field has a value of the wrong kind: {error}")
    return None
