"""How all parts of the store reach the database, and how they wait for it to change."""

from __future__ import annotations

import math
import threading
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
from afl.errors import StoreClosed, StoreMisused, StoreUnavailable
from afl.ids import new_id
from afl.runtime.postgres_store.schema import COMPONENT, MIGRATIONS

P = ParamSpec("P")
T = TypeVar("T")

#: Waiters look again after this time, whatever they were told: a lease that was given meanwhile is
#: nobody's news, and a connection that is dead may not know it yet.
LOOK_S = 5.0
#: How long a wait may sleep through an outage that it found by itself; the bell ends it earlier.
_OUTAGE_S = 1.0

#: Milliseconds since 1970 in place of the server's time. Only tests have one.
Told = Callable[[], int]


class Access:
    """An open database with the tables of the engine."""

    def __init__(
        self,
        url: str,
        owner: str | None,
        pool_size: int,
        clock: Clock = SYSTEM_CLOCK,
        told: Told | None = None,
    ) -> None:
        self.owner = new_id() if owner is None else owner
        self._clock = clock
        self._told: Callable[[], int | None] = _nothing if told is None else told
        self._closing = threading.Lock()
        self._is_closed = False
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
        topic, bell = topic_of(topic), self.database.bell
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
