"""Values that no database can take: what the caller is told."""

from __future__ import annotations

from afl.errors import StoreMisused


def not_text(error: UnicodeEncodeError) -> StoreMisused:
    return StoreMisused(
        f"text that is not valid Unicode cannot be kept: {error.reason} at position {error.start}; "
        "replace such characters first"
    )


def too_large_number() -> StoreMisused:
    return StoreMisused("a number does not fit into 64 bits; hand it over as text")
