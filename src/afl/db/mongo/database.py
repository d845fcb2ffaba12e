"""A MongoDB database as one process sees it: a client, its clock, and a stream of changes.

Everything that keeps data there shares this object. It knows no collection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import pymongo
from pymongo.client_session import ClientSession
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.mongo.abandoned import Abandoned
from afl.db.mongo.address import (
    DEFAULT_DATABASE,
    address_of,
    connect,
    place_of,
    require_name,
)
from afl.db.mongo.errors import errors_translated
from afl.db.mongo.transaction import NEWS, Reader, milliseconds, topics_of
from afl.db.remote_bell import RemoteBell
from afl.db.sharing import Held, Registry
from afl.errors import ConfigurationError, StoreUnavailable

T = TypeVar("T")
Client: TypeAlias = "pymongo.MongoClient[dict[str, Any]]"

#: Durable on most members, on their disks.
MAJORITY = pymongo.WriteConcern("majority", j=True)
_LONGEST_HEARING_MS = 200
_OPENING_S = 0.5
_NO_REPLICA_SET = (
    "{place} is a standalone server, which has neither transactions nor change streams. Start it "
    "with `mongod --replSet rs0` and say once `mongosh --eval 'rs.initiate()'`: one member is "
    "enough"
)


class MongoDatabase(Held):
    """`client` is used as it is and stays its owner's; else one is made for the URL.

    `clock` counts how long waits at the bell last. Raises ConfigurationError for a URL, a name or
    a client that cannot be; that nobody answers there shows at the first call.
    """

    def __init__(
        self,
        url: str,
        name: str | None = None,
        *,
        client: Client | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._is_ours = client is None
        address = None if client is not None else address_of(url)
        self.name = name or (address and address.database) or DEFAULT_DATABASE
        require_name(self.name)
        self.client: Client = connect(address) if address else _ours_to_use(client)
        super().__init__(place_of(self.client, self.name))
        self.majority = self.client.get_database(
            self.name,
            # Not that of the client: other members may not have yet what was just written.
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("majority"),
            write_concern=MAJORITY,
        )
        self.abandoned = Abandoned(self.client)
        self._times = _Times()
        hears = threading.Event()
        self.bell = _Bell(
            hears,
            self.place,
            lambda: _Ear(self.majority, self.place, hears),
            self._publish,
            clock=clock,
            guard=self.check,
        )

    def require_replica_set(self) -> None:
        """Raises ConfigurationError for a standalone server, StoreUnavailable if nobody answers."""
        with errors_translated(self.place):
            answer = self.client.admin.command("hello")
        self._times.heard(milliseconds(answer["localTime"]))
        if "setName" not in answer and answer.get("msg") != "isdbgrid":
            raise ConfigurationError(_NO_REPLICA_SET.format(place=self.place))

    def now_ms(self) -> int:
        """The time of the server, in milliseconds since 1970."""
        self.check()
        with errors_translated(self.place):
            now = milliseconds(self.client.admin.command("hello")["localTime"])
        self._times.heard(now)
        return now

    def next_number(self) -> int:
        """Greater than all before in this process; of all processes, by the time of the server."""
        return self._times.next_number()

    def read(self, fn: Callable[[Reader], T]) -> T:
        """Run `fn`, which asks, or changes single documents. Each call sees what is committed by
        then. Raises StoreUnavailable, after which it may have been done or not; Conflict."""
        self.check()
        with errors_translated(self.place):
            return fn(Reader(self.majority))

    def view(self, fn: Callable[[Reader], T]) -> T:
        """Like `read`, for who only asks; but all questions see the same moment."""
        self.check()
        with errors_translated(self.place), self.client.start_session(snapshot=True) as session:
            return fn(Reader(self.majority, session))

    @contextmanager
    def session(self) -> Iterator[ClientSession]:
        """For transactions. Errors of MongoDB come out as they are."""
        self.check()
        with self.client.start_session(causal_consistency=False) as session:
            yield session

    def _publish(self, topics: tuple[str, ...]) -> None:
        raise NotImplementedError("news come with what is written")

    def _end(self) -> None:
        self.bell.close()
        if self._is_ours:
            self.client.close()


def _ours_to_use(client: object) -> Client:
    if not isinstance(client, pymongo.MongoClient):
        raise ConfigurationError(
            f"`client` must be a pymongo.MongoClient, not {type(client).__name__}: what keeps data "
            "here asks from threads of its own, and awaits nothing"
        )
    return client


class _Bell(RemoteBell):
    """Opening a stream takes a while, and wakes everybody in the end. Who counts before that would
    be woken for nothing, so the first ones wait a moment for it."""

    def __init__(self, hears: threading.Event, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._hears = hears

    def count(self, topic: str) -> int:
        counted = super().count(topic)
        if self._hears.is_set():
            return counted
        SYSTEM_CLOCK.wait(self._hears, _OPENING_S)
        return super().count(topic)


class _Times:
    """Numbers that grow with the time of the server. Only the order of things hangs on them, so a
    guess at the time will do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead_ms = 0
        self._last = 0

    def heard(self, now_ms: int) -> None:
        self._ahead_ms = now_ms - round(SYSTEM_CLOCK.monotonic() * 1000)

    def next_number(self) -> int:
        about = round(SYSTEM_CLOCK.monotonic() * 1000) + self._ahead_ms
        with self._lock:
            # Room for a million in a millisecond, and for the year 2248.
            self._last = max(self._last + 1, about << 20)
            return self._last


class _Ear:
    """A change stream of all that is news. It resumes by itself where it can."""

    def __init__(self, database: Any, place: str, hears: threading.Event) -> None:
        self._place = place
        self._hears = hears
        self._is_interrupted = False
        with errors_translated(place):
            self._stream = database.watch(_NEWS_ONLY, max_await_time_ms=_LONGEST_HEARING_MS)

    def hear(self) -> Iterable[str]:
        self._hears.set()
        topics: set[str] = set()
        with errors_translated(self._place):
            change = self._stream.try_next()
            while change is not None:
                topics.update(topics_of(change[NEWS]))
                change = None if self._is_interrupted else self._at_hand()
        if not self._stream.alive:
            raise StoreUnavailable(f"{self._place}: the stream of changes has ended")
        return topics

    def _at_hand(self) -> Any:
        """The next one, if it came together with the last."""
        # Asking the server would be waiting, while somebody could be woken.
        has_more = getattr(self._stream._cursor, "_data", None)
        return self._stream.try_next() if has_more else None

    def interrupt(self) -> None:
        self._is_interrupted = True  # it looks up several times in a second

    def close(self) -> None:
        self._stream.close()


_CHANGED = f"updateDescription.updatedFields.{NEWS}"
_NEWS_ONLY: list[dict[str, Any]] = [
    {
        "$match": {
            "$or": [
                {"operationType": "insert", f"fullDocument.{NEWS}": {"$exists": True}},
                {"operationType": "update", _CHANGED: {"$exists": True}},
            ]
        }
    },
    {"$project": {NEWS: {"$ifNull": [f"${_CHANGED}", f"$fullDocument.{NEWS}"]}}},
]

_registry: Registry[MongoDatabase] = Registry()


def open_mongo(
    url: str,
    name: str | None = None,
    *,
    client: Client | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> MongoDatabase:
    """The database at a URL (`mongodb://user:password@host:27017/database`), or that of a client.

    Whoever opens the same again shares the object; each must close it. Raises ConfigurationError
    for a URL that cannot be, and if it is open already with another clock.
    """
    key = url if client is None else f"client {id(client)}"
    return _registry.open(
        f"{key} {name}", (clock,), lambda: MongoDatabase(url, name, client=client, clock=clock)
    )
