"""What is special to the store in memory; the contract suite examines the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import StoreMisused
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import IterationChanges, View
from afl.runtime.types import BlockId, ObjectType, StepId, WorkflowId
from afl.testing.contracts.store.exam import (
    add_tasks,
    claim_of,
    claim_one,
    new_event,
    new_run,
    new_step,
    new_task,
    read_task,
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FakeClock())


def calls_of(action: Callable[[], object]) -> int:
    """How many functions a call runs: what it costs, whatever else the machine does."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def test_a_store_needs_no_arguments() -> None:
    store = MemoryStore()
    store.save_task(new_task(uuid="task"))
    assert store.now_ms() > 0
    assert read_task(store, "task").state == TaskState.PENDING


def test_each_store_is_an_owner_of_its_own() -> None:
    assert MemoryStore().owner != MemoryStore().owner
    assert MemoryStore(owner="me").owner == "me"


def test_claims_and_locks_carry_its_name() -> None:
    store = MemoryStore(FakeClock(), "me")
    add_tasks(store, new_task())
    assert claim_one(store).owner == "me"
    assert store.acquire_lock("key", 1000)
    lock = store.check_lock("key")
    assert lock is not None
    assert lock.owner == "me"


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.get_all_tasks(),
        lambda store: store.save_task(new_task()),
        lambda store: store.claim_task(["Pay"]),
        lambda store: store.wait_for_work(["Pay"], 0),
        lambda store: store.decide(lambda _view: (IterationChanges(), None)),
    ],
    ids=["read", "write", "claim", "wait", "decide"],
)
def test_a_decision_that_uses_the_store_is_refused(
    store: MemoryStore, use: Callable[[MemoryStore], Any]
) -> None:
    def decision(_view: View) -> tuple[IterationChanges, None]:
        use(store)
        return IterationChanges(created_tasks=[new_task()]), None

    with pytest.raises(StoreMisused, match="read from the view"):
        store.decide(decision)
    assert store.get_all_tasks() == []


def test_an_interrupt_takes_back_what_was_written(store: MemoryStore) -> None:
    class Interrupting:
        """Comes when the store copies it."""

        def __deepcopy__(self, _memo: object) -> None:
            raise KeyboardInterrupt

    tasks = [new_task(), new_task(data={"value": Interrupting()})]
    with pytest.raises(KeyboardInterrupt):
        add_tasks(store, *tasks)
    assert store.get_all_tasks() == []
    add_tasks(store, tasks[0])


def test_what_was_refused_leaves_the_order_as_it_was(store: MemoryStore) -> None:
    add_tasks(store, *(new_task(uuid=each) for each in "abc"))
    store.save_runner(new_run("run", state=RunnerState.COMPLETED, end_time=1))

    def prune_and_fail(_view: View) -> tuple[IterationChanges, None]:
        changes = IterationChanges(created_tasks=[new_task(uuid="d")])
        task = read_later.pop()
        task.held = True
        changes.updated_tasks = [task]
        changes.created_runs = [new_run("run")]
        return changes, None

    read_later = [read_task(store, "b")]
    with pytest.raises(Exception, match="is there already"):
        store.decide(prune_and_fail)
    assert [each.uuid for each in store.claim_tasks(["Pay"], 9)] == ["a", "b", "c"]


def test_a_late_decision_is_made_at_once(store: MemoryStore) -> None:
    future = store.decide_later(lambda _view: (IterationChanges(created_tasks=[new_task()]), 7))
    assert future.done()
    assert future.result() == 7
    assert len(store.get_all_tasks()) == 1


# Costs


def filled(size: int) -> MemoryStore:
    """Tasks in every state that nobody asks for, and a few that are asked for."""
    store = MemoryStore(FakeClock())
    later = store.now_ms() + 60_000
    others = [
        new_task(
            "other.Task" if each % 2 else "shop.Pay",
            state=list(TaskState)[2 + each % 5] if each % 2 == 0 else TaskState.PENDING,
            workflow_id=f"run-{each}",
        )
        for each in range(size)
    ]
    waiting = [new_task(not_before=later) for _ in range(size)]
    leased = [
        new_task(state=TaskState.RUNNING, lease_ms=60_000, lease_expires=later) for _ in range(size)
    ]
    steps = [new_step(workflow_id=f"run-{each}", block_id=f"b-{each}") for each in range(size)]
    events = [new_event(each.id) for each in steps]
    runs = [new_run(f"run-{each}") for each in range(size)]
    mine = [
        new_step(workflow_id="mine", block_id="block", container_id="root"),
        new_step(workflow_id="mine", container_id="root", object_type=ObjectType.YIELD_ASSIGNMENT),
    ]
    store.commit(
        IterationChanges(
            created_tasks=[*others, *waiting, *leased, new_task(uuid="mine", workflow_id="mine")],
            created_steps=[*steps, *mine],
            created_events=events,
            created_runs=[*runs, new_run("mine", key="mine")],
        )
    )
    return store


def _claim_and_release(store: MemoryStore) -> None:
    (task,) = store.claim_tasks(["Pay", "shop.Pay"], 1)
    store.extend_leases([claim_of(task)])
    store.release_task(claim_of(task))


def _read_in_a_decision(store: MemoryStore) -> None:
    def decision(view: View) -> tuple[IterationChanges, None]:
        assert len(view.get_steps_by_block(BlockId("block"))) == 1
        assert len(view.get_open_tasks(WorkflowId("mine"))) == 1
        assert view.get_run_by_key("mine") is not None
        return IterationChanges(), None

    store.decide(decision)


@pytest.mark.parametrize(
    "action",
    [
        _claim_and_release,
        _read_in_a_decision,
        lambda store: store.wait_for_work(["Pay"], 0),
        lambda store: store.wait_for_work(["Nobody"], 0),
        lambda store: store.claim_tasks(["Nobody"], 5),
        lambda store: store.get_steps_by_block(BlockId("block")),
        lambda store: store.get_steps_by_container(StepId("root")),
        lambda store: store.get_steps_by_workflow(WorkflowId("mine")),
        lambda store: store.get_workflow_root(WorkflowId("mine")),
        lambda store: store.get_run(WorkflowId("mine")),
        lambda store: store.prune_runs(0),
    ],
)
def test_costs_do_not_grow_with_what_is_not_asked_for(
    action: Callable[[MemoryStore], object],
) -> None:
    small, large = filled(10), filled(1000)
    assert calls_of(lambda: action(large)) == calls_of(lambda: action(small))
