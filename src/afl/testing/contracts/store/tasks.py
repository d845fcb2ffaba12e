"""Tasks: how they are found, and which states may follow which."""

from __future__ import annotations

import pytest

from afl.errors import Conflict
from afl.runtime.entities import TASK_TRANSITIONS, TaskDefinition, TaskState
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import (
    StoreExam,
    add_tasks,
    claim_of,
    claim_one,
    end_task,
    new_task,
    read_task,
)

ENDS = [
    TaskState.COMPLETED,
    TaskState.FAILED,
    TaskState.IGNORED,
    TaskState.CANCELED,
    TaskState.DEAD_LETTER,
]
MOVES = [(first, second) for first in TaskState for second in TaskState]


def _ids(tasks: list[TaskDefinition]) -> list[str]:
    return [each.uuid for each in tasks]


class TaskContract(StoreExam):
    def test_pending_tasks_are_listed_oldest_first(self, store: PersistenceAPI) -> None:
        tasks = [new_task(uuid=each) for each in "cab"]
        add_tasks(store, *tasks, new_task(task_list_name="other"))
        add_tasks(store, new_task(state=TaskState.FAILED))
        assert _ids(store.get_pending_tasks()) == ["c", "a", "b"]
        assert len(store.get_pending_tasks("other")) == 1
        assert store.get_pending_tasks("empty") == []

    def test_all_tasks_are_listed_newest_first_up_to_a_limit(self, store: PersistenceAPI) -> None:
        for each in "cab":
            add_tasks(store, new_task(uuid=each))
        assert _ids(store.get_all_tasks()) == ["b", "a", "c"]
        assert _ids(store.get_all_tasks(limit=2)) == ["b", "a"]

    def test_tasks_are_found_by_runner_and_state(self, store: PersistenceAPI) -> None:
        add_tasks(
            store,
            new_task(uuid="a", runner_id="one"),
            new_task(uuid="b", runner_id="one", state=TaskState.FAILED),
            new_task(uuid="c", runner_id="two", state=TaskState.FAILED),
        )
        assert sorted(_ids(store.get_tasks_by_runner("one"))) == ["a", "b"]
        assert sorted(_ids(store.get_tasks_by_state(TaskState.FAILED))) == ["b", "c"]
        assert len(store.get_tasks_by_state(TaskState.FAILED, limit=1)) == 1
        assert store.get_tasks_by_state(TaskState.IGNORED) == []
        assert store.get_task("nobody") is None

    def test_open_tasks_of_a_run_are_those_pending_and_running(self, store: PersistenceAPI) -> None:
        for state in TaskState:
            add_tasks(store, new_task(uuid=state, workflow_id="mine", state=state))
        add_tasks(store, new_task(workflow_id="other"))
        found = store.decide(
            lambda view: (IterationChanges(), view.get_open_tasks(WorkflowId("mine")))
        )
        assert sorted(_ids(found)) == ["pending", "running"]

    @pytest.mark.parametrize(("first", "second"), MOVES)
    def test_an_operator_moves_a_task_only_as_the_table_allows(
        self, store: PersistenceAPI, first: TaskState, second: TaskState
    ) -> None:
        add_tasks(store, new_task(uuid="task", state=first))
        is_allowed = second in TASK_TRANSITIONS[first]
        assert store.update_task_state("task", second) is is_allowed
        assert read_task(store, "task").state == (second if is_allowed else first)

    def test_a_task_that_is_not_there_cannot_be_moved(self, store: PersistenceAPI) -> None:
        assert store.update_task_state("nobody", TaskState.CANCELED) is False

    @pytest.mark.parametrize("state", ENDS)
    def test_ending_a_claimed_task_takes_it_from_its_worker(
        self, store: PersistenceAPI, state: TaskState
    ) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        assert store.update_task_state(task.uuid, state)
        assert read_task(store, task.uuid).fence > task.fence
        assert store.extend_leases([claim_of(task)]) == [False]
        assert store.release_task(claim_of(task)) is False

    @pytest.mark.parametrize("end", ENDS)
    @pytest.mark.parametrize("late", list(TaskState))
    def test_what_is_over_stays_as_it_is(
        self, store: PersistenceAPI, end: TaskState, late: TaskState
    ) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        end_task(store, task.uuid, end)
        stored = read_task(store, task.uuid)
        task.state = late
        task.error = {"message": "late"}
        if late == end:
            store.save_task(task)
        else:
            with pytest.raises(Conflict):
                store.save_task(task)
        assert read_task(store, task.uuid) == stored

    @pytest.mark.parametrize("end", ENDS)
    def test_even_with_the_present_fence_what_is_over_cannot_be_saved_anew(
        self, store: PersistenceAPI, end: TaskState
    ) -> None:
        add_tasks(store, new_task(uuid="task", state=end))
        task = read_task(store, "task")
        task.state = TaskState.PENDING
        with pytest.raises(Conflict):
            store.save_task(task)
        assert read_task(store, "task").state == end

    def test_a_save_of_what_was_read_before_a_claim_is_refused(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(uuid="task"))
        before = read_task(store, "task")
        claimed = claim_one(store)
        before.state = TaskState.CANCELED
        with pytest.raises(Conflict):
            store.save_task(before)
        assert read_task(store, "task") == claimed

    def test_a_worker_that_lost_its_claim_cannot_save(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task())
        lost = claim_one(store)
        assert store.release_task(claim_of(lost))
        present = claim_one(store)
        lost.state = TaskState.COMPLETED
        with pytest.raises(Conflict):
            store.save_task(lost)
        assert read_task(store, lost.uuid) == present

    def test_who_holds_the_claim_can_save(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task())
        task = claim_one(store)
        task.state = TaskState.FAILED
        task.error = {"message": "no money"}
        store.save_task(task)
        stored = read_task(store, task.uuid)
        assert (stored.state, stored.error) == (TaskState.FAILED, {"message": "no money"})
        assert stored.version > task.version

    def test_a_save_makes_what_is_missing(self, store: PersistenceAPI) -> None:
        task = new_task(data={"sum": 1})
        store.save_task(task)
        assert read_task(store, task.uuid) == task

    def test_a_step_has_one_running_task(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(uuid="a", step_id="x"), new_task(uuid="b", step_id="x"))
        running = claim_one(store)
        waiting = read_task(store, "b")
        waiting.state = TaskState.RUNNING
        with pytest.raises(Conflict):
            store.save_task(waiting)
        with pytest.raises(Conflict):
            store.save_task(new_task(step_id="x", state=TaskState.RUNNING))
        assert _ids(store.get_tasks_by_state(TaskState.RUNNING)) == [running.uuid]

    def test_tasks_without_a_step_run_beside_each_other(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(step_id=""), new_task(step_id=""))
        assert len(store.claim_tasks(["shop.Pay"], 2)) == 2
        store.save_task(new_task(step_id="", state=TaskState.RUNNING))
        assert len(store.get_tasks_by_state(TaskState.RUNNING)) == 3
