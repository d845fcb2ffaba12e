"""Who decides how an attempt ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.work.box import Piece, nothing

from afl.clock import FakeClock
from afl.work.attempts import Attempt, Attempts
from afl.work.source import InThread, Job


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def attempt(clock: FakeClock) -> Attempt:
    return Attempt(Piece("one", 1), clock)


def with_limits(
    attempt: Attempt, timeout_s: float | None = None, patience_s: float | None = None
) -> Attempt:
    attempt.job = Job(InThread(nothing), timeout_s, patience_s)
    return attempt


def test_it_waits_runs_and_is_over(attempt: Attempt) -> None:
    assert not attempt.is_running
    assert attempt.begin()
    assert attempt.is_running
    assert attempt.finish()
    assert attempt.is_over


def test_what_was_withdrawn_never_begins(attempt: Attempt) -> None:
    assert attempt.withdraw()
    assert not attempt.begin()
    assert not attempt.finish()


def test_what_has_begun_is_not_withdrawn(attempt: Attempt) -> None:
    attempt.begin()
    assert not attempt.withdraw()
    assert attempt.is_running


@pytest.mark.parametrize("decide", [Attempt.begin, Attempt.withdraw, Attempt.finish])
def test_only_one_of_many_threads_decides(
    attempt: Attempt, decide: Callable[[Attempt], bool]
) -> None:
    barrier = threading.Barrier(8)
    decided: list[bool] = []

    def try_it() -> None:
        barrier.wait(10)
        decided.append(decide(attempt))

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(decided) == [False] * 7 + [True]


def test_its_deadline_is_set_when_it_begins(attempt: Attempt, clock: FakeClock) -> None:
    with_limits(attempt, timeout_s=60)
    clock.advance(100)
    assert attempt.deadline is None
    assert attempt.due() is None
    attempt.begin()
    assert attempt.started == 100
    assert attempt.deadline == clock.now() + timedelta(seconds=60)
    assert attempt.due() == 160


@pytest.mark.parametrize("timeout_s", [3_000_000 * 86_400.0, 1e15, 1e300])
def test_a_limit_beyond_all_calendars_is_no_deadline(attempt: Attempt, timeout_s: float) -> None:
    with_limits(attempt, timeout_s=timeout_s)
    assert attempt.begin()
    assert attempt.deadline is None
    assert attempt.due() == timeout_s


def test_signs_of_progress_put_off_the_end_of_patience(attempt: Attempt, clock: FakeClock) -> None:
    with_limits(attempt, patience_s=10).begin()
    clock.advance(9)
    attempt.beat()
    assert attempt.due() == 19
    assert attempt.signs == 1


def test_the_earlier_of_both_limits_counts(attempt: Attempt, clock: FakeClock) -> None:
    with_limits(attempt, timeout_s=15, patience_s=10).begin()
    assert attempt.due() == 10
    clock.advance(9)
    attempt.beat()
    assert attempt.due() == 15


def test_whoever_does_it_hears_that_it_is_cancelled_however_late_it_asks(
    attempt: Attempt,
) -> None:
    heard: list[str] = []
    attempt.when_cancelled(lambda: heard.append("cancelled"))
    attempt.cancel()
    attempt.when_cancelled(lambda: heard.append("late"))
    attempt.when_killed(lambda: heard.append("killed"))
    assert heard == ["cancelled", "late"]
    assert attempt.cancellation.is_set()


def test_killing_cancels_and_then_kills(attempt: Attempt) -> None:
    heard: list[str] = []
    attempt.when_killed(lambda: heard.append("killed"))
    attempt.when_cancelled(lambda: heard.append("cancelled"))
    attempt.kill()
    attempt.when_killed(lambda: heard.append("late"))
    assert heard == ["cancelled", "killed", "late"]


def test_the_table_keeps_the_order_and_lets_one_take_the_place_of_another(
    clock: FakeClock,
) -> None:
    one, two, three = (Attempt(Piece(str(number), 1), clock) for number in range(3))
    table = Attempts(clock)
    table.add([one, two])
    table.remove([one], [three])
    assert table.all() == [two, three]
    assert one not in table
    assert len(table) == 2


def test_the_next_limit_is_that_of_what_runs(clock: FakeClock) -> None:
    early, late, waiting, over = (Attempt(Piece(str(number), 1), clock) for number in range(4))
    for number, each in enumerate((early, late, waiting, over)):
        with_limits(each, timeout_s=10 - 2 * (number == 3) + number)
    table = Attempts(clock)
    table.add([late, early, waiting, over])
    for each in (early, late, over):
        each.begin()
    over.finish()
    assert table.next_due() == 10


def test_waiting_for_the_last_one_can_be_called_off(clock: FakeClock, attempt: Attempt) -> None:
    table = Attempts(clock)
    table.add([attempt])
    is_enough = threading.Event()
    results: list[bool] = []
    waiter = threading.Thread(
        target=lambda: results.append(table.wait_until_none(None, is_enough.is_set))
    )
    waiter.start()
    clock.wait_for_waiters(1)
    is_enough.set()
    table.look_again()
    waiter.join(10)
    assert results == [False]
