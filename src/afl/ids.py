"""Ids: canonical lower-case UUID text, fresh or derived.

- `new_id()` is different every time; for things that happen (a run, a message).
- `stable_id(...)` is the same for the same parts, on any machine and in any version; for things
  that are (a statement of a program, a side effect of a turn).

Ids that are made within a moment begin alike, and so do the steps of a run: whatever is written
together then stands together in the indexes of a database. An id carries no order and no time: the
beginnings come round again after some minutes.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid

from afl.clock import SYSTEM_CLOCK

#: Root of all derived ids. It is part of stored data: changing it changes every stable id.
NAMESPACE = uuid.UUID("8b0f3d5e-6c1c-4f0b-9d0a-51f6b0c4a7e2")

_FORM = r"[0-9a-f]{8}-[0-9a-f]{4}-%s[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_ID, _FRESH = re.compile(_FORM % "[458]"), re.compile(_FORM % "8")
_SEEDED = hashlib.sha1(NAMESPACE.bytes, usedforsecurity=False)
#: So a busy machine begins a few dozen runs in one.
_MOMENTS_A_SECOND = 64
#: What people see of an id in lists: the moment, and enough to tell what began in it apart.
_SHORT = 13
#: The digit that holds the RFC 9562 variant, for each digit the hash may have there.
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def new_id() -> str:
    """A fresh id: 16 bits of the moment, then random ones (UUID version 8)."""
    moment = int(SYSTEM_CLOCK.monotonic() * _MOMENTS_A_SECOND) & 0xFFFF
    return _text(f"{moment:04x}{os.urandom(14).hex()}", 8)


def stable_id(*parts: str) -> str:
    """The id of these parts, in this order: UUID version 5 of `joined(*parts)` in NAMESPACE."""
    return _text(_digest(parts), 5)


def stable_id_beside(other: str, *parts: str) -> str:
    """The id of these parts, with the beginning of `other` if that is a fresh id, or stands beside
    one: of version 8 then. Beside any other text, and ids from before fresh ones began with their
    moment, it is `stable_id(*parts)`."""
    if _FRESH.fullmatch(other) is None:
        return stable_id(*parts)
    return _text(other[:4] + _digest(parts)[4:], 8)


def _digest(parts: tuple[str, ...]) -> str:
    # Compiling asks for one per statement; by hand this takes a third of the time of uuid.uuid5.
    digest = _SEEDED.copy()
    # Text may hold lone surrogates (from JSON escapes), and must still have an id.
    digest.update(joined(*parts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _text(h: str, version: int) -> str:
    return f"{h[:8]}-{h[8:12]}-{version}{h[13:16]}-{_VARIANT[h[16]]}{h[17:20]}-{h[20:32]}"


def joined(*parts: str) -> str:
    """One text for many parts. The lengths keep ("a", "b/c") and ("a/b", "c") apart."""
    return "".join([f"{len(part)}:{part}" for part in parts])


def is_id(text: str) -> bool:
    """Whether `text` has the exact form of ids made here."""
    return _ID.fullmatch(text) is not None


def short_id(text: str) -> str:
    """The beginning of an id: enough to find it by, nearly always."""
    return text[:_SHORT]
