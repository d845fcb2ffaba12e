"""One run of a consumer: its threads, what it has in hand, and how it comes to rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Generic

from afl.backoff import Backoff, format_duration
from afl.errors import StoreClosed, StoreUnavailable
from afl.log import get_logger
from afl.runtime.stacks import place_of
from afl.work.attempts import Attempt, Attempts
from afl.work.errors import TimedOut
from afl.work.execution import Execution
from afl.work.leases import LeaseKeeper
from afl.work.options import Options
from afl.work.recorder import Ending, Recorder
from afl.work.report import Report
from afl.work.returns import Returns
from afl.work.source import NO_ROOM, ClaimLost, OnLoop, Room, Source, W
from afl.work.watch import Watch

_log = get_logger(__name__)

_BACKOFF = Backoff(initial=0.05, factor=2.0, maximum=5.0, jitter=0.2)
#: How long, after the time of a drain is over, cancelled work may take to end, and the source to
#: take the last ends. The first is short: a group may have kept a second for all of it.
_GRACE_S = 0.25
_LAST_S = 2.0
#: With so few in hand, a thread waits for the record of its own work: two hand-overs less.
_FEW = 2
#: With more slots than this, results that come together leave no time between commits; claims that
#: this loop makes beside them are quicker than claims within.
_MANY = 50
_PATIENCE_S = 0.1


class ConsumerRun(Generic[W]):
    """From the first claim to the last record. `go` blocks; the rest is safe from any thread."""

    def __init__(
        self, source: Source[W], options: Options, report: Report[W], stop: threading.Event
    ) -> None:
        self._source = source
        self._options = options
        self._report = report
        self._clock = options.clock
        self._stop = stop
        #: Ends every wait of `go`: a stop, room for more, something new at the source.
        self._news = threading.Event()
        #: When this loop last asked for work, by the monotonic clock.
        self._polled_at = 0.0
        self._wants_room = False
        #: Claims no more, and starts nothing that it has not begun.
        self._is_stopping = False
        self._has_no_more_polls = False
        #: Whether the source has answered a claim.
        self.is_answered = False
        self._is_checkpointed = threading.Event()
        self._failure: Exception | None = None
        self.attempts = Attempts(self._clock)
        self._returns = Returns(source, self.attempts, report)
        self._execution = Execution(
            options.thread_limit, self._began, self._ended, self._clock, self._may_begin
        )
        self._recorder = Recorder(source, self, self._clock)
        self._keeper = LeaseKeeper(source, self.attempts.all, self._lose, self._clock)
        self._watch = Watch(stop, self.stop_claiming, self._look, self._clock)

    # For others

    def notify(self) -> None:
        """Look for work now."""
        self._news.set()

    def stop_claiming(self) -> None:
        """Take no more, and come to rest when what runs has ended."""
        self._is_stopping = True
        self._news.set()
        self.attempts.look_again()
        if self._options.on_drain is not None:
            self._options.on_drain()

    def checkpoint(self) -> None:
        """Wait no longer for what runs: give it back, and come to rest."""
        self._is_checkpointed.set()
        self.stop_claiming()

    # The loop

    def go(self, max_iterations: int | None) -> None:
        """Raises what keeps the source from working, after all has come to rest."""
        # Who counts polls may want each of them to wait, the first one too.
        self.is_answered = max_iterations is not None
        try:
            self._keeper.start()
            self._recorder.start()
            self._watch.start()
            self._consume(max_iterations)
            self.attempts.wait_until_none(None, self._is_to_stop)
        except Exception as error:
            self._fail(error)
        finally:
            self._come_to_rest()
        # Who closes a store and stops its loops at once means no harm.
        if self._failure is not None and not (self._is_closed() and self._stop.is_set()):
            raise self._failure

    def _consume(self, max_iterations: int | None) -> None:
        polls = 0
        while polls != max_iterations:
            # Before looking: what happens from here on ends the wait below.
            self._news.clear()
            if self._is_to_stop():
                return
            free = self._options.concurrency - len(self.attempts)
            if free <= 0:
                self._wait_for_room()
                continue
            polls += 1
            # Before the last one: what it brings may end at once, and must bring no more.
            self._has_no_more_polls = polls == max_iterations
            if not self._poll(free) and not self._has_no_more_polls:
                self._wait_for_work()

    def _is_to_stop(self) -> bool:
        return self._is_stopping or self._stop.is_set()

    def _may_begin(self) -> bool:
        return not self._is_to_stop()

    def _poll(self, free: int) -> bool:
        """Claim for the free slots; whether to go on without waiting for work."""
        asked_at = self._polled_at = self._clock.monotonic()
        try:
            works = self._source.claim(free)
        except StoreUnavailable as error:
            self._unavailable(error)
            return True
        self.is_answered = True
        self._report.available()
        self._beat()
        self._take(works, asked_at)
        return len(works) == free

    def _wait_for_work(self) -> None:
        try:
            self._source.wait(self._options.poll_interval_s, self._news)
        except StoreUnavailable as error:
            self._unavailable(error)

    def _wait_for_room(self) -> None:
        self._wants_room = True
        if len(self.attempts) >= self._options.concurrency:
            self._clock.wait(self._news, self._options.poll_interval_s)
            self._execution.try_again()
            if self._execution.has_loop_work:
                # Calls may wait there for long. Threads that are all blocked give no such sign.
                self._beat()
        self._wants_room = False

    def _unavailable(self, error: StoreUnavailable) -> None:
        tries = self._report.unavailable(error)
        self._beat()
        self._clock.wait(self._news, _BACKOFF.delay(tries))

    def _beat(self) -> None:
        # A loop that is blocked by one of its calls must not look alive.
        self._report.beat(on_loop=self._execution.has_loop_work)

    # Work comes

    def _take(self, works: Sequence[W], asked_at: float, after: Sequence[Attempt] = ()) -> None:
        """Begin with these pieces, which take the places of those in `after`."""
        if works and self._clock.monotonic() - asked_at >= self._source.lease_s:
            self._let_go(works)
            works = ()
        attempts = [self._attempt(each, asked_at) for each in works]
        self.attempts.remove(after, attempts)
        if attempts:
            self._keeper.hold(asked_at)
        self._watch.expect(asked_at + self._source.lease_s)
        if self._is_to_stop():
            self._returns.give_back([each for each in attempts if each.withdraw()])
            return
        try:
            self._execution.start([each for each in attempts if self._has_job(each)])
        except Exception as error:
            # No event loop can be made here, say: given back, it can be done elsewhere.
            self._fail(error)

    def _let_go(self, works: Sequence[W]) -> None:
        """Nobody knows whether these are still ours: the answer took longer than a lease. Given
        back they count as not handed out; if they cannot be, their leases end by themselves."""
        try:
            self._source.release(works)
        except Exception as error:
            _log.warning("late_claim_not_released", count=len(works), error=str(error))

    def _attempt(self, work: W, asked_at: float) -> Attempt:
        return Attempt(work, self._clock, asked_at, self._report.progressed)

    def _has_job(self, attempt: Attempt) -> bool:
        try:
            attempt.job = self._source.job(attempt.work)
        except Exception as error:
            if attempt.finish():
                self._recorder.put(Ending(attempt, error=error))
            return False
        return True

    def _began(self, attempt: Attempt) -> None:
        due = attempt.due()
        if due is not None:
            self._watch.expect(due)
        self._report.began(attempt)

    # Work ends

    def _ended(self, attempt: Attempt, result: Any, error: BaseException | None) -> None:
        """On the thread that did it."""
        if not attempt.finish():
            self._report.late(attempt, error)
            return
        ending = Ending(attempt, result, error)
        if attempt.job is not None and isinstance(attempt.job.how, OnLoop):
            self._recorder.put(ending)  # thousands wait for this thread
        elif self._recorder.write(ending):
            if len(self.attempts) <= _FEW and not self._execution.has_waiting:
                self._recorder.settle(ending, _PATIENCE_S)
            else:
                self._recorder.put(ending)

    def room(self) -> Room:
        if self._has_no_more_polls or self._is_to_stop():
            return NO_ROOM
        is_full = len(self.attempts) >= self._options.concurrency
        # From time to time this loop must ask: only so what others have abandoned is found.
        is_fresh = self._clock.monotonic() - self._polled_at < self._source.lease_s / 3
        return Room(1, is_last=is_full and is_fresh and self._options.concurrency <= _MANY)

    def recorded(self, ending: Ending, further: Sequence[Any]) -> None:
        # Told first: when nothing is in hand any more, all has been told.
        self._report.ended(ending.attempt, ending.error)
        self._leave(ending.attempt, further, ending.asked_at)

    def refused(self, ending: Ending, reason: Exception) -> None:
        if isinstance(reason, ClaimLost):
            self._report.lost(ending.attempt)
        else:
            self._report.unrecorded(ending.attempt, reason)
        self._leave(ending.attempt)

    def closed(self, ending: Ending, reason: StoreClosed) -> None:
        self._leave(ending.attempt)
        self._fail(reason)

    def _leave(self, attempt: Attempt, further: Sequence[W] = (), asked_at: float = 0.0) -> None:
        if further:
            self._take(further, asked_at, after=[attempt])
        else:
            self.attempts.remove([attempt])
        has_room = self._wants_room and len(self.attempts) < self._options.concurrency
        if has_room and not self._news.is_set():  # setting it again would cost as much
            self._news.set()

    # Work is given up

    def _lose(self, attempt: Attempt) -> None:
        """Its claim is lost. One that is being recorded hears of it from the source."""
        if attempt.finish():
            attempt.kill()
            self._abandon(attempt, "its claim is lost")
            self._report.lost(attempt)
            self._leave(attempt)

    def _look(self) -> float | None:
        """Give up what is out of time; when to look again."""
        held, now = self.attempts.all(), self._clock.monotonic()
        for each in held:
            due = each.due()
            if due is not None and due <= now and each.finish():
                self._time_out(each)
        for each in self._keeper.lapsed(held):
            self._lose(each)
        times = [self.attempts.next_due(), self._keeper.next_lapse(self.attempts.all())]
        return min((each for each in times if each is not None), default=None)

    def _time_out(self, attempt: Attempt) -> None:
        error = timed_out(attempt, self._clock.monotonic())
        attempt.kill()
        self._abandon(attempt, str(error))
        self._recorder.put(Ending(attempt, error=error))

    def _abandon(self, attempt: Attempt, reason: str) -> None:
        ident = attempt.thread
        place = place_of(ident)
        stack = self._execution.abandon(attempt)
        if stack:
            self._report.abandoned(attempt, place, stack, reason)

    # Coming to rest

    def _fail(self, error: Exception) -> None:
        """Nothing can go on: come to rest, and let `go` raise it."""
        self._failure = self._failure or error
        self.stop_claiming()

    def _come_to_rest(self) -> None:
        self._is_stopping = True
        try:
            self._returns.give_back([each for each in self.attempts.all() if each.withdraw()])
            self._rest_until(self._options.drain_s, self._is_checkpointed.is_set)
            self._give_up_rest()
            self._rest_until(_LAST_S, lambda: False)
            for each in self.attempts.all():
                self._report.unrecorded(each, None)
        finally:
            self._recorder.stop(_LAST_S)
            self._watch.end(_LAST_S)
            self._execution.close()
            # The last thing: until here, nobody else may take what this run has in hand.
            self._keeper.stop(_LAST_S)

    def _rest_until(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        """Wait until nothing is in hand, and give back what could not be given back before."""
        ends_at = self._clock.monotonic() + seconds
        for tries in count(1):
            left = ends_at - self._clock.monotonic()
            if left <= 0 or is_enough() or self._is_closed():
                return
            has_waiting = self._returns.has_waiting
            pause = min(left, _BACKOFF.delay(tries)) if has_waiting else left

            def has_changed(known: bool = has_waiting) -> bool:
                return is_enough() or self._is_closed() or self._returns.has_waiting > known

            if self.attempts.wait_until_none(pause, has_changed):
                return
            if has_waiting:
                self._returns.try_again()

    def _is_closed(self) -> bool:
        return isinstance(self._failure, StoreClosed)

    def _give_up_rest(self) -> None:
        """The time is over: end what runs, as far as that is possible, and give it back."""
        rest = [each for each in self.attempts.all() if each.finish()]
        for each in rest:
            each.kill()
        self._execution.wait_until_gone(rest, _GRACE_S)
        for each in rest:
            self._abandon(each, "the time of the drain is over")
        self._returns.try_again(rest)


def timed_out(attempt: Attempt, now: float) -> TimedOut:
    """What is recorded for an attempt whose time is up."""
    job = attempt.job
    assert job is not None, "only what has a job has a limit"
    if job.timeout_s is not None and now >= (attempt.started or 0.0) + job.timeout_s:
        return TimedOut(f"{attempt.label} took longer than {format_duration(job.timeout_s)}")
    patience = format_duration(job.patience_s or 0.0)
    return TimedOut(f"{attempt.label} gave no sign of progress for {patience}")
