"""Records that are rows and nothing else: messages, dead letters, idempotency keys."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from afl.db.plain import PlainRows
from afl.errors import UsageError
from afl.operations.copying.listing import AT_ONCE
from afl.operations.copying.progress import Pace, Part, PartReport


def copy_rows(
    source: Sequence[PlainRows], target: Sequence[PlainRows], pace: Pace
) -> list[PartReport]:
    """Both have the same kinds, or one of them has none. Raises Differs."""
    if not source or not target:
        return [Part(each.kind).report(left=each.count()) for each in source]
    return [_copy(*each, pace) for each in zip(source, target, strict=True)]


def _copy(source: PlainRows, target: PlainRows, pace: Pace) -> PartReport:
    part, before = Part(source.kind), _standing(source)
    pace.began(f"{source.kind}s", source.count())
    for page in source.read(AT_ONCE):
        records = {source.key_of(each): dict(each) for each in page}

        def find(keys: Sequence[str], known: dict[str, dict[str, Any]] = records) -> dict[str, Any]:
            found = target.find([known[each] for each in keys])
            return {target.key_of(each): dict(each) for each in found}

        part.bring(records, find, target.add, _plain)
        pace.went_on(len(page))
    if _standing(source) != before:
        raise UsageError(
            f"{source.kind}s at the source have changed while they were copied; stop whoever uses "
            "them, and copy into an empty database"
        )
    return part.report()


def _standing(rows: PlainRows) -> bytes:
    """The same again, if nothing was changed in between."""
    standing = sha256()
    for page in rows.read(AT_ONCE):
        standing.update(repr([_plain(dict(each)) for each in page]).encode())
    return standing.digest()


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Bytes as every driver gives them."""
    return {
        name: bytes(each) if isinstance(each, bytes | bytearray | memoryview) else each
        for name, each in record.items()
    }
