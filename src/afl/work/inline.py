"""Doing claimed work on the thread that asks for it, one piece after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any, Generic

from afl.backoff import Backoff
from afl.errors import StoreClosed, StoreUnavailable
from afl.work.attempts import Attempt
from afl.work.execution import Execution
from afl.work.leases import LeaseKeeper
from afl.work.options import Options
from afl.work.recorder import Ending
from afl.work.report import Report
from afl.work.run import timed_out
from afl.work.source import NO_ROOM, ClaimLost, Recording, Source, W

_BACKOFF = Backoff(initial=0.05, factor=2.0, maximum=5.0)


class InlinePoll(Generic[W]):
    """One poll that starts no thread. Leases are renewed between pieces, and at signs of
    progress; a piece that took too long is failed after it."""

    def __init__(self, source: Source[W], options: Options, report: Report[W]) -> None:
        self._source = source
        self._report = report
        self._options = options
        self._clock = options.clock
        self._waiting: deque[Attempt] = deque()
        self._current: Attempt | None = None
        self._ending: Ending | None = None
        self._execution = Execution(1, report.began, self._ended, options.clock)
        self._keeper = LeaseKeeper(source, self._held, self._lose, options.clock)
        self._renewed_at = options.clock.monotonic()

    def go(self) -> int:
        """How many pieces were claimed. Raises what keeps the source from working, and a
        KeyboardInterrupt; what is not done is given back then."""
        works = self._source.claim(self._options.concurrency)
        now = self._renewed_at
        self._waiting.extend(Attempt(each, self._clock, now, self._sign) for each in works)
        self._report.available()
        self._report.beat()
        try:
            while self._waiting:
                self._do_next()
                self._report.beat()
        finally:
            self._execution.close()
            if rest := [each.work for each in self._held()]:
                self._source.release(rest)
        return len(works)

    @property
    def attempts(self) -> list[Attempt]:
        return list(self._held())

    def _held(self) -> Sequence[Attempt]:
        current = () if self._current is None else (self._current,)
        return [*current, *self._waiting]

    def _sign(self) -> None:
        self._report.progressed()
        self._renew_if_due()

    def _renew_if_due(self) -> None:
        if self._clock.monotonic() - self._renewed_at >= self._source.lease_s / 3:
            self._renewed_at = self._clock.monotonic()
            self._keeper.renew()

    def _lose(self, attempt: Attempt) -> None:
        if attempt.finish():
            attempt.cancel()
            self._report.lost(attempt)

    def _do_next(self) -> None:
        self._renew_if_due()
        attempt = self._current = self._waiting.popleft()
        self._ending = None
        try:
            attempt.job = self._source.job(attempt.work)
        except Exception as error:
            self._ended(attempt, None, error)
        else:
            self._execution.do_here(attempt)
        if self._ending is not None:
            self._record(self._ending)
        self._current = None

    def _ended(self, attempt: Attempt, result: Any, error: BaseException | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            raise error  # this thread is the caller's: it is for them, not for the work
        due, now = attempt.due(), self._clock.monotonic()
        if due is not None and due <= now:
            error = timed_out(attempt, now)
        if attempt.finish():
            self._ending = Ending(attempt, result, error)

    def _record(self, ending: Ending) -> None:
        """As long as the claim may hold; later, others may have begun."""
        gives_up_at = self._clock.monotonic() + self._source.lease_s
        for tries in count(1):
            try:
                self._recording_of(ending).result()
                self._report.ended(ending.attempt, ending.error)
                return
            except StoreUnavailable:
                pause = _BACKOFF.delay(tries)
                if self._clock.monotonic() + pause > gives_up_at:
                    raise
                self._clock.sleep(pause)
            except StoreClosed:
                raise
            except ClaimLost:
                self._report.lost(ending.attempt)
                return
            except Exception as problem:
                if not ending.simplify(problem):
                    self._report.unrecorded(ending.attempt, problem)
                    return

    def _recording_of(self, ending: Ending) -> Recording[W]:
        if ending.error is not None:
            return self._source.fail(ending.attempt.work, ending.error)
        return self._source.complete(ending.attempt.work, ending.result, NO_ROOM)
