"""PostgreSQL: one pool of connections for each URL and process, migrations, and announcements.

- `open_postgres(url)` gives the `PostgresDatabase`; everybody in a process shares it.
- `query` is one statement in one round trip; `transact` and `write` are one transaction.
- `Writer` commits together what waits together; `inserting` and `updating` make statements that
  change many rows at once.
- `migrate` brings the tables of a component to the newest version, once for all processes.
- `PostgresDatabase.bell` wakes whoever waits for news, in any process.
"""

from __future__ import annotations

from afl.db.postgres.database import Cursor, PostgresDatabase, open_postgres
from afl.db.postgres.migrations import migrate, schema_version
from afl.db.postgres.statements import inserting, updating
from afl.db.postgres.transaction import Reader, Transaction
from afl.db.postgres.writer import Writer

__all__ = [
    "Cursor",
    "PostgresDatabase",
    "Reader",
    "Transaction",
    "Writer",
    "inserting",
    "migrate",
    "open_postgres",
    "schema_version",
    "updating",
]
