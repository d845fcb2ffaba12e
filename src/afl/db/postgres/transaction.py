"""Transactions: what a function that reads or writes is given, for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from afl.db.postgres.statements import Statement
from afl.db.postgres.text import given_row, kept_names, kept_values, topic_of
from afl.errors import StoreMisused

if TYPE_CHECKING:
    import psycopg

Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]

#: Everything is announced here; the payload is the topic.
CHANNEL = "afl_news"
_ANNOUNCE = f"SELECT pg_notify('{CHANNEL}', each) FROM unnest(%s::text[]) AS each"  # noqa: S608

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


class Reader:
    """Questions to the database. Ends with the function it was given to."""

    __slots__ = ("_connection",)

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection: psycopg.Connection[Row] | None = connection

    def query_one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row, or None."""
        row = self._run(sql, parameters).fetchone()
        return None if row is None else given_row(row)

    def query_all(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows. Writing statements with RETURNING are queries, too."""
        return [given_row(row) for row in self._run(sql, parameters).fetchall()]

    def query_together(self, *questions: tuple[str, Parameters]) -> list[list[Row]]:
        """All rows of each, in one round trip. Each sees what is committed when it begins."""
        puts = [_Put(sql, [_kept(parameters)], None) for sql, parameters in questions]
        cursors = _sent(self._usable(), puts)
        return [[given_row(row) for row in each.fetchall()] for each in cursors]

    def end(self) -> None:
        self._connection = None

    def _run(self, sql: str, parameters: Parameters) -> psycopg.Cursor[Row]:
        return self._usable().execute(sql, _kept(parameters))

    def _usable(self) -> psycopg.Connection[Row]:
        if self._connection is None:
            raise StoreMisused(
                "this transaction has ended with the function it was given to; do all of its "
                "work there"
            )
        return self._connection


class _Put(NamedTuple):
    sql: str | Statement
    rows: list[Any]
    #: What to raise unless each row changed one.
    otherwise: Exception | None


class Transaction(Reader):
    """A request to change the database: applied as a whole when its function returns, or not.

    `now` is the time at its beginning, by the clock of the server, in milliseconds.
    """

    __slots__ = ("_puts", "_topics", "now")

    def __init__(self, connection: psycopg.Connection[Row], now: int = 0) -> None:
        super().__init__(connection)
        self.now = now
        self._topics: set[str] = set()
        self._puts: list[_Put] = []

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Run one statement; the number of rows it inserted, changed or deleted."""
        return max(self._run(sql, parameters).rowcount, 0)

    def lock(self, name: str) -> None:
        """Be the only one, until the end, who has locked this name: for what no row stands for
        that could be locked."""
        self.query_one(_LOCK, (name,))

    def put(
        self,
        sql: str | Statement,
        rows: Iterable[Parameters],
        otherwise: Exception | None = None,
    ) -> None:
        """Run a statement for each of these, with `flush`. If not each has changed one row, then
        `otherwise` is raised there."""
        self._puts.append(_Put(sql, [_kept(row) for row in rows], otherwise))

    def flush(self) -> None:
        """Do all that was put, in its order and in one round trip."""
        if self._topics:
            # Part of the transaction: heard of with its commit, and undone with it.
            self.put(_ANNOUNCE, [(sorted(self._topics),)])
            self._topics = set()
        puts, self._puts = self._puts, []
        if not puts:
            return
        for put, cursor in zip(puts, _sent(self._usable(), puts), strict=True):
            if put.otherwise is not None and cursor.rowcount != len(put.rows):
                raise put.otherwise

    def announce(self, topic: str) -> None:
        """Wake whoever waits for `topic`, in all processes, once this is committed."""
        self._topics.add(topic_of(topic))


def _sent(connection: psycopg.Connection[Row], puts: Sequence[_Put]) -> list[psycopg.Cursor[Row]]:
    cursors = [connection.cursor() for _ in puts]
    error: Exception | None = None
    try:
        with connection.pipeline():
            try:
                for cursor, each in zip(cursors, puts, strict=True):
                    _send(cursor, each.sql, each.rows)
            except Exception as first:
                # Raised below: the driver would log what the end of the pipeline adds to it.
                error = first
    except Exception as last:
        error = error or last
    if error is not None:
        raise error
    return cursors


def _send(cursor: psycopg.Cursor[Row], sql: str | Statement, rows: Sequence[Any]) -> None:
    if isinstance(sql, Statement):
        cursor.execute(*sql.of(rows))
    elif len(rows) == 1:
        cursor.execute(sql, rows[0])
    else:
        cursor.executemany(sql, rows)


def _kept(parameters: Parameters) -> Any:
    if isinstance(parameters, Mapping):
        return kept_names(parameters)
    return kept_values(parameters)
