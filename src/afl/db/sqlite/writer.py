"""The writer: the one thread of a process that changes a database file.

- Requests that wait together are committed together: one flush to disk for the whole batch.
- Each runs in a savepoint of its own, so one that raises undoes only itself.
- A future is resolved after the COMMIT that made its request durable, never before.
- If the transaction as a whole is lost, so is every request in it, and all are told.

If the disk fails in the COMMIT itself, the batch is undone here; but only the next commit removes
its last traces, and a power cut before that may bring it back. Requests run in the order of
submission. Foreign keys must not be deferred: SQLite checks those
at COMMIT, where one bad row fails everybody in the batch.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK
from afl.db.sqlite.connection import connect, is_busy, translated
from afl.db.sqlite.transaction import Transaction
from afl.errors import AflError, StoreClosed, StoreUnavailable
from afl.log import get_logger

T = TypeVar("T")

_log = get_logger(__name__)

_PATIENCE_S = 0.05
#: SQLite itself would sleep up to 0.1 s between looks, and find the file locked again each time by
#: a process that writes much: measured, some writers waited for 2 s. In real time, as the lock is.
_BUSY = Backoff(initial=0.0005, factor=1.2, maximum=0.005, jitter=0.5)


@dataclass(eq=False, slots=True)
class _Request:
    fn: Callable[[Transaction], Any]
    future: Future[Any] = field(default_factory=Future)
    value: Any = None
    error: BaseException | None = None
    topics: list[str] = field(default_factory=list)

    def is_wanted(self) -> bool:
        """Whether the caller still waits. Once this is true, they can cancel no more."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def resolve(self) -> None:
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)

    def fail(self, cause: BaseException) -> None:
        """Tell the caller that the batch was lost."""
        if not self.future.done() and self.is_wanted():
            # One exception for each: a shared one would collect the tracebacks of all callers.
            error = StoreUnavailable(f"nothing was written: {cause}")
            error.__cause__ = cause
            self.future.set_exception(error)


@dataclass(slots=True)
class WriterCounts:
    """Changed on the writer's thread only; readers may see them a moment late."""

    batches: int = 0
    requests: int = 0
    largest_batch: int = 0
    failed_requests: int = 0
    failed_batches: int = 0


class Writer:
    """Runs requests in batches on its thread until it is closed.

    `announce` is called on that thread with the topics of each committed batch, before its
    futures are resolved: who sees their write return knows that it was announced.
    """

    def __init__(
        self,
        path: str,
        busy_timeout_s: float,
        batch_size: int,
        announce: Callable[[Iterable[str]], None],
    ) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._batch_size = batch_size
        self._announce = announce
        self.counts = WriterCounts()
        self._lock = threading.Lock()
        self._in_use = threading.Lock()  # the connection, by a batch or by `foreign_version`
        self._is_closed = False
        self._is_last_batch = False
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        # Opened here, so that whoever opens a database learns at once that it cannot be used.
        self._connection: sqlite3.Connection | None = self._connect()
        self._file = self._identity()
        self._thread = threading.Thread(target=self._run, name="afl-sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    @property
    def queue_length(self) -> int:
        return self._queue.qsize()

    def submit(self, fn: Callable[[Transaction], T]) -> Future[T]:
        request = _Request(fn)
        # The lock keeps a request from slipping in behind the mark that ends the queue.
        with self._lock:
            if self._is_closed:
                raise StoreClosed(f"{self._path} was closed in this process")
            self._queue.put(request)
        return request.future

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

    def close(self) -> None:
        """Write what was submitted, then end. Must not be called on the writer's thread."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while not self._is_last_batch:
            batch = self._next_batch()
            try:
                self._process(batch)
            except BaseException as error:
                # Only a defect of this class comes here. The thread must live on, and nobody may
                # wait for ever for an answer.
                _log.exception("sqlite_writer_failed", path=self._path)
                self._give_up(batch, error)
        with self._in_use:
            self._disconnect()

    def _next_batch(self) -> list[_Request]:
        """What waits now, at least one; after the last request, what is left of it."""
        batch: list[_Request] = []
        request = self._queue.get()
        with suppress(Empty):
            while request is not None:
                batch.append(request)
                if len(batch) == self._batch_size:
                    return batch
                request = self._queue.get_nowait()
            self._is_last_batch = True
        return batch

    def _process(self, batch: list[_Request]) -> None:
        if all(request.future.cancelled() for request in batch):
            for request in batch:
                request.is_wanted()  # tells those who wait for the end of a cancelled future
            return
        try:
            with self._in_use:
                done = self._committed(batch)
        except (sqlite3.Error, AflError, _TransactionLostError) as error:
            cause = translated(error, self._path) if isinstance(error, sqlite3.Error) else error
            self._give_up(batch, cause)
            return
        self._count(done)
        self._tell(done)

    def _committed(self, batch: list[_Request]) -> list[_Request]:
        """The requests that were run, when all that they did is on the disk."""
        try:
            connection = self._begin()
            done = []
            for request in batch:
                if request.is_wanted():
                    self._attempt(connection, request)
                    done.append(request)
            connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        return done

    def _begin(self) -> sqlite3.Connection:
        if self._identity() != self._file:
            # SQLite would go on in a file that nobody can open any more, or make an empty one.
            raise StoreUnavailable(
                f"{self._path} was removed or replaced while it was open; stop this process "
                "before you restore a backup"
            )
        if self._connection is None:
            self._connection = self._connect()
        self._lock_file(self._connection)
        return self._connection

    def _lock_file(self, connection: sqlite3.Connection) -> None:
        """Begin to write, when no other process does."""
        deadline = SYSTEM_CLOCK.monotonic() + self._busy_timeout_s
        for attempt in count(1):
            try:
                # IMMEDIATE, so that the waiting is here: a transaction that has read before it
                # wants to write cannot wait, because what it has read would be old.
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or SYSTEM_CLOCK.monotonic() >= deadline:
                    raise
            SYSTEM_CLOCK.sleep(_BUSY.delay(attempt))

    def _attempt(self, connection: sqlite3.Connection, request: _Request) -> None:
        """Run one request, and undo it if it raises."""
        connection.execute("SAVEPOINT request")
        transaction = Transaction(connection)
        try:
            request.value = request.fn(transaction)
            request.topics = transaction.topics
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
        if request.error is not None:
            connection.execute("ROLLBACK TO request")
        connection.execute("RELEASE request")

    def _tell(self, done: list[_Request]) -> None:
        topics = {topic for request in done if request.error is None for topic in request.topics}
        if topics:
            try:
                self._announce(topics)
            except BaseException:
                # The work is committed and will be found by looking; only its news is late.
                _log.exception("sqlite_announcement_failed", path=self._path)
        for request in done:
            request.resolve()

    def _count(self, done: list[_Request]) -> None:
        counts = self.counts
        counts.batches += 1
        counts.requests += len(done)
        counts.largest_batch = max(counts.largest_batch, len(done))
        counts.failed_requests += sum(request.error is not None for request in done)

    def _give_up(self, batch: list[_Request], cause: BaseException) -> None:
        """The batch as a whole was lost: tell everybody in it."""
        self.counts.failed_batches += 1
        _log.warning("sqlite_batch_lost", path=self._path, requests=len(batch), reason=str(cause))
        for request in batch:
            request.fail(cause)

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
