"""Mailboxes in a SQLite file: durable, and shared by all processes of a machine."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.migrations import migrate
from afl.db.sqlite import Reader, Transaction, open_database
from afl.errors import StoreClosed
from afl.mailbox import sqlite_queue as queue
from afl.mailbox.box import Burial, Buried, Delivery, Depth, Entry, Handle, Waiting
from afl.mailbox.named import NamedMailbox
from afl.mailbox.resolver import MailboxResolver
from afl.mailbox.sqlite_schema import COMPONENT, MIGRATIONS

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

DEFAULT_ADDRESS = "sqlite:///./afl.db"
#: Waiters look again after this time, whatever they were told: the clock of the machine may have
#: been set.
_LOOK_S = 1.0
#: Clocks that are corrected by less disturb no lease that anybody would notice.
_STEP_BACK_MS = 1000


class SqliteBox:
    """A box in a database file, which all boxes and stores of the process share."""

    def __init__(
        self,
        address: str | os.PathLike[str],
        name: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        poll_interval_s: float = 0.5,
    ) -> None:
        self.name = name
        self._clock = clock
        self._topic = f"mailbox:{name}"
        self._is_quiet = False
        self._is_closed = False
        self._closing = threading.Lock()
        self._latest_ms = 0
        #: The clock was set back, perhaps before we came: what is hidden too far ahead is not.
        self._is_set_back = True
        self._database = open_database(address, clock=clock, poll_interval_s=poll_interval_s)
        try:
            migrate(self._database, COMPONENT, MIGRATIONS)
        except BaseException:
            self._database.close()
            raise

    @property
    def place(self) -> str:
        return self._database.path

    def now_ms(self) -> int:
        return self._database.now_ms()

    # Sending and taking

    def put(self, entry: Entry[bytes], capacity: int | None = None) -> bool:
        def change(tx: Transaction) -> bool:
            tx.announce(self._topic)
            return queue.put(tx, self.name, entry, capacity, self.now_ms())

        return self._write(change)

    def take(self, limit: int, lease_ms: int) -> list[Delivery[bytes]]:
        def change(tx: Transaction) -> tuple[list[Delivery[bytes]], bool]:
            now = self._watched_now()
            is_repaired = self._is_set_back
            queue.ripen(tx, self.name, now, is_set_back=is_repaired)
            return queue.take(tx, self.name, limit, lease_ms, now), is_repaired

        taken, is_repaired = self._write(change)
        if is_repaired:
            self._is_set_back = False
        return taken

    # What receivers say

    def finish(self, handle: Handle) -> bool:
        return self._write(lambda tx: queue.finish(tx, self.name, handle))

    def give_back(
        self, handles: Sequence[Handle], *, delay_ms: int = 0, is_counted: bool = False
    ) -> list[bool]:
        def change(tx: Transaction) -> list[bool]:
            tx.announce(self._topic)
            now = self.now_ms()
            return [
                queue.give_back(tx, self.name, each, delay_ms, is_counted, now) for each in handles
            ]

        return self._write(change)

    def extend(self, handles: Sequence[Handle], lease_ms: int) -> list[bool]:
        def change(tx: Transaction) -> list[bool]:
            now = self.now_ms()
            return [queue.extend(tx, self.name, each, lease_ms, now) for each in handles]

        return self._write(change)

    # Dead letters

    def bury(self, handle: Handle, burial: Burial) -> bool:
        return self._write(lambda tx: queue.bury(tx, self.name, handle, burial, self.now_ms()))

    def buried(self, limit: int) -> list[Buried[bytes]]:
        return self._read(lambda reader: queue.buried(reader, self.name, limit))

    def revive(self, ids: Sequence[str] | None = None) -> int:
        def change(tx: Transaction) -> int:
            tx.announce(self._topic)
            return queue.revive(tx, self.name, ids)

        return self._write(change)

    def discard_buried(self, ids: Sequence[str] | None = None) -> int:
        return self._write(lambda tx: queue.discard_buried(tx, self.name, ids))

    # Looking

    def peek(self, limit: int) -> list[Waiting[bytes]]:
        return self._read(lambda reader: queue.peek(reader, self.name, limit, self.now_ms()))

    def depth(self) -> Depth:
        return self._read(lambda reader: queue.depth(reader, self.name, self.now_ms()))

    def purge(self) -> int:
        return self._write(lambda tx: queue.purge(tx, self.name))

    # Waiting

    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        while not (self._is_quiet or (stop is not None and stop.is_set())):
            seen = self._database.bell.count(self._topic)
            if self._is_quiet:
                break  # whoever ended the waits has rung before we began to listen
            left = self._seconds_left()
            patience = deadline - self._clock.monotonic()
            if left <= 0 or patience <= 0:
                return left <= 0
            self._database.bell.wait(self._topic, seen, min(left, patience, _LOOK_S), stop)
        return False

    def _seconds_left(self) -> float:
        now = self._watched_now()
        if self._is_set_back and self.depth().ready:
            return 0.0
        left = self._read(lambda reader: queue.ms_left(reader, self.name, now))
        return math.inf if left is None else left / 1000

    def end_waits(self) -> None:
        self._is_quiet = True
        self._database.bell.ring([self._topic])

    def close(self) -> None:
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self.end_waits()
            self._database.close()

    def _watched_now(self) -> int:
        now = self.now_ms()
        if now < self._latest_ms - _STEP_BACK_MS:
            self._is_set_back = True
            self._latest_ms = now
        self._latest_ms = max(self._latest_ms, now)
        return now

    def _read(self, query: Callable[[Reader], V]) -> V:
        self._require_open()
        return self._database.read(query)

    def _write(self, change: Callable[[Transaction], V]) -> V:
        self._require_open()
        return self._database.write(change)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(
                f"the mailbox {self.name} in {self._database.path} was closed; whoever uses it "
                "must stop"
            )


class SqliteMailbox(NamedMailbox[T, R]):
    """A mailbox in a SQLite file. Several processes may share the file.

    Raises what `afl.db.sqlite.open_database` raises, and NewerSchema for a file that a newer afl
    has used.
    """

    def __init__(
        self,
        name: str = "default",
        address: str | os.PathLike[str] = DEFAULT_ADDRESS,
        *,
        body_type: Any = None,
        max_size: int | None = None,
        reply_resolver: MailboxResolver[Any, Any] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            lambda each: SqliteBox(address, each, clock=clock),
            name,
            body_type=body_type,
            max_size=max_size,
            reply_resolver=reply_resolver,
            clock=clock,
        )


def open_box(url: str, name: str) -> SqliteBox:
    return SqliteBox(url, name)


def box_names(url: str) -> list[str]:
    """Names of boxes that hold messages or dead letters, sorted."""
    with open_database(url) as database:
        migrate(database, COMPONENT, MIGRATIONS)
        return database.read(queue.names)
