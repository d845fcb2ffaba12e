"""Readers: connections that look at the database beside the writer.

Each read is one snapshot: what was committed when it first looked, whatever is written meanwhile.
Readers never block the writer and are never blocked by it. At most `limit` work at once, because
each holds two file descriptors; the rest wait their turn.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from afl.db.sqlite.connection import connect, errors_translated
from afl.db.sqlite.transaction import Reader
from afl.errors import StoreClosed, StoreMisused

T = TypeVar("T")

_IDLE = 4  # connections kept for the next reads


class Readers:
    def __init__(self, path: str, busy_timeout_s: float, limit: int = 16) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._turns = threading.Semaphore(limit)
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._readers: set[int] = set()
        self._is_closed = False

    @property
    def active(self) -> int:
        return len(self._readers)

    def read(self, fn: Callable[[Reader], T]) -> T:
        thread = threading.get_ident()
        # Who holds a turn and asks for another would wait for himself as soon as all turns are
        # taken; and would be given two different snapshots, which is rarely meant.
        if thread in self._readers:
            raise StoreMisused("a read inside a read; pass on the Reader that you were given")
        with self._turns:
            connection = self._take(thread)
            try:
                return self._snapshot(connection, fn)
            finally:
                self._give_back(connection, thread)

    def close(self) -> None:
        """Refuse further reads. Those at work end in peace and close their connections."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _snapshot(self, connection: sqlite3.Connection, fn: Callable[[Reader], T]) -> T:
        reader = Reader(connection)
        try:
            with errors_translated(self._path), _writing_refused():
                connection.execute("BEGIN DEFERRED")
                return fn(reader)
        finally:
            reader.end()

    def _take(self, thread: int) -> sqlite3.Connection:
        with self._lock:
            if self._is_closed:
                raise StoreClosed(f"{self._path} was closed in this process")
            connection = self._idle.pop() if self._idle else None
        connection = connection or connect(self._path, self._busy_timeout_s, query_only=True)
        self._readers.add(thread)
        return connection

    def _give_back(self, connection: sqlite3.Connection, thread: int) -> None:
        self._readers.discard(thread)
        is_sound = self._is_ended(connection)
        with self._lock:
            is_kept = is_sound and not self._is_closed and len(self._idle) < _IDLE
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def _is_ended(self, connection: sqlite3.Connection) -> bool:
        """End the snapshot; an old one kept open would stop the log from being emptied."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            return False
        return True


@contextmanager
def _writing_refused() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY:
            raise StoreMisused("a read cannot change anything; use write") from error
        raise
