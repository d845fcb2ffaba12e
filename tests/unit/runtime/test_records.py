"""Steps and the values they hold."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from afl.runtime import types
from afl.runtime.entities import HandlerRegistration, ServerDefinition, TaskDefinition
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import AttributeValue, FacetAttributes, ObjectType, StatementId, WorkflowId


@pytest.fixture
def step() -> StepDefinition:
    return StepDefinition.create(
        WorkflowId("run"),
        ObjectType.VARIABLE_ASSIGNMENT,
        facet_name="shop.Pay",
        statement_id=StatementId("pay"),
    )


@pytest.mark.parametrize(
    "make",
    [types.step_id, types.block_id, types.event_id, types.workflow_id, types.generate_id],
)
def test_ids_are_fresh_uuids(make: Any) -> None:
    first, second = make(), make()
    assert first != second
    assert str(uuid.UUID(first)) == first


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (True, "Boolean"),
        (1, "Long"),
        (1.5, "Double"),
        ("x", "String"),
        ([1], "List"),
        ({"a": 1}, "Map"),
        (None, "Any"),
    ],
)
def test_a_value_hints_at_its_type(value: Any, hint: str) -> None:
    assert AttributeValue("x", value).type_hint == hint


def test_a_given_hint_stays() -> None:
    assert AttributeValue("x", 1, "Json").type_hint == "Json"


def test_an_attribute_reads_as_a_mapping_too() -> None:
    value = AttributeValue("total", 5)
    assert value["value"] == 5
    assert dict(value) == {"name": "total", "value": 5, "type_hint": "Long"}
    with pytest.raises(KeyError):
        value["other"]


def test_a_parameter_that_is_not_there_is_looked_for_among_the_returns() -> None:
    attributes = FacetAttributes()
    attributes.set_return("receipt", "r1")
    assert attributes.get_param("receipt") == "r1"
    assert attributes.get_return("receipt") == "r1"
    assert attributes.get_param("missing") is None


def test_merging_fills_params_and_replaces_returns() -> None:
    mine, other = FacetAttributes(), FacetAttributes()
    mine.set_param("a", 1)
    mine.set_return("r", 1)
    other.set_param("a", 2)
    other.set_param("b", 2)
    other.set_return("r", 2)
    mine.merge(other)
    assert [mine.get_param(each) for each in "ab"] == [1, 2]
    assert mine.get_return("r") == 2


def test_a_step_begins_created_and_wants_to_move(step: StepDefinition) -> None:
    assert step.current_state == StepState.CREATED
    assert step.is_requesting_state_change
    assert step.select_next_state() == StepState.FACET_INIT_BEGIN
    assert step.is_statement
    assert not step.is_block


def test_an_error_ends_a_step_and_is_kept(step: StepDefinition) -> None:
    error = ValueError("no money")
    step.mark_error(error)
    assert step.is_error
    assert step.is_terminal
    assert not step.is_requesting_state_change
    assert step.transition.error is error


def test_a_completed_step_moves_no_more(step: StepDefinition) -> None:
    step.mark_completed()
    assert step.is_complete
    assert step.select_next_state() is None


def test_attributes_are_read_returns_first(step: StepDefinition) -> None:
    step.set_attribute("id", "asked")
    step.set_attribute("id", "answered", is_return=True)
    assert step.get_attribute("id") == "answered"
    assert step.get_attribute("missing") is None


def test_a_clone_shares_nothing(step: StepDefinition) -> None:
    step.set_attribute("items", [1])
    other = step.clone()
    other.get_attribute("items").append(2)
    other.mark_completed()
    assert step.get_attribute("items") == [1]
    assert not step.is_complete


def test_records_take_the_fields_of_the_contract_in_their_order() -> None:
    task = TaskDefinition("t", "shop.Pay", "r", "w", "f", "s")
    assert (task.state, task.task_list_name, task.fence) == ("pending", "default", 0)
    assert HandlerRegistration("shop.Pay", "shop.handlers").entrypoint == "handle"
    assert ServerDefinition("u", "default", "afl-agent", "host").state == "startup"
