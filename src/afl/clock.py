"""Time: the one place that reads a clock, sleeps, or waits with a timeout.

- Everything that needs time takes a `Clock`; `SYSTEM_CLOCK` is the default argument.
- Deadlines run on monotonic time. Wall time is for people and records, and may jump.
- `FakeClock` stands still until a test advances it, and then wakes real threads and tasks:
  whatever waits on an event, a condition or in a coroutine through it.

Nothing else in the package imports `time` or asks `datetime` for now.
"""

from __future__ import annotations

import threading
import time  # noqa: TID251
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import asyncio

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAKE_START = datetime(2024, 1, 1, tzinfo=UTC)
_NS = 1_000_000_000


class Clock(Protocol):
    """What time it is, and how to wait for it.

    A wait of zero or less returns at once. No timeout means for ever.
    """

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until `event` is set; False if the timeout came first."""
        ...

    def wait_for(
        self,
        condition: threading.Condition,
        predicate: Callable[[], bool],
        timeout: float | None = None,
    ) -> bool:
        """Wait until `predicate()` holds, looking again at each notification.

        The caller holds `condition`. Returns the last value of the predicate.
        Raises RuntimeError if the condition is not held.
        """
        ...

    async def async_sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The time of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(min(seconds, threading.TIMEOUT_MAX))

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        # Not `event.wait`: a notification by somebody else who waits with it would end that.
        condition = condition_of(event)
        with condition:
            return condition.wait_for(event.is_set, _bounded(timeout))

    def wait_for(
        self,
        condition: threading.Condition,
        predicate: Callable[[], bool],
        timeout: float | None = None,
    ) -> bool:
        return condition.wait_for(predicate, _bounded(timeout))

    async def async_sleep(self, seconds: float) -> None:
        import asyncio  # costs more than all other imports of the ground layer together

        await asyncio.sleep(max(seconds, 0))


SYSTEM_CLOCK: Clock = SystemClock()


def condition_of(event: threading.Event) -> threading.Condition:
    """What wakes those who wait for an event: waiting on it hears of the event, and of more.

    The attribute is private but as old as the class; the alternatives are a thread for each
    event, or polling in real time.
    """
    return cast("threading.Condition", cast(Any, event)._cond)


def now_ms(clock: Clock) -> int:
    """Wall time as whole milliseconds since 1970, as stored records hold it."""
    return (clock.now() - _EPOCH) // _MILLISECOND


@dataclass(eq=False, slots=True)
class _Waiter:
    """Somebody who is parked on a FakeClock, and how to wake them."""

    deadline_ns: int | None
    wake: Callable[[], None]
    is_over: Callable[[], bool]


class FakeClock:
    """A clock that moves only when told; for tests of anything that waits.

    Monotonic time starts at 0.0 and wall time at 2024-01-01 UTC. `advance` moves both and wakes
    everybody whose deadline has passed; a set event or a notified condition wakes them too. All
    who wake by one `advance` see the time after it, however far it went.

    Do not advance while holding the plain (not reentrant) lock of a condition that somebody waits
    on: waking them needs that lock.
    """

    def __init__(self, wall: datetime = _FAKE_START) -> None:
        self._elapsed_ns = 0  # whole numbers: 0.7 + 0.1 must reach a deadline of 0.8
        self._wall_start = _aware_utc(wall)
        self._parked: dict[_Waiter, None] = {}
        self._changed = threading.Condition()

    def monotonic(self) -> float:
        with self._changed:
            return self._elapsed_ns / _NS

    def now(self) -> datetime:
        with self._changed:
            return self._wall_start + self._elapsed()

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ValueError for a step back: use `set_wall` for that."""
        if not 0 <= seconds < threading.TIMEOUT_MAX:
            raise ValueError(f"a clock advances by a finite time that is not negative: {seconds}")
        with self._changed:
            self._elapsed_ns += _to_ns(seconds)
            due = [waiter for waiter in self._parked if self._has_passed(waiter.deadline_ns)]
            for waiter in due:
                # Off the list now, not when its thread runs: who then waits for the next parked
                # waiter must not be shown this one.
                del self._parked[waiter]
        # Outside our lock: a parking thread takes the lock of its condition first and ours second.
        for waiter in sorted(due, key=lambda each: each.deadline_ns or 0):
            waiter.wake()

    def set_wall(self, wall: datetime) -> None:
        """Let wall time jump, as a correction does; monotonic time and waits stay."""
        with self._changed:
            self._wall_start = _aware_utc(wall) - self._elapsed()

    @property
    def waiters(self) -> int:
        """How many threads and tasks are parked on this clock, not counting those being woken."""
        with self._changed:
            return sum(not waiter.is_over() for waiter in self._parked)

    def wait_for_waiters(self, count: int, timeout: float = 10.0) -> None:
        """Block, in real time, until at least `count` waiters are parked.

        Whoever is counted here is woken by a later `advance` or notification for certain.
        Raises TimeoutError if they do not come within `timeout` real seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.waiters >= count, timeout):
                raise TimeoutError(f"{self.waiters} of {count} waiters came within {timeout} s")

    def sleep(self, seconds: float) -> None:
        self.wait(threading.Event(), seconds)

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        condition = condition_of(event)
        with condition:
            return self._wait_for(condition, event.is_set, timeout, is_over=event.is_set)

    def wait_for(
        self,
        condition: threading.Condition,
        predicate: Callable[[], bool],
        timeout: float | None = None,
    ) -> bool:
        # The predicate needs the condition's lock, so the count of waiters cannot ask it.
        return self._wait_for(condition, predicate, timeout, is_over=lambda: False)

    def _wait_for(
        self,
        condition: threading.Condition,
        predicate: Callable[[], bool],
        timeout: float | None,
        is_over: Callable[[], bool],
    ) -> bool:
        waiter = _Waiter(self._deadline(timeout), partial(_notify, condition), is_over)
        try:
            # No wake-up is lost between parking and waiting: `advance` needs the condition's
            # lock to notify, and that is ours until `condition.wait` has begun.
            while not (holds := predicate()) and self._park(waiter):
                condition.wait()
        finally:
            self._leave(waiter)
        return holds

    async def async_sleep(self, seconds: float) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        waiter = _Waiter(self._deadline(seconds), partial(_resolve, loop, future), future.done)
        try:
            if self._park(waiter):
                await future
            else:
                await asyncio.sleep(0)
        finally:
            self._leave(waiter)

    def _park(self, waiter: _Waiter) -> bool:
        """Put the waiter on the list; False if its deadline has passed already."""
        with self._changed:
            if self._has_passed(waiter.deadline_ns):
                return False
            self._parked[waiter] = None
            self._changed.notify_all()
            return True

    def _leave(self, waiter: _Waiter) -> None:
        with self._changed:
            self._parked.pop(waiter, None)

    def _deadline(self, timeout: float | None) -> int | None:
        timeout = _bounded(timeout)
        with self._changed:
            return None if timeout is None else self._elapsed_ns + _to_ns(timeout)

    def _has_passed(self, deadline_ns: int | None) -> bool:
        return deadline_ns is not None and deadline_ns <= self._elapsed_ns

    def _elapsed(self) -> timedelta:
        return timedelta(microseconds=self._elapsed_ns // 1000)


def _bounded(timeout: float | None) -> float | None:
    """Infinity and centuries are fine as timeouts, but the operating system overflows on them."""
    return None if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))


def _to_ns(seconds: float) -> int:
    return round(seconds * _NS)


def _aware_utc(wall: datetime) -> datetime:
    if wall.tzinfo is None:
        raise ValueError(f"wall time needs a time zone: {wall.isoformat()}")
    return wall.astimezone(UTC)


def _notify(condition: threading.Condition) -> None:
    with condition:
        condition.notify_all()


def _resolve(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    def finish() -> None:
        if not future.done():
            future.set_result(None)

    # A loop that was closed meanwhile has nobody left to wake.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(finish)
