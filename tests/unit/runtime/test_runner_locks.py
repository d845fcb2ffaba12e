"""A runner locks what it works on, keeps the lock, and gives up what somebody else took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.workers.shop import Shop, eventually

from afl.clock import FakeClock
from afl.errors import StoreUnavailable
from afl.runtime.entities import LockDefinition, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner.locks import ItemLocks, lock_key
from afl.runtime.task_source import NotNow, TaskWork
from afl.work.attempts import Attempt

DURATION_MS = 60_000
INTERVAL_S = 20.0


class Fragile(MemoryStore):
    is_out = False

    def extend_lock(self, *args: Any, **options: Any) -> bool:
        if self.is_out:
            raise StoreUnavailable("out of reach")
        return super().extend_lock(*args, **options)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[Fragile]:
    store = Fragile(clock)
    yield store
    store.close()


@pytest.fixture
def locks(store: Fragile, clock: FakeClock) -> ItemLocks:
    return ItemLocks(store, DURATION_MS, INTERVAL_S, clock)


def claimed(store: MemoryStore, owner: str = "s1") -> TaskWork:
    Shop(store).weigh_all("a")
    return claimed_again(store, owner)


def claimed_again(store: MemoryStore, owner: str) -> TaskWork:
    [task] = store.claim_tasks(["shop.Weigh"], 1, owner=owner)
    return TaskWork(task)


def lock_of(store: MemoryStore, work: TaskWork) -> LockDefinition:
    lock = store.check_lock(lock_key(work.id))
    assert lock is not None
    return lock


def test_a_lock_tells_who_has_what(store: Fragile, locks: ItemLocks) -> None:
    work = claimed(store)
    locks.enter(work)
    lock = lock_of(store, work)
    assert lock.key == f"runner:task:{work.id}"
    assert lock.owner == "runner:s1:1"
    assert lock.expires_at == store.now_ms() + DURATION_MS
    assert lock.meta is not None
    assert (lock.meta.handler, lock.meta.step_id) == ("shop.Weigh", work.task.step_id)
    locks.leave(work)
    assert store.get_all_locks() == []
    locks.leave(work)


def test_the_lock_of_a_dead_claim_is_taken_over(
    store: Fragile, locks: ItemLocks, clock: FakeClock
) -> None:
    dead = ItemLocks(store, DURATION_MS, INTERVAL_S, clock)
    dead.enter(claimed(store, "dead"))
    clock.advance(16)
    work = claimed_again(store, "s1")
    locks.enter(work)
    assert lock_of(store, work).owner == "runner:s1:2"


def test_who_lost_a_claim_leaves_the_lock_of_the_next_one_alone(
    store: Fragile, locks: ItemLocks, clock: FakeClock
) -> None:
    lost = claimed(store)
    locks.enter(lost)
    clock.advance(16)
    work = claimed_again(store, "s1")
    locks.enter(work)
    locks.leave(lost)
    assert lock_of(store, work).owner == "runner:s1:2"
    locks.leave(work)
    assert store.get_all_locks() == []


def test_the_lock_of_anybody_else_is_respected(store: Fragile, locks: ItemLocks) -> None:
    work = claimed(store)
    assert store.acquire_lock(lock_key(work.id), 5000, owner="an operator")
    with pytest.raises(NotNow, match=f"somebody else holds the lock runner:task:{work.id}") as told:
        locks.enter(work)
    assert told.value.not_before == store.now_ms() + 5000
    assert lock_of(store, work).owner == "an operator"


def test_locks_are_extended_and_given_back_by_a_thread(
    store: Fragile, locks: ItemLocks, clock: FakeClock
) -> None:
    work = claimed(store)
    with locks.kept():
        locks.enter(work)
        for _ in range(4):
            clock.wait_for_waiters(1)
            clock.advance(INTERVAL_S)
            eventually(lambda: lock_of(store, work).expires_at == store.now_ms() + DURATION_MS)
        locks.leave(work)
        eventually(lambda: not store.get_all_locks())


def test_what_is_left_at_the_end_is_given_back(store: Fragile, locks: ItemLocks) -> None:
    work = claimed(store)
    with locks.kept():
        locks.enter(work)
        locks.leave(work)
    assert store.get_all_locks() == []


def test_a_lost_lock_cancels_the_attempt_and_gives_the_task_back(
    store: Fragile, locks: ItemLocks, clock: FakeClock
) -> None:
    work = claimed(store)
    attempt = Attempt(work, clock)
    with locks.kept():
        locks.enter(work)
        locks.attach(work, attempt)
        store.release_lock(lock_key(work.id), owner="runner:s1:1")
        assert store.acquire_lock(lock_key(work.id), DURATION_MS, owner="an operator")
        clock.wait_for_waiters(1)
        clock.advance(INTERVAL_S)
        eventually(attempt.cancellation.is_set)
    task = store.get_task(work.id)
    assert task is not None
    assert task.state == TaskState.PENDING
    assert lock_of(store, work).owner == "an operator"


def test_an_outage_loses_no_lock(store: Fragile, locks: ItemLocks, clock: FakeClock) -> None:
    work = claimed(store)
    attempt = Attempt(work, clock)
    with locks.kept():
        locks.enter(work)
        locks.attach(work, attempt)
        store.is_out = True
        clock.wait_for_waiters(1)
        clock.advance(INTERVAL_S)
        clock.wait_for_waiters(1)
        store.is_out = False
        clock.advance(INTERVAL_S)
        eventually(lambda: lock_of(store, work).expires_at == store.now_ms() + DURATION_MS)
    assert not attempt.cancellation.is_set()
