"""Every field of every record comes back as it was given, and is shared with nobody."""

from __future__ import annotations

import copy
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afl.ids import new_id
from afl.runtime.entities import (
    EventDefinition,
    FlowDefinition,
    HandlerRegistration,
    LogDefinition,
    PublishedSource,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition, StepTransition
from afl.runtime.types import AttributeValue, FacetAttributes, StepId
from afl.testing.contracts.store.exam import StoreExam, new_step, new_task, read_step, read_task

# Lone surrogates are no text: no encoding can write them.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation that records use."""
    if is_dataclass(hint):
        return records_of(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(each) for each in inner])
    if origin is list:
        return st.lists(values_of(inner[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(TEXT, values_of(inner[1]), max_size=3)
    plain = getattr(hint, "__supertype__", hint)
    return {str: TEXT, int: INTEGERS, bool: st.booleans(), type(None): st.none()}.get(plain, JSON)


def records_of(kind: Any) -> st.SearchStrategy[Any]:
    """Records with all fields drawn."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: values_of(hints[each.name]) for each in fields(kind)})


_HINTS = st.sampled_from(["Any", "String", "Json", "[Long]"])
_ATTRIBUTES = st.lists(st.tuples(TEXT, JSON, _HINTS), max_size=3).map(
    lambda named: {each[0]: AttributeValue(*each) for each in named}
)
_PLACES = st.dictionaries(st.sampled_from(["step", "line", "source"]), TEXT)
_FAILURES = st.none() | st.builds(StepFailure, TEXT, TEXT, _PLACES)


def _step(
    drawn: dict[str, Any],
    is_requested: bool,
    failure: StepFailure | None,
    params: dict[str, AttributeValue],
    returns: dict[str, AttributeValue],
) -> StepDefinition:
    state = drawn["state"]
    transition = StepTransition(state, state, request_transition=is_requested)
    transition.error = failure
    attributes = FacetAttributes(params, returns)
    return StepDefinition(**drawn, transition=transition, attributes=attributes)


def _steps() -> st.SearchStrategy[StepDefinition]:
    hints = get_type_hints(StepDefinition)
    drawn = {
        each.name: values_of(hints[each.name])
        for each in fields(StepDefinition)
        if each.name not in ("transition", "attributes")
    }
    return st.builds(
        _step, st.fixed_dictionaries(drawn), st.booleans(), _FAILURES, _ATTRIBUTES, _ATTRIBUTES
    )


# Made once: a strategy that is made for each draw is examined for each draw.
#: Steps of which all is drawn that outlives a commit.
STEPS = _steps()
TASKS = records_of(TaskDefinition)


@dataclass(frozen=True)
class Kind:
    """How records of one kind are made, written and read."""

    name: str
    records: st.SearchStrategy[Any]
    #: The fields that must not be drawn, because they find the record or must not clash.
    own: Callable[[], dict[str, Any]]
    save: Callable[[PersistenceAPI, Any], None]
    load: Callable[[PersistenceAPI, Any], Any]


#: Kinds that decisions write, and where they note them.
_FIELDS = {
    "step": "created_steps",
    "event": "created_events",
    "task": "created_tasks",
    "run": "created_runs",
    "flow": "flows",
    "workflow": "workflows",
    "log": "logs",
}


def _commit(kind: str) -> Callable[[PersistenceAPI, Any], None]:
    def commit(store: PersistenceAPI, record: Any) -> None:
        store.commit(IterationChanges(**{_FIELDS[kind]: [record]}))

    return commit


KINDS = [
    Kind(
        "step",
        STEPS,
        lambda: {"id": new_id(), "block_id": new_id()},
        _commit("step"),
        lambda store, step: store.get_step(step.id),
    ),
    Kind(
        "event",
        records_of(EventDefinition),
        lambda: {"id": new_id()},
        _commit("event"),
        lambda store, event: store.get_event(event.id),
    ),
    Kind(
        "task",
        TASKS,
        lambda: {"uuid": new_id(), "step_id": new_id(), "state": TaskState.PENDING},
        _commit("task"),
        lambda store, task: store.get_task(task.uuid),
    ),
    Kind(
        "run",
        records_of(RunnerDefinition),
        lambda: {"uuid": new_id(), "workflow_id": new_id(), "key": new_id()},
        _commit("run"),
        lambda store, run: store.get_run_by_key(run.key),
    ),
    Kind(
        "flow",
        records_of(FlowDefinition),
        lambda: {"uuid": new_id()},
        _commit("flow"),
        lambda store, flow: store.get_flow(flow.uuid),
    ),
    Kind(
        "workflow",
        records_of(WorkflowDefinition),
        lambda: {"uuid": new_id()},
        _commit("workflow"),
        lambda store, workflow: store.get_workflow(workflow.uuid),
    ),
    Kind(
        "log",
        records_of(LogDefinition),
        lambda: {"uuid": new_id(), "runner_id": new_id()},
        _commit("log"),
        lambda store, log: store.get_logs_by_runner(log.runner_id)[0],
    ),
    Kind(
        "registration",
        records_of(HandlerRegistration),
        lambda: {"facet_name": f"shop.{new_id()}"},
        lambda store, registration: store.save_handler_registration(registration),
        lambda store, registration: store.get_handler_registration(registration.facet_name),
    ),
    Kind(
        "server",
        records_of(ServerDefinition),
        lambda: {"uuid": new_id()},
        lambda store, server: store.save_server(server),
        lambda store, server: store.get_server(server.uuid),
    ),
    Kind(
        "source",
        records_of(PublishedSource),
        lambda: {"uuid": new_id(), "namespace_name": new_id()},
        lambda store, source: store.save_published_source(source),
        lambda store, source: store.get_source_by_namespace(source.namespace_name, source.version),
    ),
]

# What steps and tasks are, as opposed to where they stand, never changes.
_STEP_IS = [
    "id",
    "object_type",
    "workflow_id",
    "statement_id",
    "container_type",
    "container_id",
    "block_id",
    "root_id",
    "version",
    "timestamp",
    "facet_name",
    "foreach_var",
    "foreach_value",
    "name",
    "position",
    "depth",
    "sequence",
]
_TASK_IS = [
    "uuid",
    "name",
    "runner_id",
    "workflow_id",
    "flow_id",
    "step_id",
    "state",
    "created",
    "task_list_name",
    "fence",
    "idempotency_key",
    "version",
]

# One store sees all the examples: their records have ids of their own. A process that examines
# several stores calls these tests from several classes.
_MANY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.differing_executors,
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
)


class RecordContract(StoreExam):
    @pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.name)
    @_MANY
    @given(data=st.data())
    def test_every_field_comes_back_as_it_was_given(
        self, store: PersistenceAPI, kind: Kind, data: st.DataObject
    ) -> None:
        record = replace(data.draw(kind.records), **kind.own())
        kind.save(store, record)
        assert _comparable(kind.load(store, record)) == _comparable(record)

    @pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.name)
    @_MANY
    @given(data=st.data())
    def test_what_is_given_and_taken_is_a_copy(
        self, store: PersistenceAPI, kind: Kind, data: st.DataObject
    ) -> None:
        record = replace(data.draw(kind.records), **kind.own())
        kept = copy.deepcopy(record)
        kind.save(store, record)
        _spoil(record)
        taken = kind.load(store, kept)
        assert _comparable(taken) == _comparable(kept)
        _spoil(taken)
        assert _comparable(kind.load(store, kept)) == _comparable(kept)

    @pytest.mark.parametrize(
        "kind", [each for each in KINDS if each.name in _FIELDS], ids=lambda each: each.name
    )
    @_MANY
    @given(data=st.data())
    def test_what_is_written_together_comes_back_as_it_was_given(
        self, store: PersistenceAPI, kind: Kind, data: st.DataObject
    ) -> None:
        records = [replace(data.draw(kind.records), **kind.own()) for _ in range(3)]
        store.commit(IterationChanges(**{_FIELDS[kind.name]: records}))
        for each in records:
            assert _comparable(kind.load(store, each)) == _comparable(each)

    @_MANY
    @given(data=st.data())
    def test_steps_that_are_updated_together_come_back(
        self, store: PersistenceAPI, data: st.DataObject
    ) -> None:
        drawn = [data.draw(STEPS) for _ in range(2)]
        made = [replace(each, id=StepId(new_id()), block_id=None, sequence=0) for each in drawn]
        store.commit(IterationChanges(created_steps=made))
        later = [
            replace(data.draw(STEPS), **{field: getattr(step, field) for field in _STEP_IS})
            for step in made
        ]
        store.commit(IterationChanges(updated_steps=later))
        for each in later:
            assert _comparable(store.get_step(each.id)) == _comparable(each)

    @_MANY
    @given(data=st.data())
    def test_every_field_of_a_step_can_be_updated(
        self, store: PersistenceAPI, data: st.DataObject
    ) -> None:
        step = replace(data.draw(STEPS), id=StepId(new_id()), block_id=None, sequence=0)
        store.save_step(step)
        later = replace(data.draw(STEPS), **{each: getattr(step, each) for each in _STEP_IS})
        store.save_step(later)
        assert _comparable(store.get_step(step.id)) == _comparable(later)

    @_MANY
    @given(data=st.data())
    def test_every_field_of_a_task_can_be_updated(
        self, store: PersistenceAPI, data: st.DataObject
    ) -> None:
        task = new_task()
        store.save_task(task)
        drawn = data.draw(TASKS)
        later = replace(drawn, **{each: getattr(task, each) for each in _TASK_IS})
        store.save_task(later)
        assert replace(read_task(store, task.uuid), version=0) == later

    def test_values_keep_their_types(self, store: PersistenceAPI) -> None:
        values: list[Any] = [1, 1.0, True, False, None, "1", "", [], {}, 2**53 + 1, -0.0, 1e300]
        step = new_step(foreach_value=values)
        step.set_attribute("values", values)
        task = new_task(data={"values": values})
        store.commit(IterationChanges(created_steps=[step], created_tasks=[task]))
        found = read_step(store, step.id)
        data = read_task(store, task.uuid).data
        assert data is not None
        for read in (found.foreach_value, found.get_attribute("values"), data["values"]):
            assert [type(each) for each in read] == [type(each) for each in values]
            assert read == values
            assert math.copysign(1, read[10]) == -1

    def test_numbers_are_plain(self, store: PersistenceAPI) -> None:
        """Not of a driver's kind, which encoders do not know."""
        step, task = new_step(), new_task(created=2**40)
        store.commit(IterationChanges(created_steps=[step], created_tasks=[task]))
        numbers = [read_step(store, step.id).sequence, read_task(store, task.uuid).created]
        assert [type(each) for each in numbers] == [int, int]

    def test_an_error_stays_with_its_step(self, store: PersistenceAPI) -> None:
        step = new_step()
        step.mark_error(StepFailure("no money", "PaymentError", {"line": 3, "step": "pay"}))
        store.save_step(step)
        found = read_step(store, step.id)
        assert found.state == StepState.STATEMENT_ERROR
        assert not found.is_requesting_state_change
        assert isinstance(found.transition.error, StepFailure)
        assert found.transition.error.to_dict() == {
            "message": "no money",
            "type": "PaymentError",
            "line": 3,
            "step": "pay",
        }

    def test_text_of_all_the_world_comes_back(self, store: PersistenceAPI) -> None:
        text = "naïve 漢字 🙂 ‮ \u0000 \u200d \ue000 \uffff e\u0301 ' \" \\ % _ \r\n\t"
        name = text.replace("\u0000", "")  # a name is written in a program, which cannot hold this
        task = new_task(f"{name}.{name}", data={text: [text]}, owner=text)
        store.save_task(task)
        assert read_task(store, task.uuid) == task
        assert [each.uuid for each in store.claim_tasks([task.name], 1)] == [task.uuid]

    def test_large_values_come_back(self, store: PersistenceAPI) -> None:
        text = "x漢" * 500_000
        numbers = list(range(100_000))
        step = new_step(foreach_value=numbers)
        step.set_attribute("text", text, is_return=True)
        task = new_task(data={"text": text, "numbers": numbers})
        store.commit(IterationChanges(created_steps=[step], created_tasks=[task]))
        assert _comparable(read_step(store, step.id)) == _comparable(step)
        assert read_task(store, task.uuid).data == task.data


def _comparable(record: Any) -> Any:
    """What must be the same: of the way of a step, what outlives a commit; its number grows."""
    if not isinstance(record, StepDefinition):
        return record
    way, error = record.transition, record.transition.error
    return (
        replace(record, transition=StepTransition.initial(), sequence=0),
        (way.current_state, way.request_transition),
        None if error is None else StepFailure.of(error).to_dict(),
    )


def _spoil(value: Any) -> None:
    """Change all that can be changed in a record, except what finds it."""
    if isinstance(value, list):
        for each in value:
            _spoil(each)
        value.append("spoiled")
    elif isinstance(value, dict):
        for each in value.values():
            _spoil(each)
        value["spoiled"] = "spoiled"
    elif is_dataclass(value) and not isinstance(value, Exception):
        for field in fields(value):
            _spoil(getattr(value, field.name))
