"""A database file as one process sees it: one writer, some readers, one bell.

Everything that keeps data in the file shares this object, so that whatever waits together is
written together. It knows no table.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from afl.clock import SYSTEM_CLOCK, Clock, now_ms
from afl.db.sqlite.address import database_path
from afl.db.sqlite.process import Claim
from afl.db.sqlite.readers import Readers
from afl.db.sqlite.transaction import Reader, Transaction
from afl.db.sqlite.writer import Writer
from afl.db.wake import Bell
from afl.errors import ConfigurationError, StoreMisused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatabaseStatistics:
    """What a database did in this process since it was opened."""

    #: Transactions committed by the writer.
    batches: int
    #: Those of them that were on the disk before anybody was answered.
    flushed_batches: int
    #: Requests in those, whether they returned or raised.
    requests: int
    #: Most requests in one transaction so far.
    largest_batch: int
    #: Requests that raised, and undid only themselves.
    failed_requests: int
    #: Transactions lost as a whole: locked too long, disk full, I/O error.
    failed_batches: int
    #: Requests that wait for the writer now.
    queue_length: int
    #: Reads going on now.
    active_readers: int
    #: Threads that wait at the bell now.
    waiters: int


class Database:
    """A SQLite file that many threads and processes may use at once.

    `busy_timeout_s` is how long to wait for other processes to let go of the file; `batch_size`
    how many requests share a transaction at most; `poll_interval_s` how often a waiter looks for
    changes that nobody announced.

    Raises ConfigurationError for a file that cannot be a database, StoreUnavailable for one that
    cannot be opened now, and StoreMisused, as all methods do, in a process that was forked while
    the file was open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = SYSTEM_CLOCK,
        busy_timeout_s: float = 30.0,
        batch_size: int = 256,
        poll_interval_s: float = 0.5,
    ) -> None:
        if batch_size < 1 or busy_timeout_s < 0 or poll_interval_s <= 0:
            raise ConfigurationError(
                f"batch_size is {batch_size}, busy_timeout_s {busy_timeout_s}, poll_interval_s "
                f"{poll_interval_s}; expected at least 1, at least 0, more than 0"
            )
        self.path = database_path(path)
        self._clock = clock
        self._claim = Claim(self.path)
        self._lock = threading.Lock()
        self._holders = 1
        try:
            self.bell = Bell(
                self.path,
                lambda: self._writer.foreign_version(),
                clock=clock,
                poll_interval_s=poll_interval_s,
                guard=self._claim.check,
            )
            self._readers = Readers(self.path, busy_timeout_s)
            self._writer = Writer(self.path, busy_timeout_s, batch_size, self.bell.ring)
        except BaseException:
            self._claim.release()
            raise

    def write(self, fn: Callable[[Transaction], T], *, is_durable: bool = True) -> T:
        """Run `fn` in a transaction; when this returns, what it did is on the disk.

        What is not `is_durable` may be undone by a loss of power, until something durable is
        written by anybody: it outlasts all processes, but not the machine.

        What `fn` raises comes out here, and nothing that it did is applied. `fn` runs where
        everybody else waits for it, on this thread or the writer's: SQL only, no other waiting.

        Raises StoreUnavailable if nothing could be written; Conflict if a row was there before;
        StoreClosed after `close`; StoreMisused on the writer's thread, which would wait for
        itself.
        """
        self._claim.check()
        self._forbid_on_writer("write")
        return self._writer.run(fn, is_durable=is_durable)

    def submit(
        self,
        fn: Callable[[Transaction], T],
        *,
        is_durable: bool = True,
        look: Callable[[Reader], object] | None = None,
    ) -> Future[T]:
        """Like `write`, but do not wait. A future that is cancelled before its turn is not run.

        Where other processes write to the file, too, `look` is given a snapshot before the file is
        locked for `fn`: what it prepares there keeps nobody waiting. What it raises is forgotten.

        Callbacks of the future run on the writer's thread. Raises StoreClosed after `close`.
        """
        self._claim.check()
        return self._writer.submit(fn, is_durable=is_durable, look=look)

    def read(self, fn: Callable[[Reader], T]) -> T:
        """Run `fn` on the calling thread, with one consistent snapshot of the database.

        What a `write` before has changed is in it. Raises StoreUnavailable, StoreClosed, and
        StoreMisused on the writer's thread or inside another `read`.
        """
        self._claim.check()
        self._forbid_on_writer("read")
        return self._readers.read(fn)

    def now_ms(self) -> int:
        """The store's time, which leases run on: wall time of this machine, in milliseconds.

        All processes on the file share the machine, hence this clock; offsets between workers
        do not exist. It is not smoothed. A mark of the largest time ever seen would stand still
        after the clock was set back, and keep a year typed wrong for ever; counting from the
        start of each process would let processes disagree by every correction between them.

        So wall time may jump, and whoever stores a lease keeps its length beside its end: a
        lease holds while `now < ends_at <= now + length`. Then none outlives its length by a
        jump back, because an end too far ahead counts as over; and a jump forward only ends
        leases early, which the fence makes harmless.
        """
        return now_ms(self._clock)

    def statistics(self) -> DatabaseStatistics:
        counts = self._writer.counts
        return DatabaseStatistics(
            batches=counts.batches,
            flushed_batches=self._writer.flushed_batches,
            requests=counts.requests,
            largest_batch=counts.largest_batch,
            failed_requests=counts.failed_requests,
            failed_batches=counts.failed_batches,
            queue_length=self._writer.queue_length,
            active_readers=self._readers.active,
            waiters=self.bell.waiters,
        )

    @property
    def is_closed(self) -> bool:
        return self._holders == 0

    def hold(self) -> bool:
        """Count one more holder, who will call `close`; False if it is closed already."""
        self._claim.check()
        with self._lock:
            if self._holders:
                self._holders += 1
            return self._holders > 0

    def close(self) -> None:
        """Let go. With the last holder: write what was submitted, wake all waiters and end.

        In a forked child this does nothing: the file is the parent's.
        """
        if self._claim.is_inherited:
            return
        self._forbid_on_writer("close")
        with self._lock:
            was_last = self._holders == 1
            self._holders = max(self._holders - 1, 0)
        if was_last:
            self._end()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _end(self) -> None:
        # Waiters first: nothing more will come to them. The writer still rings for its last
        # batches, which other processes want to hear. It leaves last, so that it and no reader
        # empties the log into the file.
        # In reverse order, and each even if one before it fails.
        with ExitStack() as steps:
            steps.callback(self._claim.release)
            steps.callback(self._writer.close)
            steps.callback(self._readers.close)
            steps.callback(self.bell.close)

    def _forbid_on_writer(self, verb: str) -> None:
        if self._writer.is_current_thread:
            raise StoreMisused(
                f"{verb} on the writer's thread of {self.path}: it would wait for itself. Inside "
                "a write use the Transaction that you were given; a callback of a future must "
                "hand over to another thread"
            )
