"""Asking for pages of lists with a cursor that came from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afl.errors import StoreMisused, UsageError


@contextmanager
def from_cursor(cursor: str | None) -> Iterator[None]:
    """Around the question for a page. Raises UsageError for a cursor that the store cannot look
    for: it can be read as a place, and is beyond all that there can be."""
    try:
        yield
    except StoreMisused:
        if cursor is None:
            raise
        raise UsageError(
            f"'{cursor}' is no place in a list; use the cursor of a page, or begin without one"
        ) from None
