"""Claims: who gets which task, in which order, and how often."""

from __future__ import annotations

import threading

import pytest

from afl.clock import FakeClock
from afl.errors import Conflict
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import Claiming, IterationChanges, PersistenceAPI
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


def _claimed(store: PersistenceAPI, *names: str, limit: int = 100) -> list[str]:
    return [each.uuid for each in store.claim_tasks(names, limit)]


def _retry(store: PersistenceAPI, task: TaskDefinition, not_before: int) -> None:
    """Give a claimed task back until later."""
    assert store.release_task(claim_of(task), not_before=not_before)


class ClaimContract(StoreExam):
    def test_a_claim_sets_owner_lease_fence_and_delivery(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task(uuid="task", data={"sum": 1}))
        clock.advance(5)
        task = claim_one(store, owner="worker", lease_ms=4000)
        assert task == read_task(store, "task")
        assert (task.state, task.owner) == (TaskState.RUNNING, "worker")
        assert (task.lease_ms, task.lease_expires) == (4000, store.now_ms() + 4000)
        assert (task.fence, task.deliveries, task.failures) == (1, 1, 0)
        assert (task.data, task.updated) == ({"sum": 1}, store.now_ms())

    def test_nobody_named_means_the_store_itself(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(), new_task())
        first = store.claim_task(["shop.Pay"])
        assert first is not None
        assert first.owner
        assert claim_one(store).owner == first.owner

    def test_claim_task_gives_one_or_none(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(uuid="a"), new_task(uuid="b", task_list_name="other"))
        task = store.claim_task(["shop.Pay"])
        assert task is not None
        assert task.uuid == "a"
        assert store.claim_task(["shop.Pay"]) is None
        task = store.claim_task(["shop.Pay"], "other")
        assert task is not None
        assert task.uuid == "b"

    def test_a_qualified_name_takes_exactly_its_tasks(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task(each, uuid=each) for each in ("Pay", "a.Pay", "b.Pay")))
        assert _claimed(store, "a.Pay") == ["a.Pay"]
        assert _claimed(store, "c.Pay", "a.b.Pay", "shop") == []

    def test_a_short_name_takes_all_tasks_that_end_in_it(self, store: PersistenceAPI) -> None:
        names = ["a.Pay", "Pay", "a.b.Pay", "a.Repay", "Pay.a", "a.PayNow"]
        add_tasks(store, *(new_task(each, uuid=each) for each in names))
        assert sorted(_claimed(store, "Pay")) == ["Pay", "a.Pay", "a.b.Pay"]

    def test_signs_in_a_name_mean_nothing_but_themselves(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task(each, uuid=each) for each in ("a.Pay", "a.P_y", "a.P%")))
        assert _claimed(store, "P_y") == ["a.P_y"]
        assert _claimed(store, "P%", "%", "*", "*.Pay") == ["a.P%"]
        assert _claimed(store, "pay", "A.Pay") == []

    def test_tasks_of_the_runtime_itself_are_taken_by_their_name(
        self, store: PersistenceAPI
    ) -> None:
        add_tasks(store, new_task("afl:execute", step_id="", uuid="task"))
        assert _claimed(store, "execute", "afl") == []
        assert _claimed(store, "afl:execute") == ["task"]

    def test_exact_names_come_before_short_ones_each_oldest_first(
        self, store: PersistenceAPI
    ) -> None:
        names = ["z.Pay", "b.Ship", "y.Pay", "Pay", "a.Ship", "x.Pay", "b.Ship"]
        add_tasks(store, *(new_task(each, uuid=f"{at} {each}") for at, each in enumerate(names)))
        assert _claimed(store, "Pay", "b.Ship", "x.Pay") == [
            "1 b.Ship",
            "3 Pay",
            "5 x.Pay",
            "6 b.Ship",
            "0 z.Pay",
            "2 y.Pay",
        ]

    def test_retries_that_have_become_due_come_first(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task("a.Pay", uuid="first"))
        add_tasks(store, new_task("z.Ship", uuid="retried"))
        _retry(store, claim_one(store, "Ship"), store.now_ms() + 1000)
        assert _claimed(store, "a.Pay", "Ship", limit=0) == []
        clock.advance(1)
        assert _claimed(store, "a.Pay", "Ship") == ["retried", "first"]

    def test_a_retry_is_not_claimable_before_its_time(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task(not_before=store.now_ms() + 1000))
        clock.advance(0.999)
        assert _claimed(store, "shop.Pay") == []
        clock.advance(0.001)
        assert claim_one(store).not_before == 0

    def test_a_claim_takes_no_more_than_asked(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task(uuid=str(each)) for each in range(5)))
        assert _claimed(store, "shop.Pay", limit=0) == []
        assert _claimed(store, "shop.Pay", limit=2) == ["0", "1"]
        assert _claimed(store, "shop.Pay", limit=9) == ["2", "3", "4"]

    def test_no_names_take_nothing(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task())
        assert _claimed(store) == []

    def test_a_name_given_twice_takes_a_task_once(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task("a.Pay", uuid="task"))
        assert _claimed(store, "Pay", "a.Pay", "Pay", "a.Pay") == ["task"]

    def test_hundreds_of_names_are_fine(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task(f"n{each}.F{each}", uuid=str(each)) for each in range(600)))
        names = [f"n{each}.F{each}" if each % 2 else f"F{each}" for each in range(600)]
        assert len(_claimed(store, *names, limit=1000)) == 600

    def test_task_lists_are_apart(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(uuid="a"), new_task(uuid="b", task_list_name="other"))
        assert [each.uuid for each in store.claim_tasks(["Pay"], 5, task_list="other")] == ["b"]
        assert store.claim_tasks(["Pay"], 5, task_list="third") == []

    @pytest.mark.parametrize("state", [each for each in TaskState if each != TaskState.PENDING])
    def test_what_is_not_pending_is_not_claimed(
        self, store: PersistenceAPI, state: TaskState
    ) -> None:
        now = store.now_ms()
        add_tasks(store, new_task(state=state, lease_expires=now + 1000, lease_ms=1000))
        assert _claimed(store, "shop.Pay", "Pay") == []

    def test_held_tasks_wait_until_they_are_let_go(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task(uuid="task", held=True))
        assert _claimed(store, "shop.Pay") == []
        self._hold(store, "task", False)
        assert _claimed(store, "shop.Pay") == ["task"]
        self._hold(store, "task", True)
        clock.advance(LEASE_MS / 1000)
        assert _claimed(store, "shop.Pay") == []
        self._hold(store, "task", False)
        assert _claimed(store, "shop.Pay") == ["task"]

    def test_a_lapsed_lease_is_claimable_at_once(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task(uuid="task"))
        claim_one(store, owner="dead", lease_ms=1000)
        clock.advance(0.999)
        assert _claimed(store, "shop.Pay") == []
        clock.advance(0.001)
        task = claim_one(store, owner="heir")
        assert (task.owner, task.fence, task.deliveries) == ("heir", 2, 2)
        assert task.lease_expires == store.now_ms() + LEASE_MS

    def test_a_lapsed_task_is_claimed_by_its_short_name_and_in_its_place(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, *(new_task("a.Pay", uuid=each) for each in ("first", "second", "third")))
        assert _claimed(store, "Pay", limit=2) == ["first", "second"]
        clock.advance(LEASE_MS / 1000)
        assert _claimed(store, "Pay") == ["first", "second", "third"]

    def test_a_clock_that_jumps_forward_ends_leases_early_and_harmlessly(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        early = claim_one(store)
        set_back(clock, -3600)
        heir = claim_one(store)
        assert heir.fence == early.fence + 1
        set_back(clock, 3600)
        assert store.extend_leases([claim_of(early), claim_of(heir)]) == [False, True]

    def test_a_clock_that_is_set_back_makes_no_lease_endless(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        claim_one(store, owner="dead")
        set_back(clock, 3600)
        assert claim_one(store, owner="heir").fence == 2
        assert _claimed(store, "shop.Pay") == []

    def test_a_long_lease_does_not_hide_a_short_one_when_the_clock_is_set_back(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task("a.Long", uuid="long"))
        claim_one(store, "a.Long", lease_ms=3_600_000)
        clock.advance(600)
        add_tasks(store, new_task("a.Short", uuid="short"))
        claim_one(store, "a.Short", lease_ms=1000)
        set_back(clock, 300)
        assert _claimed(store, "a.Short", "a.Long") == ["short"]

    def test_a_step_with_a_running_task_lends_no_second_one(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(uuid="a", step_id="x"), new_task(uuid="b", step_id="x"))
        add_tasks(store, new_task(uuid="c", step_id="y"))
        assert _claimed(store, "shop.Pay", limit=3) == ["a", "c"]
        assert _claimed(store, "shop.Pay", "Pay") == []
        end_task(store, "a")
        assert _claimed(store, "shop.Pay") == ["b"]

    def test_a_commit_may_claim_what_waits(self, store: PersistenceAPI, clock: FakeClock) -> None:
        add_tasks(store, new_task(uuid="a"), new_task(uuid="b", task_list_name="other"))
        clock.advance(5)
        asked = Claiming(["shop.Pay"], "default", "worker", 4000, limit=2)
        made = [new_task("shop.Ship", uuid="c"), new_task(uuid="d"), new_task(uuid="e")]
        store.commit(IterationChanges(created_tasks=made, claimings=[asked]))
        if not self.claims_along:
            assert list(asked.tasks) == []
            assert _claimed(store, "shop.Pay") == ["a", "d", "e"]
            return
        assert [each.uuid for each in asked.tasks] == ["a", "d"], "behind all else that it does"
        assert [read_task(store, each.uuid) for each in asked.tasks] == list(asked.tasks)
        for each in asked.tasks:
            assert (each.state, each.owner) == (TaskState.RUNNING, "worker")
            assert (each.fence, each.lease_expires) == (1, store.now_ms() + 4000)
        assert _claimed(store, "shop.Pay") == ["e"]

    def test_a_commit_may_claim_one_and_exact_names_go_first(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task("a.Pay", uuid="a"), new_task("shop.Pay", uuid="b"))
        clock.advance(5)
        asked = Claiming(["Pay", "shop.Pay"], "default", "worker", 4000, limit=1)
        store.commit(IterationChanges(created_tasks=[new_task(uuid="c")], claimings=[asked]))
        if not self.claims_along:
            assert list(asked.tasks) == []
            return
        assert list(asked.tasks) == [read_task(store, "b")]
        (task,) = asked.tasks
        assert (task.owner, task.fence, task.deliveries) == ("worker", 1, 1)
        assert task.lease_expires == store.now_ms() + 4000
        assert _claimed(store, "Pay") == ["a", "c"]

    def test_what_was_abandoned_is_not_claimed_along_with_a_commit(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        """After an outage its end may be on the way, right behind that commit."""
        add_tasks(store, new_task(uuid="a"))
        claim_one(store, lease_ms=1000)
        clock.advance(2)
        asked = Claiming(["Pay"], "default", "worker", 4000, limit=2)
        store.commit(IterationChanges(created_tasks=[new_task(uuid="b")], claimings=[asked]))
        assert [each.uuid for each in asked.tasks] == (["b"] if self.claims_along else [])
        assert "a" in _claimed(store, "shop.Pay")

    def test_who_is_told_of_something_new_gets_it_and_nothing_that_was_abandoned(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        """After an outage the news may come before the ends of what seems abandoned."""
        add_tasks(store, new_task(uuid="lapsed"))
        claim_one(store, lease_ms=1000)
        clock.advance(2)
        assert store.claim_tasks(["Pay"], 9, is_told=True) == []
        add_tasks(store, new_task(uuid="new"), new_task("shop.Ship"), new_task(held=True))
        told = store.claim_tasks(["Pay"], 9, owner="worker", lease_ms=4000, is_told=True)
        assert told == [read_task(store, "new")]
        assert (told[0].owner, told[0].fence, told[0].deliveries) == ("worker", 1, 1)
        assert told[0].lease_expires == store.now_ms() + 4000
        assert store.claim_tasks(["Pay"], 0, is_told=True) == []
        assert _claimed(store, "shop.Pay") == ["lapsed"]

    def test_who_is_told_gets_no_second_task_of_a_step(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(uuid="a", step_id="x"), new_task(uuid="b", step_id="x"))
        assert _claimed(store, "shop.Pay", limit=1) == ["a"]
        assert store.claim_tasks(["shop.Pay", "Pay"], 9, is_told=True) == []

    def test_a_commit_that_is_refused_claims_nothing(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(uuid="a"))
        asked = Claiming(["shop.Pay"], "default", "worker", 4000, limit=2)
        old = read_task(store, "a")
        store.commit(IterationChanges(updated_tasks=[read_task(store, "a")]))
        with pytest.raises(Conflict):
            store.commit(IterationChanges(updated_tasks=[old], claimings=[asked]))
        assert _claimed(store, "shop.Pay") == ["a"]

    def test_many_workers_get_each_task_once(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task(f"n{each % 3}.Pay", uuid=str(each)) for each in range(200)))
        start = threading.Barrier(16)

        def work(owner: str) -> list[TaskDefinition]:
            start.wait(self.patience_s)
            mine: list[TaskDefinition] = []
            while got := store.claim_tasks(["Pay"], 5, owner=owner):
                mine.extend(got)
            return mine

        workers = [self.begin(lambda name=f"w{each}": work(name)) for each in range(16)]  # type: ignore[misc]
        taken = [task for each in workers for task in each.answer()]
        assert sorted(int(each.uuid) for each in taken) == list(range(200))
        assert {(each.fence, each.deliveries) for each in taken} == {(1, 1)}
        assert {read_task(store, each.uuid).owner == each.owner for each in taken} == {True}

    def _hold(self, store: PersistenceAPI, task_id: str, is_held: bool) -> None:
        task = read_task(store, task_id)
        task.held = is_held
        store.commit(IterationChanges(updated_tasks=[task]))
