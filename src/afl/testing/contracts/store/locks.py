"""Locks: one owner at a time, by the store's clock."""

from __future__ import annotations

import threading

from afl.clock import FakeClock
from afl.runtime.entities import LockDefinition, LockMetaData
from afl.runtime.persistence import PersistenceAPI
from afl.testing.contracts.store.exam import StoreExam, set_back


class LockContract(StoreExam):
    def test_a_lock_says_who_holds_it_and_until_when(self, store: PersistenceAPI) -> None:
        meta = LockMetaData("topic", "handler", "pay", "step")
        assert store.acquire_lock("key", 1000, meta, owner="me")
        now = store.now_ms()
        assert store.check_lock("key") == LockDefinition("key", now, now + 1000, meta, "me")
        assert store.get_all_locks() == [store.check_lock("key")]
        assert store.check_lock("other") is None

    def test_somebody_elses_lock_cannot_be_had_extended_or_released(
        self, store: PersistenceAPI
    ) -> None:
        assert store.acquire_lock("key", 1000, owner="me")
        held = store.check_lock("key")
        assert not store.acquire_lock("key", 1000, owner="you")
        assert not store.extend_lock("key", 9000, owner="you")
        assert not store.release_lock("key", owner="you")
        assert not store.release_lock("key")
        assert store.check_lock("key") == held
        assert store.acquire_lock("other", 1000, owner="you")

    def test_nobody_named_means_the_store_itself(self, store: PersistenceAPI) -> None:
        assert store.acquire_lock("key", 1000)
        assert not store.acquire_lock("key", 1000, owner="you")
        assert store.acquire_lock("key", 1000)
        assert store.extend_lock("key", 1000)
        assert store.release_lock("key")
        assert store.acquire_lock("key", 1000, owner="you")

    def test_the_holder_gets_its_lock_again(self, store: PersistenceAPI, clock: FakeClock) -> None:
        assert store.acquire_lock("key", 1000, owner="me")
        clock.advance(0.5)
        assert store.acquire_lock("key", 1000, owner="me")
        clock.advance(0.9)
        assert not store.acquire_lock("key", 1000, owner="you")

    def test_a_released_lock_is_free(self, store: PersistenceAPI) -> None:
        assert store.acquire_lock("key", 1000, owner="me")
        assert store.release_lock("key", owner="me")
        assert store.check_lock("key") is None
        assert store.get_all_locks() == []
        assert not store.release_lock("key", owner="me")
        assert not store.extend_lock("key", 1000, owner="me")
        assert store.acquire_lock("key", 1000, owner="you")

    def test_a_lock_ends_with_its_time(self, store: PersistenceAPI, clock: FakeClock) -> None:
        assert store.acquire_lock("key", 1000, owner="me")
        clock.advance(0.999)
        assert not store.acquire_lock("key", 1000, owner="you")
        clock.advance(0.001)
        assert store.check_lock("key") is None
        assert store.get_all_locks() == []
        assert not store.extend_lock("key", 1000, owner="me")
        assert store.acquire_lock("key", 1000, owner="you")
        assert not store.release_lock("key", owner="me")
        assert not store.extend_lock("key", 1000, owner="me")

    def test_an_extension_counts_from_now(self, store: PersistenceAPI, clock: FakeClock) -> None:
        assert store.acquire_lock("key", 10_000, owner="me")
        clock.advance(1)
        assert store.extend_lock("key", 2000, owner="me")
        lock = store.check_lock("key")
        assert lock is not None
        assert lock.expires_at == store.now_ms() + 2000
        clock.advance(2)
        assert store.check_lock("key") is None

    def test_a_clock_that_is_set_back_makes_no_lock_endless(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        assert store.acquire_lock("key", 1000, owner="dead")
        set_back(clock, 3600)
        assert store.check_lock("key") is None
        assert store.acquire_lock("key", 1000, owner="heir")

    def test_an_extended_lock_survives_neither(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        assert store.acquire_lock("key", 1000, owner="dead")
        clock.advance(0.5)
        assert store.extend_lock("key", 60_000, owner="dead")
        clock.advance(30)
        set_back(clock, 29)
        assert store.check_lock("key") is not None
        set_back(clock, 3600)
        assert store.check_lock("key") is None

    def test_of_many_who_want_it_one_gets_it(self, store: PersistenceAPI) -> None:
        start = threading.Barrier(8)

        def acquire(owner: str) -> bool:
            start.wait(self.patience_s)
            return store.acquire_lock("key", 1000, owner=owner)

        asked = [self.begin(lambda name=f"w{each}": acquire(name)) for each in range(8)]  # type: ignore[misc]
        assert sorted(each.answer() for each in asked) == [False] * 7 + [True]
