# ruff: noqa: S608 - statements are made of constants
"""Keys in PostgreSQL, for servers on many machines."""

from __future__ import annotations

import threading
from collections.abc import Callable

from afl.db.migrations import Migration, history
from afl.db.postgres import PostgresDatabase, migrate, open_postgres

MIGRATIONS = history(
    Migration(
        1,
        "idempotency keys",
        (
            """\
CREATE TABLE afl_idempotency_key (
    key text PRIMARY KEY,
    value bytea NOT NULL,
    until_ms bigint NOT NULL
)""",
            "CREATE INDEX afl_idempotency_key_until ON afl_idempotency_key (until_ms)",
        ),
    )
)

#: The server's time, moved by what tests add.
_NOW = "((extract(epoch FROM clock_timestamp()) * 1000)::bigint + %(offset)s)"
_GET = f"SELECT value FROM afl_idempotency_key WHERE key = %(key)s AND until_ms > {_NOW}"
_PUT = f"""\
WITH swept AS (
    DELETE FROM afl_idempotency_key WHERE key IN (
        SELECT key FROM afl_idempotency_key WHERE until_ms <= {_NOW} AND key <> %(key)s LIMIT 3
        FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO afl_idempotency_key AS kept (key, value, until_ms)
VALUES (%(key)s, %(new)s, {_NOW} + %(ttl)s)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until_ms = excluded.until_ms
WHERE kept.until_ms <= {_NOW}
RETURNING 1"""
_SWAP = f"""\
UPDATE afl_idempotency_key SET value = %(new)s, until_ms = {_NOW} + %(ttl)s
WHERE key = %(key)s AND value = %(old)s AND until_ms > {_NOW}
RETURNING 1"""
_DROP = """\
DELETE FROM afl_idempotency_key WHERE key = %(key)s AND value = %(old)s RETURNING 1"""


class PostgresCells:
    """`offset` is for tests: what the clock of the server is moved by, in milliseconds. Raises
    NewerSchema, and what `afl.db.postgres.open_postgres` raises."""

    def __init__(self, url: str, *, offset: Callable[[], int] = lambda: 0) -> None:
        self._closing = threading.Lock()
        self._is_closed = False
        self._offset = offset
        self._database: PostgresDatabase = open_postgres(url)
        try:
            migrate(self._database, "idempotency", MIGRATIONS)
        except BaseException:
            self._database.close()
            raise

    def now_ms(self) -> int:
        return int(self._database.query(f"SELECT {_NOW}", {"offset": self._offset()})[0][0])

    def get(self, key: str) -> bytes | None:
        rows = self._database.query(_GET, {"key": key, "offset": self._offset()})
        return bytes(rows[0][0]) if rows else None

    def swap(self, key: str, old: bytes | None, new: bytes | None, ttl_ms: int) -> bool:
        sql = _PUT if old is None else _DROP if new is None else _SWAP
        facts = {"key": key, "old": old, "new": new, "ttl": ttl_ms, "offset": self._offset()}
        return bool(self._database.query(sql, facts))

    def close(self) -> None:
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._database.close()
