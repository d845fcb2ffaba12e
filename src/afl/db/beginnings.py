"""Where texts that begin alike stand in an index."""

from __future__ import annotations

#: The last character there is.
_LAST = "\U0010ffff"


def bounds(prefix: str) -> tuple[str, str]:
    """All that begin so are not before the first of these, and before the second."""
    return prefix, prefix + _LAST
