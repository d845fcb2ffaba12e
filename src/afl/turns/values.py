"""Values in journals: JSON, in one form, so that the same value has the same hash."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from afl.error_text import with_article
from afl.errors import UsageError


def encode(value: Any) -> bytes:
    """As JSON with sorted keys. Raises UsageError for what cannot be JSON."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, msgspec.MsgspecError) as problem:
        what = with_article(type(value).__name__)
        raise UsageError(
            f"{what} cannot be kept in a journal: {problem}; use values that can be JSON"
        ) from None


def decode(value: bytes) -> Any:
    return msgspec.json.decode(value)


#: What JSON gives back as it was.
_PLAIN = (str, int, bool, type(None))


def as_kept(value: Any) -> tuple[bytes, Any]:
    """As JSON; and as whoever resumes gets it, so that code gets the same the first time. Raises
    UsageError for what cannot be JSON, also for numbers that JSON does not have."""
    if isinstance(value, str):
        # Texts of others, like names of files, may be no Unicode: they are no reason to fail.
        value = value.encode(errors="replace").decode()
    encoded = encode(value)
    if b"null" in encoded:  # else there is none
        _require_finite(value)
    return encoded, value if type(value) in _PLAIN else decode(encoded)


def _require_finite(value: Any) -> None:
    try:
        json.dumps(msgspec.to_builtins(value), allow_nan=False)
    except ValueError:
        raise UsageError(
            "NaN and infinity cannot be kept in a journal: JSON does not have them; use None or a "
            "text in their place"
        ) from None


def digest(value: bytes) -> str:
    """What large values are kept under, and what they are compared by."""
    return hashlib.sha256(value).hexdigest()
