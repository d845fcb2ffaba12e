"""Steps: how they are found, and that a statement has one step in a block."""

from __future__ import annotations

from typing import Any

import pytest

from afl.errors import Conflict
from afl.runtime.entities import EVENT_DATA
from afl.runtime.persistence import IterationChanges, PersistenceAPI, View, event_of
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, ObjectType, StatementId, StepId, WorkflowId
from afl.testing.contracts.store.exam import (
    StoreExam,
    add_tasks,
    claim_one,
    end_task,
    new_event,
    new_step,
    new_task,
    read_step,
)


def _family(run_id: str) -> list[StepDefinition]:
    """A root, its block, two statements and a yield in that block; ids end in their parts."""

    def step(part: str, kind: ObjectType, **fields: Any) -> StepDefinition:
        given = {"id": f"{run_id}.{part}", "object_type": kind, "workflow_id": run_id, **fields}
        return new_step(**given)

    root, block = f"{run_id}.root", f"{run_id}.block"
    below: dict[str, Any] = {"block_id": block, "container_id": root, "root_id": root}
    return [
        step("root", ObjectType.WORKFLOW),
        step("block", ObjectType.AND_THEN, container_id=root, root_id=root),
        step("pay", ObjectType.VARIABLE_ASSIGNMENT, statement_id="pay", **below),
        step("ship", ObjectType.VARIABLE_ASSIGNMENT, statement_id="ship", **below),
        step("yield", ObjectType.YIELD_ASSIGNMENT, statement_id="yield", **below),
    ]


def _parts(steps: list[StepDefinition]) -> list[str]:
    return [each.id.rpartition(".")[2] for each in steps]


class StepContract(StoreExam):
    @pytest.fixture
    def families(self, store: PersistenceAPI) -> None:
        store.commit(IterationChanges(created_steps=[*_family("one"), *_family("two")]))

    @pytest.mark.usefixtures("families")
    def test_steps_are_found_by_where_they_are(self, store: PersistenceAPI) -> None:
        everybody = ["root", "block", "pay", "ship", "yield"]
        assert _parts(store.get_steps_by_workflow(WorkflowId("one"))) == everybody
        assert _parts(store.get_steps_by_block(BlockId("one.block"))) == ["pay", "ship", "yield"]
        assert _parts(store.get_steps_by_container(StepId("one.root"))) == everybody[1:]
        assert _parts(store.get_blocks_by_step(StepId("one.root"))) == ["block"]
        root = store.get_workflow_root(WorkflowId("two"))
        assert root is not None
        assert root.id == "two.root"

    @pytest.mark.usefixtures("families")
    def test_a_view_finds_steps_by_where_they_are(self, store: PersistenceAPI) -> None:
        def decision(view: View) -> tuple[IterationChanges, list[list[str]]]:
            return IterationChanges(), [
                _parts(view.get_steps_by_workflow(WorkflowId("one"))),
                _parts(view.get_steps_by_block(BlockId("one.block"))),
            ]

        assert store.decide(decision) == [
            ["root", "block", "pay", "ship", "yield"],
            ["pay", "ship", "yield"],
        ]

    def test_what_was_yielded_is_that_of_all_complete_yields(self, store: PersistenceAPI) -> None:
        def new_yield(block: str, position: int, **fields: Any) -> StepDefinition:
            given = {
                "object_type": ObjectType.YIELD_ASSIGNMENT,
                "state": StepState.STATEMENT_COMPLETE,
                "container_id": "root",
                "statement_id": "yield",
                **fields,
            }
            step = new_step(block_id=block, position=position, **given)
            step.set_attribute("n", position)
            return step

        yields = [new_yield("second", 2), new_yield("first", 1)]
        others = [
            new_yield("third", 3, state=StepState.STATEMENT_ERROR),
            new_yield("first", 4, container_id="other", statement_id="other"),
        ]
        store.commit(IterationChanges(created_steps=[*yields, *others]))
        found = store.decide(lambda view: (IterationChanges(), view.get_yielded(StepId("root"))))
        assert sorted((each.position, each.values) for each in found) == [
            (1, {"n": 1}),
            (2, {"n": 2}),
        ]
        assert {each.statement_id for each in found} == {"yield"}

    @pytest.mark.parametrize(
        "kind", [ObjectType.AND_THEN, ObjectType.AND_MAP, ObjectType.AND_MATCH, ObjectType.BLOCK]
    )
    def test_every_kind_of_block_is_a_block_of_its_step(
        self, store: PersistenceAPI, kind: ObjectType
    ) -> None:
        block = new_step(object_type=kind, container_id="root")
        store.commit(IterationChanges(created_steps=[block, new_step(container_id="root")]))
        assert [each.id for each in store.get_blocks_by_step(StepId("root"))] == [block.id]

    @pytest.mark.usefixtures("families")
    def test_an_update_keeps_the_place_in_the_order(self, store: PersistenceAPI) -> None:
        pay = read_step(store, "one.pay")
        pay.mark_completed()
        store.save_step(pay)
        assert _parts(store.get_steps_by_block(BlockId("one.block"))) == ["pay", "ship", "yield"]

    @pytest.mark.usefixtures("families")
    def test_steps_are_found_by_the_state_they_are_in_now(self, store: PersistenceAPI) -> None:
        for step_id in ("one.ship", "one.pay"):
            step = read_step(store, step_id)
            step.change_state(StepState.EVENT_TRANSMIT)
            store.save_step(step)
        assert _parts(store.get_steps_by_state(StepState.EVENT_TRANSMIT)) == ["pay", "ship"]
        assert len(store.get_steps_by_state(StepState.CREATED)) == 8

    @pytest.mark.usefixtures("families")
    def test_whether_a_statement_has_a_step_depends_on_the_block(
        self, store: PersistenceAPI
    ) -> None:
        assert store.step_exists(StatementId("pay"), BlockId("one.block"))
        assert not store.step_exists(StatementId("pay"), BlockId("three.block"))
        assert not store.step_exists(StatementId("other"), BlockId("one.block"))
        assert not store.step_exists(StatementId("pay"), None)

    def test_a_statement_without_a_block_is_found(self, store: PersistenceAPI) -> None:
        store.save_step(new_step(statement_id="main"))
        assert store.step_exists(StatementId("main"), None)
        assert not store.step_exists(StatementId("main"), BlockId("block"))

    @pytest.mark.usefixtures("families")
    def test_a_statement_has_one_step_in_a_block(self, store: PersistenceAPI) -> None:
        twin = new_step(statement_id="pay", block_id="one.block")
        with pytest.raises(Conflict):
            store.save_step(twin)
        with pytest.raises(Conflict):
            store.commit(IterationChanges(created_steps=[twin]))
        assert store.get_step(twin.id) is None
        twin.block_id = BlockId("three.block")
        store.save_step(twin)

    def test_blocks_may_have_many_steps_without_a_statement(self, store: PersistenceAPI) -> None:
        rounds = [new_step(block_id="rounds", position=each) for each in range(3)]
        store.commit(IterationChanges(created_steps=rounds))
        found = store.get_steps_by_block(BlockId("rounds"))
        assert [each.position for each in found] == [0, 1, 2]

    def test_a_save_of_an_old_reading_is_refused(self, store: PersistenceAPI) -> None:
        step = new_step(name="first")
        store.save_step(step)
        old = read_step(store, step.id)
        step.name = "second"
        store.save_step(step)
        old.name = "late"
        with pytest.raises(Conflict):
            store.save_step(old)
        assert read_step(store, step.id).name == "second"

    def test_what_is_missing_is_not_found(self, store: PersistenceAPI) -> None:
        nobody: Any = "nobody"
        assert store.get_step(nobody) is None
        assert store.get_workflow_root(nobody) is None
        assert store.get_steps_by_block(nobody) == []
        assert store.get_steps_by_workflow(nobody) == []
        assert store.get_steps_by_container(nobody) == []
        assert store.get_blocks_by_step(nobody) == []
        assert store.get_steps_by_state(nobody) == []

    def test_events_are_found_by_id_and_by_run(self, store: PersistenceAPI) -> None:
        mine = [new_event(each, workflow_id="one") for each in ("a", "b")]
        other = new_event("c", workflow_id="two")
        for event in (*mine, other):
            store.save_event(event)
        assert store.get_event(mine[0].id) == mine[0]
        assert store.get_events_by_workflow(WorkflowId("one")) == mine
        assert store.get_all_events() == [*mine, other]
        mine[0].payload = {"sum": 5}
        store.save_event(mine[0])
        assert store.get_event(mine[0].id) == mine[0]
        assert len(store.get_all_events()) == 3

    def test_the_event_of_an_engine_is_its_task_seen_from_the_outside(
        self, store: PersistenceAPI
    ) -> None:
        task = new_task(data_type=EVENT_DATA, workflow_id="one", data={"sum": 5})
        saved = new_event("a", workflow_id="one")
        store.commit(IterationChanges(created_tasks=[task, new_task(workflow_id="one")]))
        store.save_event(saved)
        assert store.get_event(EventId(task.uuid)) == event_of(task)
        found = store.get_events_by_workflow(WorkflowId("one"))
        assert sorted(each.id for each in found) == sorted([saved.id, task.uuid])
        assert len(store.get_all_events()) == 2

    def test_an_event_moves_with_its_task_and_not_alone(self, store: PersistenceAPI) -> None:
        task = new_task(data_type=EVENT_DATA)
        add_tasks(store, task)
        event = store.get_event(EventId(task.uuid))
        assert event is not None
        assert event.state == EventState.CREATED
        with pytest.raises(Conflict):
            store.save_event(event)
        claim_one(store)
        event = store.get_event(EventId(task.uuid))
        assert event is not None
        assert event.state == EventState.PROCESSING
        end_task(store, task.uuid)
        assert [each.state for each in store.get_all_events()] == [EventState.COMPLETED]
