"""Keys in a SQLite file, for all processes of a machine."""

from __future__ import annotations

import os
import threading

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.migrations import Migration, history, migrate
from afl.db.sqlite import Transaction, open_database

COMPONENT = "idempotency"
MIGRATIONS = history(
    Migration(
        1,
        "idempotency keys",
        (
            """\
CREATE TABLE idempotency_key (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID""",
            "CREATE INDEX idempotency_key_until ON idempotency_key (until)",
        ),
    )
)
_GET = "SELECT value FROM idempotency_key WHERE key = ? AND until > ?"
_PUT = """\
INSERT INTO idempotency_key (key, value, until) VALUES (:key, :new, :until)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until
WHERE idempotency_key.until <= :now"""
_SWAP = """\
UPDATE idempotency_key SET value = :new, until = :until
WHERE key = :key AND value = :old AND until > :now"""
_DROP = "DELETE FROM idempotency_key WHERE key = :key AND value = :old"
#: A few with each new one: so none is ever kept for long, and nobody waits for many.
_SWEEP = """\
DELETE FROM idempotency_key WHERE key IN (
    SELECT key FROM idempotency_key WHERE until <= :now AND key <> :key LIMIT 3
)"""


class SqliteCells:
    """Raises what `afl.db.sqlite.open_database` raises, and NewerSchema."""

    def __init__(self, address: str | os.PathLike[str], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._closing = threading.Lock()
        self._is_closed = False
        self._database = open_database(address, clock=clock)
        try:
            migrate(self._database, COMPONENT, MIGRATIONS)
        except BaseException:
            self._database.close()
            raise

    def now_ms(self) -> int:
        return self._database.now_ms()

    def get(self, key: str) -> bytes | None:
        now = self.now_ms()
        row = self._database.read(lambda reader: reader.query_one(_GET, (key, now)))
        return None if row is None else row[0]

    def swap(self, key: str, old: bytes | None, new: bytes | None, ttl_ms: int) -> bool:
        def change(tx: Transaction) -> bool:
            now = self.now_ms()
            facts = {"key": key, "old": old, "new": new, "now": now, "until": now + ttl_ms}
            if old is None:
                tx.execute(_SWEEP, facts)
                return tx.execute(_PUT, facts) == 1
            return tx.execute(_DROP if new is None else _SWAP, facts) == 1

        return self._database.write(change)

    def close(self) -> None:
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._database.close()
