"""Requests that wait together are committed together.

- Each is a function on a transaction; one that raises undoes only itself.
- Batches run on a thread of their own. A caller who waits for an answer while nobody else writes
  does its request itself: changing threads twice would take as long as the commit.
- A future is resolved after the commit that made its request durable, never before.

Requests run in the order of submission. How a batch is committed is each database's own.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, cast

from afl.errors import StoreClosed
from afl.log import get_logger

T = TypeVar("T")
Tx = TypeVar("Tx")

_log = get_logger(__name__)


@dataclass(eq=False, slots=True)
class Request(Generic[Tx]):
    fn: Callable[[Tx], Any]
    #: Whether it must outlast a loss of power, and not only the end of all processes.
    is_durable: bool = True
    #: Looks at the database before its turn, if that may spare others a wait. It may not come to
    #: that, and what it raises is forgotten.
    look: Callable[[Any], object] | None = None
    value: Any = None
    error: BaseException | None = None

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(eq=False, slots=True)
class _Queued(Request[Tx]):
    """One whose caller waits elsewhere, or not at all."""

    future: Future[Any] = field(default_factory=Future)

    def is_wanted(self) -> bool:
        """Whether the caller still waits. Once this is true, they can cancel no more."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def resolve(self) -> None:
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


@dataclass(slots=True)
class BatchCounts:
    """Changed by whoever commits; readers may see them a moment late."""

    batches: int = 0
    requests: int = 0
    largest_batch: int = 0
    failed_requests: int = 0
    #: Lost as a whole.
    failed_batches: int = 0


class Batching(ABC, Generic[Tx]):
    """Runs requests in batches until it is closed. `place` is for people."""

    def __init__(self, place: str, batch_size: int, thread_name: str) -> None:
        self._place = place
        self._batch_size = batch_size
        self.counts = BatchCounts()
        self._lock = threading.Lock()
        self._in_use = threading.Lock()  # one batch at a time
        #: Requests that were submitted and are not answered yet.
        self._unanswered = 0
        #: The thread that runs requests now.
        self._at_work = 0
        self._is_closed = False
        self._is_last_batch = False
        self._queue: SimpleQueue[_Queued[Tx] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self._thread.start()

    @abstractmethod
    def _commit(self, requests: Sequence[Request[Tx]]) -> None:
        """Run and answer all of them, each with a value or an error. Must not raise."""

    def _end(self) -> None:
        """After the last batch."""

    @property
    def queue_length(self) -> int:
        return self._queue.qsize()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller is on the thread of the batches, or inside a request."""
        return threading.get_ident() in (self._at_work, self._thread.ident)

    def run(self, fn: Callable[[Tx], T], *, is_durable: bool = True) -> T:
        """Do it and wait for it; on this thread, if nobody else writes or waits to."""
        if not self._unanswered and not self._in_use.locked():
            request: Request[Tx] = Request(fn, is_durable)
            if self._was_run_here(request):
                return cast("T", request.answer())
        future = self.submit(fn, is_durable=is_durable)
        try:
            return future.result()
        except BaseException:
            # An interrupt of the waiting thread: what has not begun need not be done.
            future.cancel()
            raise
        finally:
            del future  # else what it raised and this frame would keep each other alive

    def submit(
        self,
        fn: Callable[[Tx], T],
        *,
        is_durable: bool = True,
        look: Callable[[Any], object] | None = None,
    ) -> Future[T]:
        request: _Queued[Tx] = _Queued(fn, is_durable, look)
        # The lock keeps a request from slipping in behind the mark that ends the queue.
        with self._lock:
            if self._is_closed:
                raise StoreClosed(f"{self._place} was closed in this process")
            self._unanswered += 1
            self._queue.put(request)
        return request.future

    def close(self, timeout: float | None = None) -> bool:
        """Write what was submitted, then end; False if that took longer, and goes on by itself.
        Must not be called on the thread of the batches."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._queue.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _was_run_here(self, request: Request[Tx]) -> bool:
        """Run a request on this thread, unless somebody was faster."""
        # `with`, and so perhaps a short wait: an interrupt between asking for a lock and having
        # noted it would leave it locked.
        with self._in_use:
            # Who was submitted before, perhaps by this very thread, goes first.
            if self._unanswered or self._is_closed:
                return False
            self._work([request])
        return True

    def _run(self) -> None:
        while not self._is_last_batch:
            first = self._queue.get()
            with self._in_use:
                # Now, with whoever came while others were at work.
                batch = self._batch_of(first)
                wanted = [request for request in batch if request.is_wanted()]
                if wanted:
                    self._work(wanted)
            for request in wanted:
                request.resolve()
            with self._lock:
                self._unanswered -= len(batch)
        with self._in_use:
            self._end()

    def _batch_of(self, request: _Queued[Tx] | None) -> list[_Queued[Tx]]:
        """This one and what waits behind it; after the last request, what is left of it."""
        batch: list[_Queued[Tx]] = []
        with suppress(Empty):
            while request is not None:
                batch.append(request)
                if len(batch) == self._batch_size:
                    return batch
                request = self._queue.get_nowait()
            self._is_last_batch = True
        return batch

    def _work(self, requests: Sequence[Request[Tx]]) -> None:
        self._at_work = threading.get_ident()
        try:
            self._commit(requests)
        except Exception as error:
            # Only a defect comes here. The thread must live on, and nobody may wait for ever.
            _log.exception("batch_failed", place=self._place)
            for each in requests:
                each.error = each.error or error
        finally:
            self._at_work = 0
        counts = self.counts
        counts.batches += 1
        counts.requests += len(requests)
        counts.largest_batch = max(counts.largest_batch, len(requests))
        for each in requests:
            if each.error is not None:
                counts.failed_requests += 1
