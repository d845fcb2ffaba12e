"""Watching times and the stop on one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.work.running import PATIENCE_S, eventually

from afl.clock import FakeClock
from afl.work.watch import Watch


class Watched:
    """What a watch found, and what it is to look at next."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.stop = threading.Event()
        self.is_told = threading.Event()
        self.looks: list[float] = []
        self.following: float | None = None
        self.watch = Watch(self.stop, self.is_told.set, self.look, clock)

    def look(self) -> float | None:
        self.looks.append(self.clock.monotonic())
        following, self.following = self.following, None
        return following


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@contextmanager
def watched(clock: FakeClock) -> Iterator[Watched]:
    watched = Watched(clock)
    watched.watch.start()
    try:
        clock.wait_for_waiters(1)
        yield watched
    finally:
        watched.watch.end(PATIENCE_S)


def test_it_tells_of_the_stop_once(clock: FakeClock) -> None:
    with watched(clock) as each:
        each.stop.set()
        assert each.is_told.wait(PATIENCE_S)
        each.is_told.clear()
        each.watch.expect(5)
        clock.advance(5)
        eventually(lambda: 5 in each.looks)
        assert not each.is_told.is_set()


def test_it_looks_when_the_time_has_come_and_not_before(clock: FakeClock) -> None:
    with watched(clock) as each:
        each.watch.expect(5)
        clock.wait_for_waiters(1)
        clock.advance(4)
        clock.wait_for_waiters(1)
        assert each.looks == []
        clock.advance(1)
        eventually(lambda: each.looks == [5])


def test_an_earlier_time_is_heard_while_it_waits_for_a_later_one(clock: FakeClock) -> None:
    with watched(clock) as each:
        each.watch.expect(50)
        clock.wait_for_waiters(1)
        each.watch.expect(5)
        eventually(lambda: clock.waiters == 1)
        clock.advance(5)
        eventually(lambda: each.looks == [5])


def test_it_looks_again_at_the_time_that_the_last_look_gave(clock: FakeClock) -> None:
    with watched(clock) as each:
        each.following = 8
        each.watch.expect(5)
        clock.wait_for_waiters(1)
        clock.advance(5)
        eventually(lambda: each.looks == [5])
        clock.wait_for_waiters(1)
        clock.advance(3)
        eventually(lambda: each.looks == [5, 8])


def test_what_a_look_raises_does_not_end_it(clock: FakeClock) -> None:
    looks: list[None] = []

    def look() -> None:
        looks.append(None)
        raise ValueError("a defect")

    watch = Watch(threading.Event(), lambda: None, look, clock)
    watch.start()
    for count in (1, 2):
        clock.wait_for_waiters(1)
        watch.expect(clock.monotonic())
        eventually(lambda count=count: len(looks) == count)  # type: ignore[misc]
    watch.end(PATIENCE_S)
