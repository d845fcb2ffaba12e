"""Values in journals: JSON, in one form, so that the same value has the same hash."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from afl.errors import UsageError


def encode(value: Any) -> bytes:
    """As JSON with sorted keys. Raises UsageError for what cannot be JSON."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, msgspec.MsgspecError) as problem:
        raise UsageError(
            f"a {type(value).__name__} cannot be kept in a journal: {problem}; use values that "
            "can be JSON"
        ) from None


def decode(value: bytes) -> Any:
    return msgspec.json.decode(value)


def digest(value: bytes) -> str:
    """What large values are kept under, and what they are compared by."""
    return hashlib.sha256(value).hexdigest()
