"""Turns in MongoDB: durable, and shared by any number of processes on any number of machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.mongo import MongoDatabase, Reader, Transaction, Writer, open_mongo, prepare
from afl.db.mongo.address import DEFAULT_URL
from afl.db.mongo.database import Client
from afl.db.mongo.errors import refusing
from afl.db.mongo.transaction import BETWEEN_TOPICS
from afl.db.remote_bell import RemoteBell
from afl.turns.mongo_schema import COLLECTIONS, COMPONENT, VERSION
from afl.turns.mongo_shelf import MongoShelf
from afl.turns.remote import RemoteTurns, Told
from afl.turns.shelf import Shelf

T = TypeVar("T")


class MongoTurns(RemoteTurns):
    """A turn store in a MongoDB database.

    `url` is `mongodb://user:password@host:27017/database`; without a name the database is `afl`.
    `client` is used in place of a connection of the store's own, and is not closed with it.
    `clock` counts how long waits last, and `told` is the time in place of the server's: both are
    for tests. No value may be larger than 16 MB.

    Raises ConfigurationError for a URL that cannot be and for a server that is no replica set,
    StoreUnavailable while nobody answers there, and NewerSchema for collections that only a newer
    afl understands.
    """

    #: Transactions of MongoDB are best small.
    _most_pruned = 20

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        client: Client | None = None,
        clock: Clock = SYSTEM_CLOCK,
        told: Told | None = None,
    ) -> None:
        super().__init__(clock, told)
        self._database: MongoDatabase = open_mongo(url, client=client, clock=clock)
        try:
            self._database.require_replica_set()
            prepare(self._database, COMPONENT, VERSION, COLLECTIONS)
        except BaseException:
            self._database.close()
            raise
        self._requests = Writer(self._database, self._told)

    @property
    def _place(self) -> MongoDatabase:
        return self._database

    @property
    def _bell(self) -> RemoteBell:
        return self._database.bell

    @property
    def _writer(self) -> Writer:
        return self._requests

    def _topic(self, name: str) -> str:
        return name.replace(BETWEEN_TOPICS, " ")

    def _ask_time(self) -> int:
        told = self._told()
        return self._database.now_ms() if told is None else told

    def _change(self, fn: Callable[[Shelf], T]) -> T:
        def run(tx: Transaction) -> T:
            with refusing():
                shelf = self._shelf(tx)
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
            return fn(self._shelf(reader))

    def _shelf(self, reader: Reader) -> MongoShelf:
        return MongoShelf(reader, self._ask_time, self._topic)
