# ruff: noqa: S608 - statements are made of constants
"""Locks: who holds them, by the store's clock.

A lock keeps the length it was given for beside its end: an end further ahead than that comes from
a clock that was set back, and counts as over.
"""

from __future__ import annotations

from dataclasses import dataclass

from afl.db.sqlite import Reader, Transaction
from afl.runtime.entities import LockDefinition, LockMetaData
from afl.runtime.rows.table import Table, upsert_sql

LOCKS = Table("lock", LockDefinition, key=("key",))

_SAVE = upsert_sql("lock", (*LOCKS.columns, "length_ms"), ("key",))
_HELD = "expires_at > ? AND expires_at <= ? + length_ms"
ALL = f"WHERE {_HELD} ORDER BY seq"
BY_KEY = f'WHERE "key" = ? AND {_HELD}'
_EXTEND = f"""UPDATE lock SET expires_at = ?, length_ms = ?
WHERE "key" = ? AND owner = ? AND {_HELD}"""
_RELEASE = f'DELETE FROM lock WHERE "key" = ? AND owner = ? AND {_HELD}'
_CLEAN = f"DELETE FROM lock WHERE NOT ({_HELD})"


@dataclass(frozen=True)
class Holder:
    """Who asks for a lock, and when."""

    key: str
    owner: str
    now: int


def acquire(tx: Transaction, holder: Holder, duration_ms: int, meta: LockMetaData | None) -> bool:
    key, now = holder.key, holder.now
    found = check(tx, key, now)
    if found is not None and found.owner != holder.owner:
        return False
    tx.execute(_CLEAN, (now, now))
    lock = LockDefinition(key, now, now + duration_ms, meta, holder.owner)
    tx.execute(_SAVE, [*LOCKS.row(lock), duration_ms])
    return True


def check(reader: Reader, key: str, now: int) -> LockDefinition | None:
    return LOCKS.one(reader, BY_KEY, key, now, now)


def extend(tx: Transaction, holder: Holder, duration_ms: int) -> bool:
    key, owner, now = holder.key, holder.owner, holder.now
    values = (now + duration_ms, duration_ms, key, owner, now, now)
    return tx.execute(_EXTEND, values) > 0


def release(tx: Transaction, holder: Holder) -> bool:
    return tx.execute(_RELEASE, (holder.key, holder.owner, holder.now, holder.now)) > 0


def held(reader: Reader, now: int) -> list[LockDefinition]:
    return LOCKS.all(reader, ALL, now, now)
