"""Announcements: whoever waits is woken when there is something, and not before."""

from __future__ import annotations

import threading

from afl.clock import FakeClock
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.persistence import IterationChanges, PersistenceAPI, View, Wake
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import (
    Background,
    StoreExam,
    add_tasks,
    claim_of,
    claim_one,
    end_task,
    new_run,
    new_task,
    read_task,
)

RUN = WorkflowId("run")


class WaitContract(StoreExam):
    #: Rounds of the test that hunts for lost wake-ups.
    rounds = 100

    def waiting(
        self, store: PersistenceAPI, clock: FakeClock, timeout: float | None = None
    ) -> Background[bool]:
        """Somebody who waits for work, and is asleep."""
        waiter = self.begin(lambda: store.wait_for_work(["Pay"], timeout))
        clock.wait_for_waiters(1)
        return waiter

    # Work

    def test_work_that_is_there_needs_no_wait(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task("a.Pay"))
        assert store.wait_for_work(["Pay"]) is True
        assert store.wait_for_work(["b.Ship", "a.Pay"], 0) is True

    def test_a_look_without_patience_returns_at_once(self, store: PersistenceAPI) -> None:
        assert store.wait_for_work(["Pay"], 0) is False
        assert store.wait_for_work([], 0) is False

    def test_a_wait_ends_at_its_timeout(self, store: PersistenceAPI, clock: FakeClock) -> None:
        waiter = self.waiting(store, clock, 30)
        clock.advance(30)
        assert waiter.answer() is False

    def test_a_wait_ends_when_it_is_told_to_stop(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        stop = threading.Event()
        waiter = self.begin(lambda: store.wait_for_work(["Pay"], stop=stop))
        clock.wait_for_waiters(1)
        stop.set()
        assert waiter.answer() is False
        assert store.wait_for_work(["Pay"], stop=stop) is False

    def test_a_committed_task_wakes(self, store: PersistenceAPI, clock: FakeClock) -> None:
        waiter = self.waiting(store, clock)
        add_tasks(store, new_task())
        assert waiter.answer() is True

    def test_who_waits_for_news_hears_of_a_task_and_gets_it(self, store: PersistenceAPI) -> None:
        def work() -> list[str]:
            is_told = False
            while not (tasks := store.claim_tasks(["Pay"], 1, is_told=is_told)):
                woken = store.wait_for_news(["Pay"])
                assert woken is not Wake.NOTHING
                is_told = woken is Wake.NEWS
            return [each.uuid for each in tasks]

        worker = self.begin(work)
        add_tasks(store, new_task("Ship", uuid="other"), new_task(uuid="mine"))
        assert worker.answer() == ["mine"]

    def test_a_look_for_news_returns_at_once(self, store: PersistenceAPI) -> None:
        assert store.wait_for_news(["Pay"], 0) is Wake.NOTHING
        add_tasks(store, new_task())
        assert store.wait_for_news(["Pay"]) is Wake.WORK

    def test_who_waits_for_news_finds_what_was_abandoned(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        claim_one(store, lease_ms=1000)
        clock.advance(1)
        assert store.wait_for_news(["Pay"]) is Wake.WORK

    def test_a_decided_task_wakes(self, store: PersistenceAPI, clock: FakeClock) -> None:
        waiter = self.waiting(store, clock)
        store.decide(lambda _view: (IterationChanges(created_tasks=[new_task()]), None))
        assert waiter.answer() is True

    def test_a_saved_task_wakes(self, store: PersistenceAPI, clock: FakeClock) -> None:
        waiter = self.waiting(store, clock)
        store.save_task(new_task())
        assert waiter.answer() is True

    def test_a_released_task_wakes(self, store: PersistenceAPI, clock: FakeClock) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        waiter = self.waiting(store, clock)
        assert store.release_task(claim_of(task))
        assert waiter.answer() is True

    def test_a_task_that_an_operator_puts_back_wakes(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task(uuid="task", state=TaskState.FAILED))
        waiter = self.waiting(store, clock)
        assert store.update_task_state("task", TaskState.PENDING)
        assert waiter.answer() is True

    def test_a_task_that_is_let_go_wakes(self, store: PersistenceAPI, clock: FakeClock) -> None:
        add_tasks(store, new_task(uuid="task", held=True))
        waiter = self.waiting(store, clock)
        task = read_task(store, "task")
        task.held = False
        store.commit(IterationChanges(updated_tasks=[task]))
        assert waiter.answer() is True

    def test_the_end_of_a_steps_running_task_wakes_for_its_next(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task(uuid="a", step_id="x"), new_task(uuid="b", step_id="x"))
        claim_one(store)
        assert store.wait_for_work(["Pay"], 0) is False
        waiter = self.waiting(store, clock)
        end_task(store, "a")
        assert waiter.answer() is True

    def test_a_lease_that_lapses_wakes(self, store: PersistenceAPI, clock: FakeClock) -> None:
        add_tasks(store, new_task())
        claim_one(store, lease_ms=5000)
        waiter = self.waiting(store, clock)
        clock.advance(5)
        assert waiter.answer() is True

    def test_a_lease_that_begins_during_the_wait_wakes_when_it_lapses(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task(uuid="task", held=True))
        waiter = self.waiting(store, clock, 3600)
        task = read_task(store, "task")
        task.state, task.held = TaskState.RUNNING, False
        task.lease_ms, task.lease_expires = 5000, store.now_ms() + 5000
        store.save_task(task)
        # It sleeps again: now until the lease ends.
        clock.wait_for_waiters(1)
        clock.advance(3599)
        assert waiter.answer() is True

    def test_a_lease_that_was_extended_does_not_wake_at_its_old_end(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        add_tasks(store, new_task())
        task = claim_one(store, lease_ms=5000)
        waiter = self.waiting(store, clock, 10)
        store.extend_leases([claim_of(task)], 60_000)
        clock.advance(10)
        assert waiter.answer() is False

    def test_a_retry_that_becomes_due_wakes(self, store: PersistenceAPI, clock: FakeClock) -> None:
        add_tasks(store, new_task())
        store.release_task(claim_of(claim_one(store)), not_before=store.now_ms() + 5000)
        waiter = self.waiting(store, clock)
        clock.advance(5)
        assert waiter.answer() is True

    def test_foreign_work_does_not_end_the_wait(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        waiter = self.waiting(store, clock, 30)
        add_tasks(
            store,
            new_task("a.Ship"),
            new_task("Pay.a"),
            new_task(task_list_name="other"),
            new_task(held=True),
            new_task(not_before=store.now_ms() + 3_600_000),
            new_task(state=TaskState.FAILED),
        )
        clock.advance(30)
        assert waiter.answer() is False

    def test_all_who_wait_are_woken(self, store: PersistenceAPI, clock: FakeClock) -> None:
        stop = threading.Event()
        waiters = [
            self.begin(lambda: store.wait_for_work(["shop.Pay"], stop=stop)) for _ in range(4)
        ]
        clock.wait_for_waiters(4)
        add_tasks(store, new_task(), new_task())
        assert [each.answer() for each in waiters] == [True] * 4

    def test_no_wake_up_is_lost(self, store: PersistenceAPI) -> None:
        """Work comes at every possible moment: before the look, after it, during the sleep."""
        turn = threading.Semaphore(0)

        def work() -> int:
            done = 0
            while done < self.rounds:
                turn.release()
                assert store.wait_for_work(["Pay"])
                for task in store.claim_tasks(["Pay"], 1):
                    end_task(store, task.uuid)
                    done += 1
            return done

        worker = self.begin(work)
        for _ in range(self.rounds):
            assert turn.acquire(timeout=self.patience_s), "the worker sleeps, and there is work"
            add_tasks(store, new_task())
        assert worker.answer() == self.rounds

    # Runs

    def test_a_run_that_is_over_needs_no_wait(self, store: PersistenceAPI) -> None:
        for state in (RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELLED):
            store.save_runner(new_run(state, state=state))
            assert store.wait_for_run(WorkflowId(state)) is True

    def test_the_wait_for_a_run_ends_at_its_timeout_and_when_told(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        store.save_runner(new_run("run", state=RunnerState.PAUSED))
        assert store.wait_for_run(RUN, 0) is False
        waiter = self.begin(lambda: store.wait_for_run(RUN, 30))
        clock.wait_for_waiters(1)
        clock.advance(30)
        assert waiter.answer() is False
        stop = threading.Event()
        waiter = self.begin(lambda: store.wait_for_run(RUN, stop=stop))
        clock.wait_for_waiters(1)
        stop.set()
        assert waiter.answer() is False

    def test_a_run_that_ends_wakes_those_who_wait_for_it(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        store.save_runner(new_run("run"))
        store.save_runner(new_run("other"))
        waiter = self.begin(lambda: store.wait_for_run(RUN))
        other = self.begin(lambda: store.wait_for_run(WorkflowId("other"), 30))
        clock.wait_for_waiters(2)

        def decision(view: View) -> tuple[IterationChanges, None]:
            run = view.get_run(RUN)
            assert run is not None
            run.state = RunnerState.COMPLETED
            return IterationChanges(updated_runs=[run]), None

        store.decide(decision)
        assert waiter.answer() is True
        clock.advance(30)
        assert other.answer() is False

    def test_a_run_that_an_operator_ends_wakes(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        store.save_runner(new_run("run"))
        waiter = self.begin(lambda: store.wait_for_run(RUN))
        clock.wait_for_waiters(1)
        assert store.update_runner_state("run", RunnerState.CANCELLED)
        assert waiter.answer() is True

    def test_a_run_that_is_saved_as_over_wakes(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        run = new_run("record", workflow_id="run")
        store.save_runner(run)
        waiter = self.begin(lambda: store.wait_for_run(RUN))
        clock.wait_for_waiters(1)
        run.state = RunnerState.FAILED
        store.save_runner(run)
        assert waiter.answer() is True
