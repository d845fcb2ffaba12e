"""How all parts of the store reach the database, and how they wait for it to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.postgres import (
    PostgresDatabase,
    Reader,
    Transaction,
    Writer,
    migrate,
    open_postgres,
)
from afl.db.postgres.errors import refusing
from afl.db.postgres.text import topic_of
from afl.db.postgres.transaction import SERVER_TIME
from afl.runtime.postgres_store.schema import COMPONENT, MIGRATIONS
from afl.runtime.remote_access import RemoteAccess, Told

P = ParamSpec("P")
T = TypeVar("T")


class Access(RemoteAccess[Reader, Transaction]):
    """An open database with the tables of the engine."""

    def __init__(
        self,
        url: str,
        owner: str | None,
        pool_size: int | None,
        clock: Clock = SYSTEM_CLOCK,
        told: Told | None = None,
    ) -> None:
        super().__init__(owner, clock, told)
        self.database: PostgresDatabase = open_postgres(url, pool_size=pool_size, clock=clock)
        try:
            migrate(self.database, COMPONENT, MIGRATIONS)
        except BaseException:
            self.database.close()
            raise
        self.writer = Writer(self.database, self._told)

    def now_ms(self) -> int:
        row = self._read(Reader.query_one, f"SELECT {SERVER_TIME}", {"told": self._told()})
        assert row is not None
        return int(row[0])

    def _read(
        self, query: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._require_open()
        self._forbid_in_decision("a question to the store")
        with refusing():
            return self.database.read(lambda reader: query(reader, *args, **kwargs))

    def _write(
        self, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._require_open()
        self._forbid_in_decision("a write")

        def run(tx: Transaction) -> T:
            with refusing():
                return change(tx, *args, **kwargs)

        return self.writer.run(run)

    def _heard_as(self, topic: str) -> str:
        return topic_of(topic)
