"""The bell: no wake-up is lost, none waits for a poll, and stopping is heard at once."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.db.sqlite import Database, Transaction
from afl.db.wake import Bell
from afl.errors import AflError

Start = Callable[..., threading.Thread]
Waiting = Callable[..., Future[bool]]
NEVER_S = 3600.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def bell(folder: Path, clock: FakeClock) -> Iterator[Bell]:
    made = Bell(str(folder / "afl.db"), lambda: 1, clock=clock, poll_interval_s=NEVER_S)
    yield made
    made.close()


@pytest.fixture
def other(folder: Path) -> Iterator[Bell]:
    """The bell of the same file in what might be another process."""
    made = Bell(str(folder / "afl.db"), lambda: 1, poll_interval_s=NEVER_S)
    yield made
    made.close()


@pytest.fixture
def waiting(start: Start) -> Waiting:
    """Start to wait on a thread; the future gets the result of the wait."""

    def begin(bell: Bell, topic: str, seen: int, *more: Any, **options: Any) -> Future[bool]:
        result: Future[bool] = Future()
        start(lambda: result.set_result(bell.wait(topic, seen, *more, **options)))
        return result

    return begin


def test_a_ring_wakes_who_waits_for_its_topic(
    bell: Bell, clock: FakeClock, waiting: Waiting
) -> None:
    results = waiting(bell, "tasks", bell.count("tasks"))
    other_topic = waiting(bell, "mail", bell.count("mail"), 5.0)
    clock.wait_for_waiters(2)
    assert bell.waiters == 2
    bell.ring(["tasks", "else"])
    assert results.result(20)
    assert not other_topic.done()
    clock.advance(5)
    assert not other_topic.result(20)
    assert bell.waiters == 0


def test_a_ring_before_the_wait_is_not_lost(bell: Bell) -> None:
    seen = bell.count("tasks")
    bell.ring(["tasks"])
    assert bell.wait("tasks", seen)
    assert bell.count("tasks") > seen
    assert not bell.wait("tasks", bell.count("tasks"), timeout=0)


def test_a_timeout_runs_on_the_clock(bell: Bell, clock: FakeClock, waiting: Waiting) -> None:
    results = waiting(bell, "tasks", bell.count("tasks"), 20.0)
    clock.wait_for_waiters(1)
    clock.advance(19.9)
    assert not results.done()
    clock.advance(0.1)
    assert not results.result(20)


def test_stop_wakes_a_waiter_at_once(bell: Bell, clock: FakeClock, waiting: Waiting) -> None:
    stop = threading.Event()
    results = waiting(bell, "tasks", bell.count("tasks"), stop=stop)
    clock.wait_for_waiters(1)
    stop.set()
    assert not results.result(20)
    assert not bell.wait("tasks", bell.count("tasks"), stop=stop)


def test_a_shared_stop_does_not_confuse_those_who_share_it(
    bell: Bell, clock: FakeClock, waiting: Waiting
) -> None:
    stop = threading.Event()
    tasks = waiting(bell, "tasks", bell.count("tasks"), stop=stop)
    mail = waiting(bell, "mail", bell.count("mail"), stop=stop)
    clock.wait_for_waiters(2)
    bell.ring(["mail"])
    assert mail.result(20)
    assert not tasks.done()
    stop.set()
    assert not tasks.result(20)


def test_close_wakes_all_and_later_waits_end_at_once(
    bell: Bell, clock: FakeClock, waiting: Waiting
) -> None:
    all_results = [waiting(bell, f"topic {n}", 0) for n in range(10)]
    clock.wait_for_waiters(10)
    bell.close()
    assert [each.result(20) for each in all_results] == [False] * 10
    assert not bell.wait("tasks", bell.count("tasks"))


def test_a_forgotten_topic_looks_rung_and_never_unrung(bell: Bell) -> None:
    bell.ring(["old"])
    seen = bell.count("old")
    for n in range(10_000):
        bell.ring([f"run {n}"])
    assert bell.count("old") > seen
    now = bell.count("old")
    bell.ring(["old"])
    assert bell.count("old") > now


def test_another_process_is_woken_by_its_socket(
    bell: Bell, other: Bell, clock: FakeClock, waiting: Waiting
) -> None:
    results = waiting(bell, "tasks", bell.count("tasks"))
    mail = waiting(bell, "mail", bell.count("mail"))
    clock.wait_for_waiters(2)
    other.ring(["tasks"])
    assert results.result(20)
    assert not mail.done(), "only those who wait for the topic are woken"
    other.ring(["x" * 5000])
    assert mail.result(20), "names too long to send mean any topic"


def test_a_ring_from_elsewhere_between_count_and_wait_is_not_lost(bell: Bell, other: Bell) -> None:
    for _ in range(200):
        seen = bell.count("tasks")
        other.ring(["tasks"])
        assert bell.wait("tasks", seen)


def test_more_rings_than_fit_into_the_inbox_lose_no_topic(
    bell: Bell, other: Bell, waiting: Waiting
) -> None:
    seen = bell.count("last")
    for n in range(100):  # nobody waits yet, so nobody reads them
        other.ring([f"topic {n}"])
    other.ring(["last"])
    assert waiting(bell, "last", seen).result(20)


def test_no_wake_up_is_lost_in_a_race(bell: Bell, start: Start) -> None:
    work: deque[int] = deque()
    rounds = 6000
    taken = threading.Semaphore(0)

    def consume() -> None:
        done = 0
        while done < rounds:
            seen = bell.count("tasks")
            if work:
                work.popleft()
                done += 1
                taken.release()
            else:
                bell.wait("tasks", seen)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread = start(consume)
        for n in range(rounds):
            work.append(n)
            bell.ring(["tasks"])
            if n % 3 == 2:  # let the consumer catch up: sometimes it waits, sometimes not
                assert all(taken.acquire(timeout=20) for _ in range(3))
        thread.join(20)
        assert not thread.is_alive()
    finally:
        sys.setswitchinterval(usual)


def test_a_bell_can_be_closed_at_any_moment(folder: Path, start: Start) -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for n in range(300):
            bell = Bell(str(folder / "afl.db"), lambda: 1, poll_interval_s=0.0001)
            seen = bell.count("tasks")
            if n % 2:
                start(bell.wait, "tasks", seen)
            bell.close()
    finally:
        sys.setswitchinterval(usual)
    assert not (folder / "afl.db.wake").exists()


def test_an_announcement_wakes_after_the_commit_and_only_then(database: Database) -> None:
    def announcing(transaction: Transaction) -> int:
        transaction.announce("tasks")
        return database.bell.count("tasks")

    seen = database.bell.count("tasks")
    assert database.write(announcing) == seen, "not before the commit"
    assert database.bell.count("tasks") > seen, "before the write returns"
    assert database.bell.wait("tasks", seen)


def test_what_is_undone_is_not_announced(database: Database) -> None:
    def undone(transaction: Transaction) -> None:
        transaction.announce("tasks")
        raise ValueError

    seen = database.bell.count("tasks")
    with pytest.raises(ValueError):  # noqa: PT011
        database.write(undone)
    assert database.bell.count("tasks") == seen


def test_closing_the_database_wakes_its_waiters(
    folder: Path, clock: FakeClock, waiting: Waiting
) -> None:
    database = Database(folder / "afl.db", clock=clock)
    results = waiting(database.bell, "tasks", database.bell.count("tasks"))
    clock.wait_for_waiters(1)
    assert database.statistics().waiters == 1
    database.close()
    assert not results.result(20)


def foreign_write(path: str) -> None:
    """As a program does that knows nothing of bells."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS foreigner (id)")
        connection.execute("INSERT INTO foreigner VALUES (1)")


def test_what_nobody_announces_is_found_by_looking(folder: Path) -> None:
    with Database(folder / "afl.db", poll_interval_s=0.01) as database:
        for _ in range(3):
            seen = database.bell.count("tasks")
            foreign_write(database.path)
            assert database.bell.wait("tasks", seen)


def test_looking_tells_the_writes_of_others_from_our_own(database: Database) -> None:
    version = database._writer.foreign_version()
    database.write(lambda tx: tx.execute("INSERT INTO item (text) VALUES ('ours')"))
    assert database._writer.foreign_version() == version
    foreign_write(database.path)
    assert database._writer.foreign_version() != version


def test_looking_does_not_wait_for_a_busy_writer(database: Database, writer_held: Any) -> None:
    with writer_held(database):
        assert database._writer.foreign_version() is None


def test_without_sockets_looking_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.db.sockets.socket", SimpleNamespace())
    versions = iter(range(1_000_000))
    bell = Bell(str(folder / "afl.db"), lambda: next(versions), poll_interval_s=0.001)
    assert bell.wait("tasks", bell.count("tasks"))
    bell.close()
    assert list(folder.iterdir()) == []


def test_a_listener_that_fails_says_so_and_goes_on(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[object] = [1, OSError("broken"), 2]

    def version() -> int:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, OSError):
            raise answer
        assert isinstance(answer, int)
        return answer

    bell = Bell(str(folder / "afl.db"), version, poll_interval_s=0.001)
    assert bell.wait("tasks", bell.count("tasks"))
    bell.close()
    assert "sqlite_listener_failed" in caplog.text


def test_the_guard_is_asked_first(folder: Path) -> None:
    def guard() -> None:
        raise AflError("not here")

    bell = Bell(str(folder / "afl.db"), lambda: 1, guard=guard)
    with pytest.raises(AflError):
        bell.count("tasks")
    with pytest.raises(AflError):
        bell.wait("tasks", 0)
