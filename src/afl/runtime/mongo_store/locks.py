"""Locks: who holds them, by the server's clock.

A lock keeps the length it was given for beside its end: an end further ahead than that comes from
a clock that was set back, and counts as over. The server removes locks that nobody has held for an
hour.

The time of a command is that of its beginning, and it may wait for a document: a lock that
somebody took meanwhile would seem to come from the future. So who wants one looks first, and takes
it only as it was seen: the time of that change is later than whatever was seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pymongo.errors import DuplicateKeyError

from afl.db.mongo import Document, Reader
from afl.errors import Conflict
from afl.runtime.entities import LockDefinition, LockMetaData
from afl.runtime.mongo_store.documents import Documents
from afl.runtime.mongo_store.schema import LOCKS
from afl.runtime.mongo_store.times import Now, literal

KIND = Documents(LOCKS, LockDefinition, key="key")

Change = list[dict[str, Any]]

_HOUR_MS = 3_600_000
_LONGEST_MS = 10 * 365 * 24 * _HOUR_MS


class Holder(NamedTuple):
    """Who asks for a lock."""

    key: str
    owner: str


def acquire(
    reader: Reader, holder: Holder, duration_ms: int, meta: LockMetaData | None, now: Now
) -> bool:
    change: Change = [{"$set": _taken(holder, duration_ms, meta, now)}, {"$unset": "is_new"}]
    seen = _seen(reader, holder)
    while not _is_taken_as_seen(reader, holder, seen, change, now):
        before, seen = seen, _seen(reader, holder)
        if seen == before:
            return False
        # It was taken, or the holder itself extended or released it: look at that.
    return True


def _seen(reader: Reader, holder: Holder) -> Document | None:
    fields = dict.fromkeys(("owner", "expires_at", "length_ms"), 1)
    return reader.one(LOCKS, {"_id": holder.key}, fields=fields)


def _is_taken_as_seen(
    reader: Reader, holder: Holder, seen: Document | None, change: Change, now: Now
) -> bool:
    if seen is None:
        return _is_made(reader, holder, change)
    is_mine = {"$eq": ["$owner", literal(holder.owner)]}
    is_free = {"$expr": {"$or": [is_mine, {"$not": [_held(now)]}]}}
    return reader.change(LOCKS, {**seen, **is_free}, change) is not None


def _is_made(reader: Reader, holder: Holder, change: Change) -> bool:
    try:
        # No lock is like this, so one that is there is in the way.
        reader.change(LOCKS, {"_id": holder.key, "is_new": True}, change, upsert=True)
    except (DuplicateKeyError, Conflict):
        return False
    return True


def _taken(holder: Holder, duration_ms: int, meta: LockMetaData | None, now: Now) -> dict[str, Any]:
    known = KIND.document(LockDefinition(holder.key, meta=meta, owner=holder.owner))
    return {
        "acquired_at": now.ms,
        "seq": now.ms,
        "meta": literal(known["meta"]),
        "owner": literal(holder.owner),
        **_until(duration_ms, now),
    }


def _until(duration_ms: int, now: Now) -> dict[str, Any]:
    amount = min(max(duration_ms, 0), _LONGEST_MS) + _HOUR_MS
    return {
        "expires_at": now.after(duration_ms),
        "length_ms": literal(duration_ms),
        # By the real time, whatever tests tell: the server removes by it.
        "removed_at": {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": amount}},
    }


def _held(now: Now) -> dict[str, Any]:
    return {
        "$and": [
            {"$gt": ["$expires_at", now.ms]},
            {"$lte": ["$expires_at", {"$add": [now.ms, "$length_ms"]}]},
        ]
    }


def _mine(holder: Holder, now: Now) -> dict[str, Any]:
    return {"_id": holder.key, "owner": holder.owner, "$expr": _held(now)}


def check(reader: Reader, key: str, now: Now) -> LockDefinition | None:
    return KIND.one(reader, {"_id": key, "$expr": _held(now)})


def extend(reader: Reader, holder: Holder, duration_ms: int, now: Now) -> bool:
    change = [{"$set": _until(duration_ms, now)}]
    return reader.change(LOCKS, _mine(holder, now), change) is not None


def release(reader: Reader, holder: Holder, now: Now) -> bool:
    return reader.remove(LOCKS, _mine(holder, now)) > 0


def held(reader: Reader, now: Now) -> list[LockDefinition]:
    return KIND.all(reader, {"$expr": _held(now)})
