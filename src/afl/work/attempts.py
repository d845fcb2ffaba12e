"""Attempts: claimed pieces of work in this process, and who may still say how they end.

An attempt waits, runs and is over. It ends once: by whoever does it, or by whoever gives it up;
its lock decides who was first. Everything here is safe from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from afl.clock import Clock
from afl.log import get_logger
from afl.work.source import Job

_log = get_logger(__name__)


class _Stage(IntEnum):
    WAITING = 0
    RUNNING = 1
    OVER = 2


def _nothing() -> None:
    """For who does not want to know."""


def deadline_after(seconds: float, clock: Clock) -> datetime | None:
    """The time in so many seconds, in UTC; None if it is beyond all calendars: then it never
    comes."""
    try:
        return clock.now() + timedelta(seconds=seconds)
    except OverflowError:
        return None


class Attempt:
    """One try at a claimed piece of work, as the work itself and its observers see it."""

    __slots__ = (
        "_cancellation",
        "_clock",
        "_is_cancelled",
        "_is_killed",
        "_lock",
        "_on_cancel",
        "_on_kill",
        "_on_sign",
        "_stage",
        "deadline",
        "job",
        "last_sign",
        "renewed_at",
        "signs",
        "started",
        "thread",
        "work",
    )

    def __init__(
        self,
        work: Any,
        clock: Clock,
        renewed_at: float = 0.0,
        on_sign: Callable[[], object] = _nothing,
    ) -> None:
        #: The claimed piece, as its source lent it.
        self.work = work
        #: How it is done; None until the source has said so.
        self.job: Job | None = None
        #: When it is given up, in UTC; None before its start, and if it may take for ever.
        self.deadline: datetime | None = None
        #: When it began, by the monotonic clock; None before.
        self.started: float | None = None
        #: When it last gave a sign of progress, by the monotonic clock, and how many it gave.
        self.last_sign = 0.0
        self.signs = 0
        #: When the last renewal of its claim that was accepted was asked for.
        self.renewed_at = renewed_at
        #: The thread that it blocks, as `threading.get_ident` has it; None if it blocks none.
        self.thread: int | None = None
        self._clock = clock
        self._on_sign = on_sign
        self._lock = threading.Lock()
        self._stage = _Stage.WAITING
        self._cancellation: threading.Event | None = None
        self._is_cancelled = self._is_killed = False
        self._on_cancel: Callable[[], object] = _nothing
        self._on_kill: Callable[[], object] = _nothing

    @property
    def label(self) -> str:
        """As logs and people name it."""
        return str(self.work.label)

    @property
    def is_running(self) -> bool:
        return self._stage is _Stage.RUNNING

    @property
    def is_over(self) -> bool:
        """Whether it is decided how it ends; perhaps that is not recorded yet."""
        return self._stage is _Stage.OVER

    @property
    def cancellation(self) -> threading.Event:
        """Set when nobody wants the result any more. Made when it is first asked for: most work
        never does."""
        with self._lock:
            if self._cancellation is None:
                self._cancellation = threading.Event()
                if self._is_cancelled:
                    self._cancellation.set()
            return self._cancellation

    def beat(self) -> None:
        """Give a sign of progress. Never waits."""
        self.signs += 1
        self.last_sign = self._clock.monotonic()
        self._on_sign()

    # Who decides

    def begin(self) -> bool:
        """Whether the caller may do it now; False if it was withdrawn."""
        with self._lock:
            if self._stage is not _Stage.WAITING:
                return False
            self._stage = _Stage.RUNNING
        self.started = self.last_sign = self._clock.monotonic()
        if self.job is not None and self.job.timeout_s is not None:
            self.deadline = deadline_after(self.job.timeout_s, self._clock)
        return True

    def withdraw(self) -> bool:
        """Whether it had not begun, and never will."""
        with self._lock:
            if self._stage is not _Stage.WAITING:
                return False
            self._stage = _Stage.OVER
            return True

    def finish(self) -> bool:
        """Whether the caller is the one who says how it ends."""
        with self._lock:
            is_first, self._stage = self._stage is not _Stage.OVER, _Stage.OVER
            return is_first

    # Giving it up

    def when_cancelled(self, stop: Callable[[], object]) -> None:
        """Call `stop` when it is cancelled: at once, if it was already."""
        with self._lock:
            self._on_cancel = stop
            is_late = self._is_cancelled
        if is_late:
            stop()

    def when_killed(self, kill: Callable[[], object]) -> None:
        """Call `kill` when it is killed: at once, if it was already."""
        with self._lock:
            self._on_kill = kill
            is_late = self._is_killed
        if is_late:
            kill()

    def cancel(self) -> None:
        """Tell whoever does it that nobody wants the result."""
        with self._lock:
            self._is_cancelled = True
            stop = self._on_cancel
            if self._cancellation is not None:
                self._cancellation.set()
        self._try_to(stop)

    def kill(self) -> None:
        """Cancel it, and end the process that does it, if it has one."""
        self.cancel()
        with self._lock:
            self._is_killed = True
            kill = self._on_kill
        self._try_to(kill)

    def _try_to(self, end: Callable[[], object]) -> None:
        """Whoever gives it up has more to do, even if it cannot be ended."""
        try:
            end()
        except Exception:
            _log.exception("attempt_not_ended", work=self.label)

    def due(self) -> float | None:
        """When it is given up unless it ends or gives a sign, by the monotonic clock."""
        job, started = self.job, self.started
        if job is None or started is None:
            return None
        if job.timeout_s is None:
            return None if job.patience_s is None else self.last_sign + job.patience_s
        end = started + job.timeout_s
        return end if job.patience_s is None else min(end, self.last_sign + job.patience_s)


class Attempts:
    """All that this process has in hand, in the order in which they were claimed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Who does not wait takes the lock itself: a condition would cost two calls more.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._all: dict[Attempt, None] = {}
        self._is_awaited = False

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt in self._all

    def all(self) -> list[Attempt]:
        with self._lock:
            return list(self._all)

    def add(self, attempts: Iterable[Attempt]) -> None:
        with self._lock:
            self._all.update(dict.fromkeys(attempts))

    def remove(self, attempts: Iterable[Attempt], successors: Sequence[Attempt] = ()) -> None:
        """Take these out, and in the same moment those in that came in their place."""
        with self._lock:
            for each in attempts:
                self._all.pop(each, None)
            self._all.update(dict.fromkeys(successors))
            if self._is_awaited:
                self._changed.notify_all()

    def next_due(self) -> float | None:
        """When the first of those that run is given up, by the monotonic clock."""
        dues = (each.due() for each in self.all() if each.is_running)
        return min((due for due in dues if due is not None), default=None)

    def wait_until_none(self, timeout: float | None, is_enough: Callable[[], bool]) -> bool:
        """Whether none is left; waits no longer once `is_enough()` holds: see `look_again`."""
        with self._changed:
            self._is_awaited = True
            self._clock.wait_for(self._changed, lambda: not self._all or is_enough(), timeout)
            return not self._all

    def look_again(self) -> None:
        """Let `wait_until_none` ask whether it is enough."""
        with self._changed:
            self._changed.notify_all()
