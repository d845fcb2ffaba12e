"""SQLite: one file, many processes, one writer thread in each.

- `open_database(url)` gives the `Database` of a file; everybody in a process shares it.
- `write` and `submit` commit what waits together in one transaction, durable across power loss.
- `read` sees one consistent snapshot, beside the writer.
- `Database.bell` wakes whoever waits for news, in any process on this machine.
"""

from __future__ import annotations

from afl.db.sqlite.database import Database, DatabaseStatistics
from afl.db.sqlite.registry import open_database
from afl.db.sqlite.transaction import Reader, Row, Transaction

__all__ = ["Database", "DatabaseStatistics", "Reader", "Row", "Transaction", "open_database"]
