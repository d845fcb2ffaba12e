"""Ids: canonical lower-case UUID text, fresh or derived.

- `new_id()` is different every time; for things that happen (a run, a message).
- `stable_id(...)` is the same for the same parts, on any machine and in any version; for things
  that are (a statement of a program, a side effect of a turn).

An id carries no order and no time.
"""

from __future__ import annotations

import hashlib
import re
import uuid

#: Root of all derived ids. It is part of stored data: changing it changes every stable id.
NAMESPACE = uuid.UUID("8b0f3d5e-6c1c-4f0b-9d0a-51f6b0c4a7e2")

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_SEEDED = hashlib.sha1(NAMESPACE.bytes, usedforsecurity=False)
#: The digit that holds the RFC 9562 variant, for each digit the hash may have there.
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def new_id() -> str:
    """A fresh random id."""
    return str(uuid.uuid4())


def stable_id(*parts: str) -> str:
    """The id of these parts, in this order: UUID version 5 of `joined(*parts)` in NAMESPACE."""
    # Compiling asks for one per statement; by hand this takes a third of the time of uuid.uuid5.
    digest = _SEEDED.copy()
    # Text may hold lone surrogates (from JSON escapes), and must still have an id.
    digest.update(joined(*parts).encode("utf-8", "surrogatepass"))
    h = digest.hexdigest()
    return f"{h[:8]}-{h[8:12]}-5{h[13:16]}-{_VARIANT[h[16]]}{h[17:20]}-{h[20:32]}"


def joined(*parts: str) -> str:
    """One text for many parts. The lengths keep ("a", "b/c") and ("a/b", "c") apart."""
    return "".join([f"{len(part)}:{part}" for part in parts])


def is_id(text: str) -> bool:
    """Whether `text` has the exact form of ids made here."""
    return _ID.fullmatch(text) is not None
