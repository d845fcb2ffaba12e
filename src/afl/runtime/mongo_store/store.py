"""The store on MongoDB: any number of processes on any number of machines."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.mongo import Reader, Transaction
from afl.db.mongo.address import DEFAULT_DATABASE, DEFAULT_URL
from afl.db.mongo.database import Client
from afl.runtime.asking.lists import AskedLists
from afl.runtime.asking.steps import AskedSteps
from afl.runtime.conveniences import Conveniences
from afl.runtime.mongo_store import events, lists, steps
from afl.runtime.mongo_store.along import Along
from afl.runtime.mongo_store.catalog_port import CatalogPort
from afl.runtime.mongo_store.changes import apply
from afl.runtime.mongo_store.holding import Holding
from afl.runtime.mongo_store.run_port import RunPort
from afl.runtime.mongo_store.task_port import TaskPort
from afl.runtime.mongo_store.view import MongoView
from afl.runtime.persistence import Decision, IterationChanges
from afl.runtime.remote_access import Told

T = TypeVar("T")


class MongoSettings(Protocol):
    """What `from_config` takes: where the server is, and the name of the database."""

    @property
    def database(self) -> str: ...

    def connection_string(self) -> str: ...


class MongoStore(
    AskedSteps[Reader, Transaction],
    AskedLists[Reader],
    TaskPort,
    RunPort,
    CatalogPort,
    Conveniences,
):
    """Keeps all of `afl.runtime.persistence.PersistenceAPI` in a MongoDB database.

    `connection_string` is `mongodb://user:password@host:27017`; without one, a server on this
    machine. A database that it names counts unless `database_name` is another one than `afl`.
    `client` is used in place of a connection of the store's own, and is not closed with it. A read
    preference of either does not count: all questions go to the primary.
    `create_indexes=False` leaves collections and indexes to somebody who may make them. `owner` is
    who claims tasks and holds locks where nobody else is named; a fresh id unless it is given.
    `clock` counts how long waits last, and `told` is the time in place of the server's: both are
    for tests.

    Decisions of a process that wait together share a transaction. Raises ConfigurationError for
    a URL, a name or a client that cannot be and for a server that is no replica set,
    StoreUnavailable while nobody answers there, and NewerSchema for collections that only a newer
    afl understands.
    """

    _steps, _events, _lists = steps, events, lists

    def __init__(
        self,
        connection_string: str = "",
        database_name: str = DEFAULT_DATABASE,
        create_indexes: bool = True,
        client: Client | None = None,
        *,
        owner: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        told: Told | None = None,
    ) -> None:
        super().__init__(
            connection_string or DEFAULT_URL,
            None if database_name == DEFAULT_DATABASE else database_name,
            client,
            creates_indexes=create_indexes,
            owner=owner,
            clock=clock,
            told=told,
        )
        self._along = Along(clock)

    @classmethod
    def from_config(cls, config: MongoSettings, **options: Any) -> MongoStore:
        """From a `MongoDBConfig`, or anything of its shape; `options` are those of the store."""
        return cls(config.connection_string(), config.database, **options)

    def decide(self, decision: Decision[T]) -> T:
        self._require_open()
        self._forbid_in_decision("another decision")
        return self.writer.run(lambda tx: self._decided(tx, decision))

    def decide_later(self, decision: Decision[T]) -> Future[T]:
        self._require_open()
        return self.writer.submit(lambda tx: self._decided(tx, decision))

    def commit(self, changes: IterationChanges) -> None:
        self._write(self._apply, changes)

    def _decided(self, tx: Transaction, decision: Decision[T]) -> T:
        holding = Holding(tx)
        changes, answer = decision(MongoView(tx, holding))
        self._apply(tx, changes, holding)
        return answer

    def _apply(
        self, tx: Transaction, changes: IterationChanges, holding: Holding | None = None
    ) -> None:
        apply(tx, changes, holding)
        self._along.fill(tx, changes.claimings, self._now)

    def __enter__(self) -> MongoStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
