"""How all parts of the store reach the database, and how they wait for it to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import pymongo

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.mongo import (
    MongoDatabase,
    Reader,
    Transaction,
    Writer,
    open_mongo,
    prepare,
    require_prepared,
)
from afl.db.mongo.database import Client
from afl.db.mongo.errors import refusing
from afl.errors import StoreUnavailable
from afl.runtime.mongo_store.queue import PATIENCE_S
from afl.runtime.mongo_store.schema import COLLECTIONS, COMPONENT, VERSION
from afl.runtime.mongo_store.times import Now
from afl.runtime.remote_access import RemoteAccess, Told

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS = 4


class Access(RemoteAccess[Reader, Transaction]):
    """An open database with the collections of the engine."""

    def __init__(
        self,
        url: str,
        name: str | None,
        client: Client | None,
        *,
        creates_indexes: bool = True,
        owner: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        told: Told | None = None,
    ) -> None:
        super().__init__(owner, clock, told)
        self.database: MongoDatabase = open_mongo(url, name, client=client, clock=clock)
        try:
            self.database.require_replica_set()
            if creates_indexes:
                prepare(self.database, COMPONENT, VERSION, COLLECTIONS)
            else:
                require_prepared(self.database, COMPONENT, VERSION)
        except BaseException:
            self.database.close()
            raise
        self.writer = Writer(self.database, self._told)

    def now_ms(self) -> int:
        self._require_open()
        told = self._told()
        return self.database.now_ms() if told is None else told

    @property
    def _now(self) -> Now:
        return Now(self._told())

    def _read(
        self, query: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._require_open()
        self._forbid_in_decision("a question to the store")
        with refusing():
            return self.database.read(lambda reader: query(reader, *args, **kwargs))

    def _change(
        self, change: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Change single documents, at once. Outside of transactions the server lets such changes
        wait for whoever holds the document; that may be somebody who is dead."""

        def limited(reader: Reader) -> T:
            with pymongo.timeout(PATIENCE_S):
                return change(reader, *args, **kwargs)

        return self._unhindered(limited)

    def _unhindered(self, change: Callable[[Reader], T]) -> T:
        """Do it again if it was held up for longer than the living would."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._read(change)
            except StoreUnavailable as error:
                if not getattr(error.__cause__, "timeout", False):
                    raise
                self.database.abandoned.end()
        return self._read(change)

    def _write(
        self, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._require_open()
        self._forbid_in_decision("a write")

        def run(tx: Transaction) -> T:
            with refusing():
                answer = change(tx, *args, **kwargs)
                tx.flush()
                return answer

        return self.writer.run(run)

    def _save(self, kind: Any, record: Any, **options: Any) -> None:
        """Insert or replace one document."""
        self._change(kind.save, record, self.database.next_number(), **options)
