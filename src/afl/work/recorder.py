"""Recording how work ended, without keeping the thread that did it.

Ends are written as soon as they are known, and waited for in that order on one thread. What
cannot be written now is tried again with growing pauses; nothing behind it waits for that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from afl.backoff import Backoff
from afl.clock import Clock
from afl.error_text import kind_of, text_of
from afl.errors import AflError, StoreClosed, StoreUnavailable
from afl.log import get_logger
from afl.work.attempts import Attempt
from afl.work.pool import PREFIX, join
from afl.work.source import ClaimLost, Recording, Room, Source

_log = get_logger(__name__)

_BACKOFF = Backoff(initial=0.05, factor=2.0, maximum=5.0, jitter=0.2)


class Unrecordable(AflError):  # noqa: N818 - what happened is what people read
    """Stands for what work raised, where the source cannot take that."""

    def __init__(self, error: BaseException, problem: Exception) -> None:
        super().__init__(
            f"it raised {kind_of(error)}, which cannot be recorded as it is: {text_of(problem)}"
        )


@dataclass(eq=False, slots=True)
class Ending:
    """How an attempt ended, on its way to the source."""

    attempt: Attempt
    result: Any = None
    error: BaseException | None = None
    recording: Recording[Any] | None = None
    #: When it was last given to the source, by the monotonic clock.
    asked_at: float = 0.0
    tries: int = 0
    #: When to try again, by the monotonic clock.
    due: float = 0.0

    def simplify(self, problem: Exception) -> bool:
        """The source cannot take it, and `problem` says why: make it one that it can. A result
        becomes a failure, and a failure a plain one. Whether there was such a way: work that ends
        unrecorded is done again."""
        if isinstance(self.error, Unrecordable):
            return False
        if self.error is None:
            self.error = problem
        else:
            plain = Unrecordable(self.error, problem)
            plain.__cause__ = self.error  # for the log
            self.error = plain
        return True


class Ends(Protocol):
    """Who hears of ends. Called on the thread that settles them; must not raise."""

    def room(self) -> Room:
        """What may be claimed along with a result."""

    def recorded(self, ending: Ending, further: Sequence[Any]) -> None:
        """It is durable, and these pieces were claimed along with it."""

    def refused(self, ending: Ending, reason: Exception) -> None:
        """Its claim is lost, or the source cannot take it at all."""

    def closed(self, ending: Ending, reason: StoreClosed) -> None:
        """The source is closed; nothing can be recorded any more."""


class Recorder:
    """Writes ends. `put` and `settle` may be called from any thread."""

    def __init__(self, source: Source[Any], ends: Ends, clock: Clock) -> None:
        self._source = source
        self._ends = ends
        self._clock = clock
        # Who does not wait takes the lock itself: a condition would cost two calls more.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._new: deque[Ending] = deque()
        self._again: list[Ending] = []
        #: Who waits for a time must look at it again.
        self._has_new_time = False
        self._is_asleep = False
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=f"{PREFIX}-recorder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread, once it has nothing under way."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        join(self._thread, timeout)

    def write(self, ending: Ending) -> bool:
        """Begin to write it, on this thread; then `put` or `settle` it. False if that failed: then
        it is taken care of."""
        try:
            ending.asked_at = self._clock.monotonic()
            ending.recording = self._recording_of(ending)
        except Exception as problem:
            self._not_recorded(ending, problem)
            return False
        return True

    def put(self, ending: Ending) -> None:
        """Have it settled, and written unless it is, on the thread of this recorder."""
        with self._lock:
            self._new.append(ending)
            if self._is_asleep:
                self._is_asleep = False
                self._changed.notify()

    def settle(self, ending: Ending, timeout: float | None = None) -> None:
        """Wait on this thread for what is written, and say how it went. What takes longer than
        `timeout`, or must be tried again, is left to the thread of this recorder."""
        assert ending.recording is not None, "write it first"
        try:
            further = ending.recording.result(timeout)
        except TimeoutError:
            self.put(ending)
        except Exception as problem:
            self._not_recorded(ending, problem)
        else:
            self._ends.recorded(ending, further)

    def _recording_of(self, ending: Ending) -> Recording[Any]:
        work = ending.attempt.work
        if ending.error is not None:
            return self._source.fail(work, ending.error)
        return self._source.complete(work, ending.result, self._ends.room())

    def _not_recorded(self, ending: Ending, problem: Exception) -> None:
        ending.recording = None
        if isinstance(problem, StoreUnavailable):
            self._try_again(ending, problem)
        elif isinstance(problem, StoreClosed):
            self._ends.closed(ending, problem)
        elif not isinstance(problem, ClaimLost) and ending.simplify(problem):
            self.put(ending)
        else:
            self._ends.refused(ending, problem)

    def _try_again(self, ending: Ending, problem: Exception) -> None:
        ending.tries += 1
        ending.due = self._clock.monotonic() + _BACKOFF.delay(ending.tries)
        _log.warning(
            "end_not_recorded_yet",
            work=ending.attempt.label,
            tries=ending.tries,
            error=str(problem),
        )
        with self._changed:
            self._again.append(ending)
            self._has_new_time = True
            self._changed.notify()

    # The thread

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            # All that came together are written before the first of them is waited for.
            for each in [each for each in batch if each.recording or self.write(each)]:
                try:
                    self.settle(each)
                except Exception:  # a defect; the others must not suffer from it
                    _log.exception("end_not_settled", work=each.attempt.label)

    def _next_batch(self) -> list[Ending] | None:
        """Wait for ends, perhaps in vain; None: there will be no more."""
        with self._changed:
            self._is_asleep = True
            self._clock.wait_for(self._changed, self._has_some, self._seconds_to_next())
            self._is_asleep = self._has_new_time = False
            if self._is_over and not self._new:
                return None
            # One moment for all: what fell due between two looks would be in neither list.
            now = self._clock.monotonic()
            batch = [*self._new, *(each for each in self._again if each.due <= now)]
            self._new.clear()
            self._again = [each for each in self._again if each.due > now]
            return batch

    def _has_some(self) -> bool:
        if self._new or self._has_new_time or self._is_over:
            return True
        now = self._clock.monotonic()
        return any(each.due <= now for each in self._again)

    def _seconds_to_next(self) -> float | None:
        if not self._again:
            return None
        return min(each.due for each in self._again) - self._clock.monotonic()
