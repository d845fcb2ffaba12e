"""The writer: the one place of a process that changes a database file.

- Requests that wait together are committed together: one flush to disk for the whole batch
  (`afl.db.batching`).
- Each runs in a savepoint of its own, so one that raises undoes only itself.
- If the transaction as a whole is lost, so is every request in it, and all are told.
- A batch in which nobody needs it is not flushed: the next one that is takes it along.
- Where other processes write to the file, requests that can look ahead do so before it is locked.

If the disk fails in the COMMIT itself, the batch is undone here; but only the next commit removes
its last traces, and a power cut before that may bring it back. Foreign keys must not be deferred:
SQLite checks those at COMMIT, where one bad row fails everybody in the batch.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK
from afl.db.batching import Batching, Request
from afl.db.sqlite.connection import connect, is_busy, translated, wait_for_disk
from afl.db.sqlite.transaction import Reader, Transaction
from afl.errors import AflError, StoreUnavailable
from afl.log import get_logger

_log = get_logger(__name__)

_PATIENCE_S = 0.05
#: SQLite itself would sleep up to 0.1 s between looks, and find the file locked again each time by
#: a process that writes much: measured, some writers waited for 2 s. In real time, as the lock is.
_BUSY = Backoff(initial=0.0005, factor=1.2, maximum=0.005, jitter=0.5)

#: Somebody who has written is expected to write again within this time.
_COMPANY_S = 1.0

Wish = Request[Transaction]


def _lost(cause: BaseException) -> StoreUnavailable:
    return StoreUnavailable(f"nothing was written: {cause}")


class Writer(Batching[Transaction]):
    """Runs requests until it is closed.

    `announce` is called with the topics of each committed batch, before its requests are answered:
    who sees their write return knows that it was announced.
    """

    #: Whether commits of the connection wait for the disk.
    _is_flushing: bool
    #: Changes with every commit of another connection, which are those of other processes.
    _others_version: int | None

    def __init__(
        self,
        path: str,
        busy_timeout_s: float,
        batch_size: int,
        announce: Callable[[Iterable[str]], None],
    ) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._announce = announce
        #: Batches that were on the disk before they were answered.
        self.flushed_batches = 0
        #: Until when, by the monotonic clock, other processes are taken for at work on the file.
        self._has_company_until = 0.0
        # Opened here, so that whoever opens a database learns at once that it cannot be used.
        self._connection: sqlite3.Connection | None = self._connect()
        self._file = self._identity()
        super().__init__(path, batch_size, "afl-sqlite-writer")

    def foreign_version(self) -> int | None:
        """A number that changes when other processes, not this one, have changed the file.

        None if the writer is too busy to ask, or the file cannot be read now. For any thread.
        """
        # Only this connection can tell our commits from theirs. A batch may wait for the file as
        # long as another process holds it; who asks must not wait along.
        if not self._in_use.acquire(timeout=_PATIENCE_S):
            return None
        try:
            if self._connection is None:
                return None
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            return int(version)
        except sqlite3.Error:
            return None
        finally:
            self._in_use.release()

    def _end(self) -> None:
        self._disconnect()

    def _commit(self, requests: Sequence[Wish]) -> None:
        try:
            topics = self._commit_together(requests)
        except (sqlite3.Error, AflError, _TransactionLostError) as error:
            self._give_up(requests, error)
        else:
            self._tell(topics)

    def _commit_together(self, requests: Sequence[Wish]) -> set[str]:
        """Run them; afterwards all that they did is on the disk, if one of them must be. What they
        announced."""
        topics: set[str] = set()
        try:
            is_durable = any(each.is_durable for each in requests)
            connection = self._ready(is_durable)
            self._look_ahead(connection, requests)
            self._lock_file(connection)
            self._note_company(connection)
            if len(requests) == 1:
                topics.update(self._attempt(connection, requests[0]))
            else:
                for request in requests:
                    topics.update(self._attempt_apart(connection, request))
            is_void = len(requests) == 1 and requests[0].error is not None
            connection.execute("ROLLBACK" if is_void else "COMMIT")
            self.flushed_batches += is_durable and not is_void
        except BaseException:
            self._undo()
            raise
        return topics

    def _ready(self, is_durable: bool) -> sqlite3.Connection:
        """A connection that can begin a transaction."""
        if self._identity() != self._file:
            # SQLite would go on in a file that nobody can open any more, or make an empty one.
            raise StoreUnavailable(
                f"{self._path} was removed or replaced while it was open; stop this process "
                "before you restore a backup"
            )
        self._undo()  # what an interrupt left behind
        if self._connection is None:
            self._connection = self._connect()
        if is_durable is not self._is_flushing:
            self._is_flushing = False  # an interrupt here must not leave it believed
            wait_for_disk(self._connection, self._path, is_durable)
            self._is_flushing = is_durable
        return self._connection

    def _look_ahead(self, connection: sqlite3.Connection, requests: Sequence[Wish]) -> None:
        """Let those look who can. Who writes alone keeps nobody waiting, and needs no look."""
        looks = [each.look for each in requests if each.look is not None]
        if not looks or SYSTEM_CLOCK.monotonic() >= self._has_company_until:
            return
        connection.execute("BEGIN DEFERRED")
        for look in looks:
            reader = Reader(connection)
            with suppress(Exception):  # they meet it again in their turn, if it is still there
                look(reader)
            reader.end()
        self._undo()

    def _note_company(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        known, self._others_version = self._others_version, version
        if known is not None and known != version:
            self._has_company_until = SYSTEM_CLOCK.monotonic() + _COMPANY_S

    def _lock_file(self, connection: sqlite3.Connection) -> None:
        """Begin to write, when no other process does."""
        deadline = 0.0
        for attempt in count(1):
            try:
                # IMMEDIATE, so that the waiting is here: a transaction that has read before it
                # wants to write cannot wait, because what it has read would be old.
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                deadline = deadline or SYSTEM_CLOCK.monotonic() + self._busy_timeout_s
                if not is_busy(error) or SYSTEM_CLOCK.monotonic() >= deadline:
                    raise
            SYSTEM_CLOCK.sleep(_BUSY.delay(attempt))

    def _attempt_apart(self, connection: sqlite3.Connection, request: Wish) -> Sequence[str]:
        """Run one request of many, and undo it alone if it raises. What it announced."""
        connection.execute("SAVEPOINT request")
        topics = self._attempt(connection, request)
        if request.error is not None:
            connection.execute("ROLLBACK TO request")
        connection.execute("RELEASE request")
        return topics

    def _attempt(self, connection: sqlite3.Connection, request: Wish) -> Sequence[str]:
        transaction = Transaction(connection)
        try:
            request.value = request.fn(transaction)
        except sqlite3.Error as error:
            request.error = translated(error, self._path)
            if request.error is not error:
                request.error.__cause__ = error
        except BaseException as error:  # also SystemExit: it is the request that ends, not we
            request.error = error
        finally:
            transaction.end()
        if not connection.in_transaction:
            raise _TransactionLostError(request.error) from request.error
        return () if request.error is not None else transaction.topics

    def _tell(self, topics: set[str]) -> None:
        if topics:
            try:
                self._announce(topics)
            except BaseException:
                # The work is committed and will be found by looking; only its news is late.
                _log.exception("sqlite_announcement_failed", path=self._path)

    def _give_up(self, requests: Sequence[Wish], error: Exception) -> None:
        """The batch as a whole was lost: tell everybody in it."""
        cause = translated(error, self._path) if isinstance(error, sqlite3.Error) else error
        self.counts.failed_batches += 1
        _log.warning(
            "sqlite_batch_lost", path=self._path, requests=len(requests), reason=str(cause)
        )
        for request in requests:
            # One exception for each: a shared one would collect the tracebacks of all callers.
            request.error = _lost(cause)
            request.error.__cause__ = cause

    def _undo(self) -> None:
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # What cannot even be undone is not to be trusted with the next batch.
            self._disconnect()

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self._path, self._busy_timeout_s)
        connection.execute("PRAGMA busy_timeout = 0").close()  # `_lock_file` waits
        self._is_flushing, self._others_version = True, None
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - a Path costs more than the call, each commit
        except OSError:
            return None
        return status.st_dev, status.st_ino


class _TransactionLostError(Exception):
    """SQLite undid the whole transaction by itself: the disk is full or fails."""

    def __init__(self, cause: BaseException | None) -> None:
        super().__init__(str(cause or "a request ended the transaction of all"))
