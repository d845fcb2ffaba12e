"""Beginning and ending transactions, in as few round trips as can be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from afl.db.postgres.transaction import Reader, Transaction
from afl.errors import StoreMisused

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

#: The server's time in milliseconds since 1970, or the time that tests tell.
SERVER_TIME = """\
coalesce(%(told)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"""
_BEGIN = f"BEGIN; SELECT {SERVER_TIME}"
_VIEW = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def begin(connection: Connection, told: int | None) -> int:
    """Begin a transaction; the time."""
    # Put in by hand: two statements at once take no parameters.
    sql = _BEGIN.replace("%(told)s", "NULL" if told is None else str(int(told)))
    cursor = connection.execute(sql, prepare=False)
    cursor.nextset()
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


def commit(connection: Connection) -> None:
    cursor = connection.execute("COMMIT", prepare=False)
    if cursor.statusmessage != "COMMIT":
        raise StoreMisused("this transaction was undone after an error; let that error out")


def roll_back(connection: Connection) -> None:
    """As far as it can be reached: a connection that is lost has undone it."""
    import psycopg

    with suppress(psycopg.Error):
        if not connection.closed:
            connection.execute("ROLLBACK", prepare=False)


def transacted(connection: Connection, told: int | None, fn: Callable[[Transaction], T]) -> T:
    """Run `fn` in a transaction, which is committed when this returns, or not at all."""
    tx = Transaction(connection, begin(connection, told))
    try:
        value = fn(tx)
        tx.flush()
    except BaseException:
        roll_back(connection)
        raise
    finally:
        tx.end()
    commit(connection)
    return value


def viewed(connection: Connection, fn: Callable[[Reader], T]) -> T:
    """Run `fn`, which only asks, on the state of one moment."""
    connection.execute(_VIEW, prepare=False)
    reader = Reader(connection)
    try:
        return fn(reader)
    finally:
        reader.end()
        roll_back(connection)  # there is nothing to commit
