"""Beginning and ending transactions, in as few round trips as can be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import psycopg

from afl.db.postgres.transaction import Reader, Transaction
from afl.db.postgres.wire import Connection

T = TypeVar("T")

_VIEW = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def roll_back(connection: Connection) -> None:
    """As far as it can be reached: a connection that is lost has undone it."""
    with suppress(psycopg.Error):
        if not connection.closed:
            connection.execute("ROLLBACK", prepare=False)


def transacted(connection: Connection, told: int | None, fn: Callable[[Transaction], T]) -> T:
    """Run `fn` in a transaction, which is committed when this returns, or not at all."""
    tx = Transaction(connection, told)
    try:
        value = fn(tx)
        tx.commit()
    except BaseException:
        roll_back(connection)
        raise
    finally:
        tx.end()
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
