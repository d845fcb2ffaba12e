"""Leases: who may extend and release, and what that changes."""

from __future__ import annotations

import pytest

from afl.clock import FakeClock
from afl.errors import Conflict
from afl.runtime.claims import ended, holds
from afl.runtime.entities import TaskState
from afl.runtime.errors import StaleFence
from afl.runtime.persistence import Claim, IterationChanges, PersistenceAPI, View
from afl.testing.contracts.store.exam import (
    LEASE_MS,
    StoreExam,
    add_tasks,
    claim_of,
    claim_one,
    end_task,
    new_task,
    read_task,
    set_back,
)


def _complete(store: PersistenceAPI, claim: Claim) -> None:
    """As a worker does it: checked and ended in one decision."""

    def decision(view: View) -> tuple[IterationChanges, None]:
        task = view.get_task(claim.task_id)
        if task is None or not holds(task, claim.fence):
            raise StaleFence(claim.task_id, claim.fence, "claimed by another")
        done = ended(task, TaskState.COMPLETED, view.now_ms())
        return IterationChanges(updated_tasks=[done]), None

    store.decide(decision)


class LeaseContract(StoreExam):
    def test_an_extension_lets_the_lease_end_later(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        clock.advance(10)
        assert store.extend_leases([claim_of(task)]) == [True]
        extended = read_task(store, task.uuid)
        assert extended.lease_expires == store.now_ms() + LEASE_MS
        assert (extended.fence, extended.deliveries, extended.owner) == (1, 1, task.owner)
        clock.advance(14.9)
        assert store.claim_tasks(["Pay"], 1) == []
        clock.advance(0.1)
        assert len(store.claim_tasks(["Pay"], 1)) == 1

    def test_an_extension_never_makes_a_lease_shorter(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        task = claim_one(store, lease_ms=60_000)
        clock.advance(1)
        assert store.extend_leases([claim_of(task)], 1000) == [True]
        assert read_task(store, task.uuid).lease_expires == task.lease_expires
        clock.advance(58.9)
        assert store.claim_tasks(["Pay"], 1) == []

    def test_a_lease_extended_after_the_clock_was_set_back_ends_by_the_new_time(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        set_back(clock, 3600)
        assert store.extend_leases([claim_of(task)]) == [True]
        assert store.claim_tasks(["Pay"], 1) == []
        clock.advance(LEASE_MS / 1000)
        assert len(store.claim_tasks(["Pay"], 1)) == 1

    def test_each_claim_gets_its_own_answer(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task() for _ in range(3)))
        first, second, third = store.claim_tasks(["Pay"], 3)
        end_task(store, second.uuid)
        asked = [
            claim_of(third),
            claim_of(second),
            Claim("nobody", 1),
            Claim(first.uuid, 0),
            claim_of(first),
        ]
        assert store.extend_leases(asked) == [True, False, False, False, True]
        assert store.extend_leases([]) == []

    def test_an_old_claim_extends_nothing(self, store: PersistenceAPI, clock: FakeClock) -> None:
        add_tasks(store, new_task())
        lost = claim_one(store, owner="slow")
        clock.advance(LEASE_MS / 1000)
        present = claim_one(store, owner="heir")
        clock.advance(1)
        assert store.extend_leases([claim_of(lost)]) == [False]
        assert read_task(store, lost.uuid) == present

    def test_a_lapsed_lease_that_nobody_took_is_renewed(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        clock.advance(3600)
        assert store.extend_leases([claim_of(task)]) == [True]
        assert store.claim_tasks(["Pay"], 1) == []
        renewed = read_task(store, task.uuid)
        assert (renewed.owner, renewed.fence, renewed.deliveries) == (task.owner, 1, 1)

    def test_a_lapsed_claim_stays_good_while_others_claim_other_work(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task("a.Pay"), new_task("a.Pay"), new_task("b.Ship"))
        first, second = store.claim_tasks(["a.Pay"], 2)
        clock.advance(3600)
        claim_one(store, "b.Ship")
        assert store.claim_tasks(["c.Other"], 1) == []
        assert store.extend_leases([claim_of(first)]) == [True]
        _complete(store, claim_of(second))
        assert read_task(store, second.uuid).state == TaskState.COMPLETED

    def test_released_work_returns_to_its_place_and_costs_no_delivery(
        self, store: PersistenceAPI
    ) -> None:
        add_tasks(store, *(new_task(uuid=each) for each in ("first", "second", "third")))
        task = store.claim_tasks(["Pay"], 2)[0]
        assert store.release_task(claim_of(task))
        back = read_task(store, "first")
        assert (back.state, back.owner, back.deliveries) == (TaskState.PENDING, "", 0)
        assert (back.lease_expires, back.not_before) == (0, 0)
        assert [each.uuid for each in store.get_pending_tasks()] == ["first", "third"]
        again = claim_one(store)
        assert (again.uuid, again.fence, again.deliveries) == ("first", 2, 1)

    def test_released_work_can_wait_for_a_time(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        later = store.now_ms() + 500
        assert store.release_task(claim_of(claim_one(store)), not_before=later)
        assert store.claim_tasks(["Pay"], 1) == []
        clock.advance(0.5)
        assert len(store.claim_tasks(["Pay"], 1)) == 1

    def test_an_old_claim_releases_nothing(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task())
        lost = claim_one(store)
        assert store.release_task(claim_of(lost))
        assert store.release_task(claim_of(lost)) is False
        present = claim_one(store)
        assert store.release_task(claim_of(lost)) is False
        assert store.release_task(Claim("nobody", 1)) is False
        assert read_task(store, lost.uuid) == present

    def test_an_old_claim_completes_nothing(self, store: PersistenceAPI, clock: FakeClock) -> None:
        add_tasks(store, new_task())
        lost = claim_one(store, owner="slow")
        clock.advance(LEASE_MS / 1000)
        present = claim_one(store, owner="heir")
        with pytest.raises(StaleFence):
            _complete(store, claim_of(lost))
        assert read_task(store, lost.uuid) == present
        _complete(store, claim_of(present))
        with pytest.raises(Conflict):
            _complete(store, claim_of(present))

    def test_a_change_decided_before_a_renewal_is_refused(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        store.extend_leases([claim_of(task)], 2 * LEASE_MS)
        with pytest.raises(Conflict):
            store.commit(IterationChanges(updated_tasks=[task]))
        assert read_task(store, task.uuid).lease_expires > task.lease_expires
