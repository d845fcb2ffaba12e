"""How all parts of the store reach the database, and how they wait for it to change."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from afl.clock import Clock
from afl.db.migrations import migrate
from afl.db.sqlite import Database, Reader, Transaction, open_database
from afl.errors import StoreClosed
from afl.ids import new_id
from afl.runtime.asking.access import Storing
from afl.runtime.sql_store.refusals import refusing
from afl.runtime.sql_store.schema import COMPONENT, MIGRATIONS

P = ParamSpec("P")
T = TypeVar("T")


class Access(Storing[Reader, Transaction]):
    """An open database with the tables of the engine."""

    #: A lease that was given meanwhile is nobody's news, and the clock of the machine may have been
    #: set.
    look_s = 1.0

    def __init__(
        self,
        address: str | os.PathLike[str],
        clock: Clock,
        owner: str | None,
        poll_interval_s: float,
    ) -> None:
        self.owner = new_id() if owner is None else owner
        self._clock = clock
        self._closing = threading.Lock()
        self._is_closed = False
        self.database: Database = open_database(
            address, clock=clock, poll_interval_s=poll_interval_s
        )
        try:
            migrate(self.database, COMPONENT, MIGRATIONS)
        except BaseException:
            self.database.close()
            raise

    def now_ms(self) -> int:
        return self.database.now_ms()

    def close(self) -> None:
        """Let go of the file; others in this process may go on with it."""
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self.database.close()

    def _read(
        self, query: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._require_open()
        with refusing():
            return self.database.read(lambda reader: query(reader, *args, **kwargs))

    def _write(
        self, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._require_open()
        with refusing():
            return self.database.write(lambda tx: change(tx, *args, **kwargs))

    def _write_lightly(self, change: Callable[[Transaction], T]) -> T:
        """For what a loss of power may undo: it is not flushed by itself."""
        self._require_open()
        with refusing():
            return self.database.write(change, is_durable=False)

    def _wait(
        self,
        topic: str,
        seconds_left: Callable[[Reader], float],
        timeout: float | None,
        stop: threading.Event | None,
    ) -> bool:
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        while stop is None or not stop.is_set():
            seen = self.database.bell.count(topic)
            left = self._read(seconds_left)
            patience = deadline - self._clock.monotonic()
            if left <= 0 or patience <= 0:
                return left <= 0
            self.database.bell.wait(topic, seen, min(left, patience, self.look_s), stop)
        return False

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(
                f"the store on {self.database.path} was closed; whoever uses it must stop"
            )
