"""Transactions: what a function that reads or writes is given, for as long as it runs.

Thin on purpose: SQL goes to SQLite as it is and rows come back as tuples. Neither the connection
nor a cursor gets out, so nothing can be used after its end.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from afl.errors import StoreMisused

Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]

#: Statements that were looked at: most are the same few, again and again.
_harmless: set[str] = set()
_REMEMBERED = 1000
_CONTROL = re.compile(r"\s*(?:begin|commit|end|rollback|savepoint|release)\b", re.IGNORECASE)


class Reader:
    """One consistent view of the database. Ends with the function it was given to."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection: sqlite3.Connection | None = connection

    def query_one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row, or None."""
        cursor = self._usable(sql).execute(sql, parameters)
        try:
            row: Row | None = cursor.fetchone()
            return row
        finally:
            # A statement left half-way would hold its locks until it is collected.
            cursor.close()

    def query_all(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows. Writing statements with RETURNING are queries, too."""
        return self._usable(sql).execute(sql, parameters).fetchall()

    def end(self) -> None:
        self._connection = None

    def _usable(self, sql: str) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            raise StoreMisused(
                "this transaction has ended with the function it was given to; do all of its "
                "work there"
            )
        # SQLite ends a whole transaction by itself when the disk is full or fails. Whoever caught
        # that error and went on would write each statement in a transaction of its own.
        if not connection.in_transaction:
            raise StoreMisused("this transaction was undone after an error; let that error out")
        if sql in _harmless:
            return connection
        if _CONTROL.match(sql):
            raise StoreMisused(
                f"{sql.split()[0].upper()} in a transaction: it begins and ends by itself; raise "
                "to undo it"
            )
        if len(_harmless) < _REMEMBERED:
            _harmless.add(sql)
        return connection


class Transaction(Reader):
    """A request to change the database: applied as a whole when its function returns, or not."""

    __slots__ = ("topics",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        #: What was announced; heard of only once it is committed.
        self.topics: list[str] = []

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Run one statement; the number of rows it inserted, changed or deleted."""
        cursor = self._usable(sql).execute(sql, parameters)
        try:
            return max(cursor.rowcount, 0)
        finally:
            cursor.close()

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> int:
        """Run one statement for each set of parameters; the number of rows changed in all."""
        cursor = self._usable(sql).executemany(sql, parameters)
        try:
            return max(cursor.rowcount, 0)
        finally:
            cursor.close()

    def announce(self, topic: str) -> None:
        """Wake whoever waits for `topic`, in all processes, once this is committed."""
        self.topics.append(topic)
