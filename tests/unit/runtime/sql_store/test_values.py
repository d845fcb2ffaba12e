"""What goes in comes out; what could not come out is refused before anything is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.errors import StoreMisused
from afl.ids import new_id
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import IterationChanges
from afl.runtime.rows.codec import from_json, to_json
from afl.runtime.rows.table import Table
from afl.runtime.sql_store import SqliteStore
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId, VersionInfo, WorkflowId

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)
TASKS = Table("task", TaskDefinition)

ODD_VALUES = {
    "lone surrogate": ("\ud800", "not valid Unicode"),
    "lone surrogate in a key": ({"\udfff": 1}, "not valid Unicode"),
    "not a number": (math.nan, "NaN and infinity"),
    "infinity, deep inside": ({"a": [None, {"b": (1, -math.inf)}]}, "NaN and infinity"),
    "an object": (object(), "plain data"),
    "a key that is no text": ({(1, 2): 3}, "plain data"),
}


def new_step(**fields: Any) -> StepDefinition:
    step = StepDefinition(StepId(new_id()), ObjectType.VARIABLE_ASSIGNMENT, WorkflowId("run"))
    for name, value in fields.items():
        setattr(step, name, value)
    return step


@given(VALUES)
def test_json_values_come_back_as_they_were(value: Any) -> None:
    assert from_json(to_json(value)) == value


@given(st.dictionaries(TEXT, VALUES), st.none() | st.dictionaries(TEXT, VALUES), TEXT)
def test_records_come_back_as_they_were(data: Any, error: Any, name: str) -> None:
    task = TaskDefinition("id", name, "r", "w", "f", "s", data=data, error=error, held=True)
    assert TASKS.record(tuple(TASKS.row(task))) == task


def test_what_json_spells_in_another_way_comes_back_in_that_way() -> None:
    assert from_json(to_json({"a": (1, 2), 3: {4}})) == {"a": [1, 2], "3": [4]}


def test_all_that_a_step_knows_comes_back(store: SqliteStore) -> None:
    step = new_step(
        foreach_var="r",
        foreach_value=[1, {"x": None}],
        version=VersionInfo("2.0", "1.5", "9.9"),
        timestamp=12,
        pending=3,
        sequence=7,
    )
    step.attributes.set_param("plain", 2**80)
    step.attributes.set_param("hinted", 1, "Money")
    step.attributes.set_return("nothing", None, "Json")
    step.transition.original_state = StepState.FACET_INIT_BEGIN
    step.change_state(StepState.EVENT_TRANSMIT)
    step.transition.set_push_me()
    store.commit(IterationChanges(created_steps=[step]))
    assert store.get_step(step.id) == step


@pytest.mark.parametrize(
    "error", [StepFailure("no money", "CardError", {"step": "pay", "line": 3}), ValueError("no")]
)
def test_the_error_of_a_step_comes_back_as_a_failure(store: SqliteStore, error: Exception) -> None:
    step = new_step()
    step.mark_error(error)
    store.save_step(step)
    found = store.get_step(step.id)
    assert found is not None
    assert isinstance(found.transition.error, StepFailure)
    assert found.transition.error.to_dict() == StepFailure.of(error).to_dict()


@pytest.mark.parametrize(("value", "message"), ODD_VALUES.values(), ids=ODD_VALUES)
def test_values_that_json_does_not_have_are_refused(
    store: SqliteStore, value: Any, message: str
) -> None:
    step = new_step()
    step.set_attribute("x", value)
    fine = LogDefinition("log", 1, "run")
    changes = IterationChanges(created_steps=[new_step(), step], logs=[fine])
    with pytest.raises(StoreMisused, match=message):
        store.commit(changes)
    with pytest.raises(StoreMisused, match=message):
        store.decide(lambda _view: (changes, None))
    assert store.get_steps_by_workflow(WorkflowId("run")) == []
    assert store.get_logs_by_runner("run") == []


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.commit(IterationChanges(created_steps=[new_step(name="\ud800")])),
        lambda store: store.decide(
            lambda _view: (IterationChanges(created_steps=[new_step(name="\ud800")]), None)
        ),
        lambda store: store.save_step(new_step(name="\ud800")),
        lambda store: store.get_run_by_key("\ud800"),
        lambda store: store.claim_task(["\ud800"]),
    ],
)
def test_text_that_is_not_unicode_is_refused_everywhere(
    store: SqliteStore, act: Callable[[SqliteStore], object]
) -> None:
    with pytest.raises(StoreMisused, match="not valid Unicode"):
        act(store)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"position": 2**64}, "64 bits"),
        ({"position": 1.5}, r"step\.position"),
        ({"name": None}, r"step\.name"),
        ({"name": {}}, "wrong kind"),
    ],
)
def test_a_value_that_its_column_cannot_take_is_refused(
    store: SqliteStore, fields: dict[str, Any], message: str
) -> None:
    changes = IterationChanges(created_steps=[new_step(**fields)])
    with pytest.raises(StoreMisused, match=message):
        store.commit(changes)
    with pytest.raises(StoreMisused, match=message):
        store.decide_later(lambda _view: (changes, None)).result()


def test_a_payload_of_an_unexpected_shape_can_still_be_read(store: SqliteStore) -> None:
    data: Any = ["no", "mapping"]
    store.save_task(TaskDefinition("id", "F", "r", "w", "f", "s", data=data))
    task = store.get_task("id")
    assert task is not None
    assert task.data == data


def test_what_a_decision_raises_itself_comes_out_as_it_is(store: SqliteStore) -> None:
    def decision(_view: object) -> tuple[IterationChanges, None]:
        "\ud800".encode()
        raise AssertionError

    with pytest.raises(UnicodeEncodeError):
        store.decide(decision)
