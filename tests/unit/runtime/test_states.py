"""The chains that steps walk, and the states of tasks."""

from __future__ import annotations

import pytest

from afl.runtime.entities import TASK_TRANSITIONS, TaskState
from afl.runtime.states import (
    BLOCK_TRANSITIONS,
    EVENT_TRANSITIONS,
    SCHEMA_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    EventState,
    StepState,
    get_next_state,
    select_transitions,
)
from afl.runtime.types import ObjectType

CHAINS = [STEP_TRANSITIONS, BLOCK_TRANSITIONS, YIELD_TRANSITIONS, SCHEMA_TRANSITIONS]


@pytest.mark.parametrize("chain", CHAINS)
def test_every_chain_leads_from_created_to_complete(chain: dict[str, str]) -> None:
    state, seen = StepState.CREATED.value, []
    while (following := get_next_state(state, chain)) is not None:
        seen.append(state)
        state = following
    assert state == StepState.STATEMENT_COMPLETE
    assert len(seen) == len(chain)


@pytest.mark.parametrize(
    ("object_type", "chain"),
    [
        (ObjectType.VARIABLE_ASSIGNMENT, STEP_TRANSITIONS),
        (ObjectType.WORKFLOW, STEP_TRANSITIONS),
        (ObjectType.FACET, STEP_TRANSITIONS),
        (ObjectType.AND_THEN, BLOCK_TRANSITIONS),
        (ObjectType.BLOCK, BLOCK_TRANSITIONS),
        (ObjectType.YIELD_ASSIGNMENT, YIELD_TRANSITIONS),
        (ObjectType.SCHEMA_INSTANTIATION, SCHEMA_TRANSITIONS),
    ],
)
def test_each_object_type_has_its_chain(object_type: str, chain: dict[str, str]) -> None:
    assert select_transitions(object_type) is chain


def test_the_chains_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        STEP_TRANSITIONS["x"] = "y"  # type: ignore[index]


def test_only_complete_and_error_are_terminal() -> None:
    terminal = {each for each in StepState if StepState.is_terminal(each)}
    assert terminal == {StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR}


def test_an_event_goes_from_created_to_completed() -> None:
    assert get_next_state(EventState.CREATED, EVENT_TRANSITIONS) == EventState.DISPATCHED
    assert get_next_state(EventState.COMPLETED, EVENT_TRANSITIONS) is None


def test_every_task_state_says_what_may_follow() -> None:
    assert set(TASK_TRANSITIONS) == set(TaskState)
    assert all(after <= set(TaskState) for after in TASK_TRANSITIONS.values())


def test_what_is_completed_or_canceled_is_final() -> None:
    assert not TASK_TRANSITIONS[TaskState.COMPLETED]
    assert not TASK_TRANSITIONS[TaskState.CANCELED]
