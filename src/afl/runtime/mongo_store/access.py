"""How all parts of the store reach the database, and how they wait for it to change."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import pymongo

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.mongo import MongoDatabase, Reader, Transaction, Writer, open_mongo, prepare
from afl.db.mongo.database import Client
from afl.db.mongo.errors import refusing
from afl.errors import StoreClosed, StoreMisused, StoreUnavailable
from afl.ids import new_id
from afl.runtime.mongo_store.queue import PATIENCE_S
from afl.runtime.mongo_store.schema import COLLECTIONS, COMPONENT, VERSION
from afl.runtime.mongo_store.times import Now

P = ParamSpec("P")
T = TypeVar("T")

#: Waiters look again after this time, whatever they were told: a lease that was given meanwhile is
#: nobody's news, and a stream that is dead may not know it yet.
LOOK_S = 5.0
#: How long a wait may sleep through an outage that it found by itself; the bell ends it earlier.
_OUTAGE_S = 1.0
_ATTEMPTS = 4

#: Milliseconds since 1970 in place of the server's time. Only tests have one.
Told = Callable[[], int]


class Access:
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
        self.owner = new_id() if owner is None else owner
        self._clock = clock
        self._told: Callable[[], int | None] = _nothing if told is None else told
        self._closing = threading.Lock()
        self._is_closed = False
        self.database: MongoDatabase = open_mongo(url, name, client=client, clock=clock)
        try:
            self.database.require_replica_set()
            if creates_indexes:
                prepare(self.database, COMPONENT, VERSION, COLLECTIONS)
        except BaseException:
            self.database.close()
            raise
        self.writer = Writer(self.database, self._told)

    def now_ms(self) -> int:
        self._require_open()
        told = self._told()
        return self.database.now_ms() if told is None else told

    def close(self) -> None:
        """Write what was submitted, and let go; others in this process may go on with it."""
        self._forbid_in_decision("close")
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        try:
            self.writer.close()
        finally:
            self.database.bell.nudge(None)  # who waits here waits for nothing
            self.database.close()

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

    def _wait(
        self,
        topic: str,
        seconds_left: Callable[[Reader], float],
        timeout: float | None,
        stop: threading.Event | None,
        *,
        or_news: bool = False,
    ) -> bool:
        """Wait until nothing is left to wait for: True. `seconds_left` is asked at all news, unless
        `or_news` says that they are enough.

        An outage during the wait does not end it: the bell rings when the server is back.
        """
        bell = self.database.bell
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        is_patient = False
        while stop is None or not stop.is_set():
            seen = bell.count(topic)
            left = self._left(seconds_left, is_patient)
            patience = deadline - self._clock.monotonic()
            if left <= 0 or patience <= 0:
                return left <= 0
            has_news = bell.wait(topic, seen, min(left, patience, LOOK_S), stop)
            if has_news and or_news:
                return True
            is_patient = True
        return False

    def _left(self, seconds_left: Callable[[Reader], float], is_patient: bool) -> float:
        try:
            return self._read(seconds_left)
        except StoreUnavailable:
            if not is_patient:
                raise
            return _OUTAGE_S

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(
                f"the store on {self.database.place} was closed; whoever uses it must stop"
            )
        self.database.check()

    def _forbid_in_decision(self, verb: str) -> None:
        if self.writer.is_current_thread:
            raise StoreMisused(
                f"{verb} inside a decision on {self.database.place}: it would not see what is "
                "decided, or wait for itself. Use the view that the decision was given; a callback "
                "of a future must hand over to another thread"
            )


def _nothing() -> None:
    return None
