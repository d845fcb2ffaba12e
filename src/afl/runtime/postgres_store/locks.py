# ruff: noqa: S608 - statements are made of constants
"""Locks: who holds them, by the server's clock.

A lock keeps the length it was given for beside its end: an end further ahead than that comes from
a clock that was set back, and counts as over. So whoever judges a lock must have a time that is
later than the writing of it: they take their turn first, and ask for the time then.
"""

from __future__ import annotations

from typing import NamedTuple

from afl.db.postgres import Reader, Transaction
from afl.db.postgres.transaction import SERVER_TIME
from afl.runtime.entities import LockDefinition, LockMetaData
from afl.runtime.rows.table import PERCENT, Table, upsert_sql

LOCKS = Table("afl_lock", LockDefinition, key=("key",), mark=PERCENT)

_SAVE = upsert_sql("afl_lock", (*LOCKS.columns, "length_ms"), ("key",), PERCENT)
_CLOCK = f"WITH clock AS MATERIALIZED (SELECT {SERVER_TIME} AS now)"
_NOW = "(SELECT now FROM clock)"
_HELD = f"expires_at > {_NOW} AND expires_at <= {_NOW} + length_ms"
ALL = f"{_CLOCK} {LOCKS.select} WHERE {_HELD} ORDER BY seq"
BY_KEY = f'{_CLOCK} {LOCKS.select} WHERE "key" = %(key)s AND {_HELD}'
_EXTEND = f"""{_CLOCK}
UPDATE afl_lock SET expires_at = {_NOW} + %(duration)s, length_ms = %(duration)s
WHERE "key" = %(key)s AND owner = %(owner)s AND {_HELD}"""
_RELEASE = f"""{_CLOCK}
DELETE FROM afl_lock WHERE "key" = %(key)s AND owner = %(owner)s AND {_HELD}"""
#: Some at a time, and none that somebody is just about to take. Others are not in our turn: what
#: seems to come from the future may have been taken while this looked.
_CLEAN = f"""{_CLOCK}
DELETE FROM afl_lock WHERE seq = ANY (ARRAY (
    SELECT seq FROM afl_lock WHERE expires_at <= {_NOW} LIMIT 100 FOR UPDATE SKIP LOCKED
))"""


class Holder(NamedTuple):
    """Who asks for a lock."""

    key: str
    owner: str


def acquire(tx: Transaction, holder: Holder, duration_ms: int, meta: LockMetaData | None) -> bool:
    now = _take_turn(tx, holder)
    found = check(tx, holder.key, now)
    if found is not None and found.owner != holder.owner:
        return False
    tx.execute(_CLEAN, {"told": now})
    lock = LockDefinition(holder.key, now, now + duration_ms, meta, holder.owner)
    tx.execute(_SAVE, [*LOCKS.row(lock), duration_ms])
    return True


def _take_turn(tx: Transaction, holder: Holder) -> int:
    """The time, while nobody else changes this lock."""
    tx.lock(f"lock:{holder.key}")
    return tx.read_clock()


def check(reader: Reader, key: str, told: int | None) -> LockDefinition | None:
    row = reader.query_one(BY_KEY, {"key": key, "told": told})
    return None if row is None else LOCKS.record(row)


def extend(tx: Transaction, holder: Holder, duration_ms: int) -> bool:
    now = _take_turn(tx, holder)
    values = {**holder._asdict(), "duration": duration_ms, "told": now}
    return tx.execute(_EXTEND, values) > 0


def release(tx: Transaction, holder: Holder) -> bool:
    now = _take_turn(tx, holder)
    return tx.execute(_RELEASE, {**holder._asdict(), "told": now}) > 0


def held(reader: Reader, told: int | None) -> list[LockDefinition]:
    return [LOCKS.record(row) for row in reader.query_all(ALL, {"told": told})]
