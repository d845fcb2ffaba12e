"""Turns in PostgreSQL: durable, and shared by any number of processes on any number of machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.postgres import PostgresDatabase, Reader, Transaction, Writer, migrate, open_postgres
from afl.db.postgres.errors import refusing
from afl.db.postgres.text import topic_of
from afl.db.remote_bell import RemoteBell
from afl.turns.postgres_schema import COMPONENT, MIGRATIONS
from afl.turns.postgres_shelf import PostgresShelf
from afl.turns.remote import RemoteTurns, Told
from afl.turns.shelf import Shelf

T = TypeVar("T")


class PostgresTurns(RemoteTurns):
    """A turn store in a PostgreSQL database.

    `url` is `postgresql://user:password@host:5432/database`. `pool_size` is how many connections
    this process uses at most, beside one that listens; everything that opens the same URL in a
    process shares them. `clock` counts how long waits last, and `told` is the time in place of the
    server's: both are for tests.

    Raises ConfigurationError for a URL that cannot be, StoreUnavailable while nobody answers
    there, and NewerSchema for tables that only a newer afl understands.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
        told: Told | None = None,
    ) -> None:
        super().__init__(clock, told)
        self._database: PostgresDatabase = open_postgres(url, pool_size=pool_size, clock=clock)
        try:
            migrate(self._database, COMPONENT, MIGRATIONS)
        except BaseException:
            self._database.close()
            raise
        self._requests = Writer(self._database, self._told)

    @property
    def _place(self) -> PostgresDatabase:
        return self._database

    @property
    def _bell(self) -> RemoteBell:
        return self._database.bell

    @property
    def _writer(self) -> Writer:
        return self._requests

    def _topic(self, name: str) -> str:
        return topic_of(name)

    def _change(self, fn: Callable[[Shelf], T]) -> T:
        def run(tx: Transaction) -> T:
            with refusing():
                shelf = PostgresShelf(tx, self._told())
                answer = fn(shelf)
                shelf.settle()
                return answer

        self._require_open()
        return self._requests.run(run)

    def _look(self, fn: Callable[[Shelf], T]) -> T:
        self._require_open()
        return self._database.read(lambda reader: self._looked(reader, fn))

    def _view(self, fn: Callable[[Shelf], T]) -> T:
        self._require_open()
        return self._database.view(lambda reader: self._looked(reader, fn))

    def _looked(self, reader: Reader, fn: Callable[[Shelf], T]) -> T:
        with refusing():
            return fn(PostgresShelf(reader, self._told()))
