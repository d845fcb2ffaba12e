"""The check that all tests of this folder lean on finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engine.cases import BY_NAME
from tests.engine.rest import check_rest

from afl.runtime.entities import TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import IterationChanges, task_id_of
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import WorkflowId


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def run_id(store: MemoryStore) -> WorkflowId:
    """Its steps `base` and the rounds that wait for it are open."""
    case = BY_NAME["wide and joined"]
    return Evaluator(store).submit(case.program, case.workflow, case.inputs)


def step(store: MemoryStore, run_id: WorkflowId, name: str) -> StepDefinition:
    return next(each for each in store.get_steps_by_workflow(run_id) if each.name == name)


def test_a_run_that_was_just_begun_is_at_rest(store: MemoryStore, run_id: WorkflowId) -> None:
    check_rest(store, run_id)


def test_a_count_that_is_wrong_is_found(store: MemoryStore, run_id: WorkflowId) -> None:
    waiting = step(store, run_id, "andThen:1")
    store.save_step(replace(waiting, pending=waiting.pending + 1))
    with pytest.raises(AssertionError, match="pending, failed are 3, 0"):
        check_rest(store, run_id)


def test_a_step_whose_task_ended_without_it_is_found(
    store: MemoryStore, run_id: WorkflowId
) -> None:
    task_id = task_id_of(step(store, run_id, "base").id)
    assert store.update_task_state(task_id, TaskState.CANCELED)
    with pytest.raises(AssertionError, match="it waits for a task, and none is open"):
        check_rest(store, run_id)


def test_a_step_that_ended_and_told_nobody_is_found(store: MemoryStore, run_id: WorkflowId) -> None:
    ended = step(store, run_id, "base")
    ended.change_state(StepState.STATEMENT_COMPLETE)
    store.save_step(ended)
    with pytest.raises(AssertionError, match="other should be there") as found:
        check_rest(store, run_id)
    assert "it is over and has an open task" in str(found.value)


def test_a_step_in_a_state_where_nobody_waits_is_found(
    store: MemoryStore, run_id: WorkflowId
) -> None:
    lost = step(store, run_id, "andThen:0")
    lost.change_state(StepState.BLOCK_EXECUTION_BEGIN)
    store.save_step(lost)
    with pytest.raises(AssertionError, match="nothing waits in this state"):
        check_rest(store, run_id)


def test_a_task_that_is_held_for_ever_is_found(store: MemoryStore, run_id: WorkflowId) -> None:
    task = store.get_pending_tasks()[0]
    store.commit(IterationChanges(updated_tasks=[replace(task, held=True)]))
    with pytest.raises(AssertionError, match="held is True in a run that is running"):
        check_rest(store, run_id)


def test_a_run_that_is_over_before_its_steps_is_found(
    store: MemoryStore, run_id: WorkflowId
) -> None:
    assert store.update_runner_state(run_id, "completed")
    with pytest.raises(AssertionError, match="the run is completed and has open tasks"):
        check_rest(store, run_id)
