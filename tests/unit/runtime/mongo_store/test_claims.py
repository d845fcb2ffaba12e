"""Claims and decisions of many at once, by the clock of the server."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from tests.unit.runtime.mongo_store.conftest import Opened

from afl.runtime.entities import RunnerState, TaskDefinition
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import IterationChanges, View
from afl.runtime.types import StepId, WorkflowId
from afl.testing.contracts.store.exam import (
    add_tasks,
    claim_one,
    new_flow,
    new_run,
    new_step,
    new_task,
    read_step,
)

TASKS, WORKERS = 150, 6


def test_a_claim_that_is_younger_than_the_look_is_not_taken_over(
    store: MongoStore, opened: Opened
) -> None:
    """Those who look for work in the same moment see the same tasks, and times differ a little."""
    store.commit(IterationChanges(created_tasks=[new_task() for _ in range(TASKS)]))

    def work(mine: MongoStore) -> list[TaskDefinition]:
        taken: list[TaskDefinition] = []
        while len(store.get_pending_tasks()):
            taken += mine.claim_tasks(["Pay"], 3)
        return taken

    stores = [opened() for _ in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        claims = [each for taken in pool.map(work, stores) for each in taken]
    assert len(claims) == TASKS
    assert {each.fence for each in claims} == {1}


def test_two_tasks_of_a_step_are_not_claimed_by_two_at_once(
    store: MongoStore, opened: Opened
) -> None:
    steps = [f"step-{number}" for number in range(20)]
    add_tasks(store, *(new_task(step_id=each) for each in steps for _ in range(4)))
    stores = [opened() for _ in range(4)]

    def work(mine: MongoStore) -> list[str]:
        return [each.step_id for _ in range(12) for each in mine.claim_tasks(["Pay"], 2)]

    with ThreadPoolExecutor(4) as pool:
        taken = [each for some in pool.map(work, stores) for each in some]
    assert sorted(taken) == sorted(steps)


def test_time_is_that_of_the_server(store: MongoStore) -> None:
    before = store.now_ms()
    add_tasks(store, new_task())
    (task,) = store.claim_tasks(["Pay"], 1, lease_ms=1000)
    assert task.lease_expires == task.updated + 1000
    assert before <= task.updated <= store.now_ms()


def test_decisions_of_many_processes_about_one_run_are_made_one_after_the_other(
    store: MongoStore, opened: Opened
) -> None:
    """Each reads the steps of the run and adds the next: on one state, two would add the same."""
    store.save_runner(new_run("run"))

    def add(view: View) -> tuple[IterationChanges, int]:
        count = len(view.get_steps_by_workflow(WorkflowId("run")))
        return IterationChanges(created_steps=[new_step(position=count)]), count

    stores = [opened() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        counts = pool.map(lambda mine: [mine.decide(add) for _ in range(10)], stores)
    assert sorted(each for some in counts for each in some) == list(range(40))
    steps = store.get_steps_by_workflow(WorkflowId("run"))
    assert [each.position for each in steps] == list(range(40))


def test_a_task_that_was_claimed_after_a_decision_has_read_it_makes_it_decide_again(
    store: MongoStore, opened: Opened
) -> None:
    """Though it writes something else."""
    add_tasks(store, new_task(uuid="task"))
    step = new_step(id=StepId("seen"))
    other = opened()
    seen = []

    def decision(view: View) -> tuple[IterationChanges, None]:
        task = view.get_task("task")
        assert task is not None
        seen.append(task.fence)
        if len(seen) == 1:
            claim_one(other)
        step.position = task.fence
        return IterationChanges(created_steps=[step]), None

    store.decide(decision)
    assert seen == [0, 1]
    assert read_step(store, "seen").position == 1


def test_a_flow_is_not_removed_while_a_run_of_it_is_made(store: MongoStore, opened: Opened) -> None:
    store.save_flow(new_flow("flow"))
    other = opened()
    removed: list[Future[bool]] = []

    def decision(view: View) -> tuple[IterationChanges, None]:
        is_there = view.get_flow("flow") is not None
        if not removed:
            # It waits for nobody: it is refused until this one has ended, and then finds the run.
            removed.append(pool.submit(other.delete_flow, "flow"))
        flows = [] if is_there else [new_flow("flow")]
        return IterationChanges(created_runs=[new_run("run")], flows=flows), None

    with ThreadPoolExecutor(1) as pool:
        store.decide(decision)
        removed[0].exception(30)
    run = store.get_run(WorkflowId("run"))
    assert run is not None
    assert run.state == RunnerState.RUNNING
    assert store.get_flow("flow") is not None
