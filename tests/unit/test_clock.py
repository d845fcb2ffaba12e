"""Clocks: the fake one wakes real threads and tasks, the real one tells real time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from afl.clock import SYSTEM_CLOCK, Clock, FakeClock, SystemClock, condition_of, now_ms

PATIENCE = 20.0  # real seconds; only a failing test waits that long
START = datetime(2024, 1, 1, tzinfo=UTC)


def run_in_thread(function: Callable[[], Any]) -> Future[Any]:
    """Start `function` on a thread that dies with the process, and give its result."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_fake_clock_starts_at_a_known_time(clock: FakeClock) -> None:
    assert (clock.monotonic(), clock.now()) == (0.0, START)


def test_advancing_moves_both_times(clock: FakeClock) -> None:
    clock.advance(1.5)
    assert (clock.monotonic(), clock.now()) == (1.5, START + timedelta(seconds=1.5))


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_time_that_is_no_step_forward_is_refused(clock: FakeClock, seconds: float) -> None:
    with pytest.raises(ValueError, match="finite time that is not negative"):
        clock.advance(seconds)


def test_wall_time_may_jump_alone(clock: FakeClock) -> None:
    clock.advance(5)
    clock.set_wall(datetime(2020, 2, 2, 3, tzinfo=timezone(timedelta(hours=1))))
    clock.advance(1)
    assert clock.monotonic() == 6.0
    assert clock.now() == datetime(2020, 2, 2, 2, 0, 1, tzinfo=UTC)
    assert clock.now().tzinfo is UTC


def test_wall_time_needs_a_time_zone(clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        clock.set_wall(datetime(2024, 1, 1))  # noqa: DTZ001


def test_a_sleeper_wakes_when_its_time_has_come(clock: FakeClock) -> None:
    sleeper = run_in_thread(lambda: clock.sleep(10))
    clock.wait_for_waiters(1)
    clock.advance(9)
    assert clock.waiters == 1
    assert not sleeper.done()
    clock.advance(1)
    sleeper.result(PATIENCE)


def test_steps_of_a_tenth_add_up_to_the_deadline(clock: FakeClock) -> None:
    sleeper = run_in_thread(lambda: clock.sleep(0.8))
    clock.wait_for_waiters(1)
    clock.advance(0.7)
    clock.advance(0.1)
    sleeper.result(PATIENCE)


@pytest.mark.parametrize("seconds", [0, -1])
def test_sleeping_for_nothing_returns_at_once(clock: FakeClock, seconds: float) -> None:
    clock.sleep(seconds)
    assert clock.waiters == 0


def test_a_jump_of_wall_time_wakes_nobody(clock: FakeClock) -> None:
    run_in_thread(lambda: clock.sleep(10))
    clock.wait_for_waiters(1)
    clock.set_wall(datetime(2030, 1, 1, tzinfo=UTC))
    assert clock.waiters == 1
    clock.advance(10)


def test_everybody_who_is_due_wakes_and_the_rest_stays(clock: FakeClock) -> None:
    sleepers = [run_in_thread(partial(clock.sleep, s)) for s in (1, 2, 3, 10)]
    clock.wait_for_waiters(4)
    clock.advance(3)
    for sleeper in sleepers[:3]:
        sleeper.result(PATIENCE)
    assert clock.waiters == 1
    clock.advance(7)
    sleepers[3].result(PATIENCE)


def test_a_woken_sleeper_is_not_counted_as_the_next_one(clock: FakeClock) -> None:
    rounds: list[float] = []

    def beat() -> None:
        for _ in range(100):
            clock.sleep(1)
            rounds.append(clock.monotonic())

    loop = run_in_thread(beat)
    for _ in range(100):
        clock.wait_for_waiters(1)
        clock.advance(1)
    loop.result(PATIENCE)
    assert rounds == [float(n) for n in range(1, 101)]


def test_waiting_for_an_event_ends_with_its_timeout(clock: FakeClock) -> None:
    event = threading.Event()
    waiting = run_in_thread(lambda: clock.wait(event, 5))
    clock.wait_for_waiters(1)
    clock.advance(5)
    assert waiting.result(PATIENCE) is False
    assert not event.is_set()


@pytest.mark.parametrize("timeout", [5.0, None, float("inf")])
def test_setting_the_event_wakes_the_waiter(clock: FakeClock, timeout: float | None) -> None:
    event = threading.Event()
    waiting = run_in_thread(lambda: clock.wait(event, timeout))
    clock.wait_for_waiters(1)
    event.set()
    assert waiting.result(PATIENCE) is True
    assert clock.waiters == 0


def test_a_set_event_is_seen_without_waiting(clock: FakeClock) -> None:
    event = threading.Event()
    event.set()
    assert clock.wait(event, 0) is True


def test_an_event_that_is_not_set_is_not_waited_for_without_time(clock: FakeClock) -> None:
    assert clock.wait(threading.Event(), 0) is False


def test_a_waiter_whose_event_is_set_is_no_longer_counted(clock: FakeClock) -> None:
    event = threading.Event()
    run_in_thread(lambda: clock.wait(event))
    clock.wait_for_waiters(1)
    event.set()
    assert clock.waiters == 0


def test_many_waiters_of_one_event_have_their_own_deadlines(clock: FakeClock) -> None:
    event = threading.Event()
    short = run_in_thread(lambda: clock.wait(event, 1))
    long = run_in_thread(lambda: clock.wait(event, 2))
    clock.wait_for_waiters(2)
    clock.advance(1)
    assert short.result(PATIENCE) is False
    clock.wait_for_waiters(1)
    event.set()
    assert long.result(PATIENCE) is True


class Box:
    """A condition with one fact, as a queue has."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.condition = threading.Condition()
        self.full = False

    def wait(self, timeout: float | None) -> bool:
        with self.condition:
            return self.clock.wait_for(self.condition, lambda: self.full, timeout)

    def notify(self, *, full: bool) -> None:
        with self.condition:
            self.full = full
            self.condition.notify_all()


def test_waiting_for_a_condition_ends_with_its_timeout(clock: FakeClock) -> None:
    box = Box(clock)
    waiting = run_in_thread(lambda: box.wait(5))
    clock.wait_for_waiters(1)
    clock.advance(5)
    assert waiting.result(PATIENCE) is False


def test_a_notified_condition_wakes_the_waiter(clock: FakeClock) -> None:
    box = Box(clock)
    waiting = run_in_thread(lambda: box.wait(None))
    clock.wait_for_waiters(1)
    box.notify(full=True)
    assert waiting.result(PATIENCE) is True


def test_a_notification_that_changes_nothing_keeps_the_deadline(clock: FakeClock) -> None:
    box = Box(clock)
    waiting = run_in_thread(lambda: box.wait(5))
    clock.wait_for_waiters(1)
    clock.advance(3)
    box.notify(full=False)
    clock.advance(2)
    assert waiting.result(PATIENCE) is False


def test_a_condition_must_be_held(clock: FakeClock) -> None:
    with pytest.raises(RuntimeError):
        clock.wait_for(threading.Condition(), lambda: False, 1)
    assert clock.waiters == 0


def test_a_failing_predicate_leaves_no_waiter_behind(clock: FakeClock) -> None:
    answers = iter([False])
    condition = threading.Condition()

    def wait() -> None:
        with condition:
            clock.wait_for(condition, lambda: next(answers), 1)

    waiting = run_in_thread(wait)
    clock.wait_for_waiters(1)
    clock.advance(1)
    assert isinstance(waiting.exception(PATIENCE), StopIteration)
    assert clock.waiters == 0


def run_loop(coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
    return run_in_thread(lambda: asyncio.run(coroutine))


def test_tasks_of_several_event_loops_wake_from_another_thread(clock: FakeClock) -> None:
    async def two_naps() -> float:
        await asyncio.gather(clock.async_sleep(5), clock.async_sleep(5))
        return clock.monotonic()

    loops = [run_loop(two_naps()), run_loop(two_naps())]
    clock.wait_for_waiters(4)
    clock.advance(5)
    assert [loop.result(PATIENCE) for loop in loops] == [5.0, 5.0]


def test_a_cancelled_task_is_no_longer_parked(clock: FakeClock) -> None:
    async def nap_and_cancel() -> None:
        nap = asyncio.create_task(clock.async_sleep(5))
        while not clock.waiters:
            await asyncio.sleep(0)
        nap.cancel()
        with pytest.raises(asyncio.CancelledError):
            await nap

    asyncio.run(nap_and_cancel())
    assert clock.waiters == 0
    clock.advance(5)


def test_an_async_sleep_of_nothing_still_lets_others_run(clock: FakeClock) -> None:
    async def main() -> list[str]:
        order = []

        async def other() -> None:
            order.append("other")

        task = asyncio.create_task(other())
        await clock.async_sleep(0)
        order.append("main")
        await task
        return order

    assert asyncio.run(main()) == ["other", "main"]


def test_advancing_after_a_loop_was_closed_is_harmless(clock: FakeClock) -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it would tell that the task never ended
    nap = clock.async_sleep(5)
    task = loop.create_task(nap)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    clock.advance(5)
    assert not task.done()
    nap.close()


def test_waiters_that_do_not_come_are_reported(clock: FakeClock) -> None:
    with pytest.raises(TimeoutError, match="0 of 1 waiters"):
        clock.wait_for_waiters(1, timeout=0.001)


def test_no_wake_up_is_lost_under_contention(clock: FakeClock) -> None:
    event = threading.Event()
    box = Box(clock)

    def work(worker: int) -> int:
        for turn in range(30):
            kind = (worker + turn) % 3
            if kind == 0:
                clock.sleep(0.01)
            elif kind == 1:
                assert clock.wait(event, 0.01) is False
            else:
                assert box.wait(0.01) is False
        return 1

    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            clock.advance(0.001)

    with ThreadPoolExecutor(9) as pool:
        ticking = pool.submit(tick)
        done = [pool.submit(work, worker) for worker in range(8)]
        try:
            assert sum(each.result(PATIENCE) for each in done) == 8
        finally:
            stop.set()
        ticking.result(PATIENCE)
    assert clock.waiters == 0


def test_milliseconds_are_exact(clock: FakeClock) -> None:
    assert now_ms(clock) == 1_704_067_200_000
    clock.advance(0.0019)
    assert now_ms(clock) == 1_704_067_200_001


def test_the_system_clock_tells_aware_utc_and_never_goes_back() -> None:
    assert SYSTEM_CLOCK.now().tzinfo is UTC
    assert SYSTEM_CLOCK.monotonic() <= SYSTEM_CLOCK.monotonic()


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300])
def test_the_system_clock_takes_timeouts_beyond_any_lifetime(timeout: float | None) -> None:
    event = threading.Event()
    waiting = run_in_thread(lambda: SYSTEM_CLOCK.wait(event, timeout))
    event.set()
    assert waiting.result(PATIENCE) is True


def test_the_system_clock_waits_for_events_and_conditions() -> None:
    box = Box(SystemClock())
    assert box.wait(0) is False
    assert box.wait(-1) is False
    box.notify(full=True)
    assert box.wait(0) is True
    assert SYSTEM_CLOCK.wait(threading.Event(), 0) is False
    SYSTEM_CLOCK.sleep(-1)
    asyncio.run(SYSTEM_CLOCK.async_sleep(-1))


class _Watched(threading.Event):
    """Tells when somebody looks whether it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = threading.Semaphore(0)

    def is_set(self) -> bool:
        self.looks.release()
        return super().is_set()


@pytest.mark.parametrize("clock", [SYSTEM_CLOCK, FakeClock()], ids=["system", "fake"])
def test_news_for_others_do_not_end_the_wait_for_an_event(clock: Clock) -> None:
    event = _Watched()
    waiting = run_in_thread(lambda: clock.wait(event, PATIENCE))
    assert event.looks.acquire(timeout=PATIENCE)
    with condition_of(event):  # it sleeps now
        condition_of(event).notify_all()
    assert event.looks.acquire(timeout=PATIENCE), "it looks again"
    assert not waiting.done()
    event.set()
    assert waiting.result(PATIENCE)
