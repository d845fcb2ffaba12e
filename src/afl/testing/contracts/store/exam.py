"""What the parts of the store suite share: a store on a clock that is told, and small records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar

import pytest

from afl.clock import FakeClock
from afl.ids import new_id
from afl.runtime.claims import ended
from afl.runtime.entities import (
    EventDefinition,
    FlowDefinition,
    FlowIdentity,
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.persistence import Claim, IterationChanges, PersistenceAPI, View, event_id_of
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId, WorkflowId

T = TypeVar("T")

LEASE_MS = 15_000


class StoreExam:
    """Subclasses give a `store` fixture: empty, and on the time of the `clock` fixture."""

    #: How long, in real seconds, to wait for what must happen at once.
    patience_s = 20.0
    #: Whether it claims tasks along with a commit, if asked.
    claims_along = True

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def store(self, clock: FakeClock) -> Any:
        raise NotImplementedError("return the store to examine, made with this clock")

    def begin(self, action: Callable[[], T]) -> Background[T]:
        return Background(action, self.patience_s)


class Background(Generic[T]):
    """A call on a thread of its own."""

    def __init__(self, action: Callable[[], T], patience_s: float) -> None:
        self._action = action
        self._patience_s = patience_s
        self._answers: list[T] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answers.append(self._action())
        except BaseException as error:
            self._errors.append(error)

    def answer(self) -> T:
        """What the call returned or raised; AssertionError if it does not end."""
        self._thread.join(self._patience_s)
        assert not self._thread.is_alive(), "the call did not end"
        if self._errors:
            raise self._errors[0]
        return self._answers[0]


def set_back(clock: FakeClock, seconds: float) -> None:
    """As a correction of the machine's time does; `seconds` below zero set it forward."""
    clock.set_wall(clock.now() - timedelta(seconds=seconds))


# Records


def new_task(name: str = "shop.Pay", **fields: Any) -> TaskDefinition:
    """A pending task of a step of its own."""
    given = {
        "uuid": new_id(),
        "runner_id": "runner",
        "workflow_id": "run",
        "flow_id": "flow",
        "step_id": new_id(),
        **fields,
    }
    return TaskDefinition(name=name, **given)


def new_step(**fields: Any) -> StepDefinition:
    given = {
        "id": StepId(new_id()),
        "object_type": ObjectType.VARIABLE_ASSIGNMENT,
        "workflow_id": WorkflowId("run"),
        **fields,
    }
    return StepDefinition(**given)


def new_event(step_id: str, **fields: Any) -> EventDefinition:
    given: dict[str, Any] = {"workflow_id": "run", "event_type": "shop.Pay", **fields}
    return EventDefinition(event_id_of(step_id), StepId(step_id), **given)


def new_run(run_id: str | None = None, flow_id: str = "flow", **fields: Any) -> RunnerDefinition:
    run_id = new_id() if run_id is None else run_id
    workflow = WorkflowDefinition("w", "shop.Order", "shop", "shop.Order", flow_id, "", "1.0")
    given = {"uuid": run_id, "workflow_id": run_id, "state": RunnerState.RUNNING, **fields}
    return RunnerDefinition(workflow=workflow, **given)


def new_flow(flow_id: str, name: str = "", path: str = "") -> FlowDefinition:
    return FlowDefinition(flow_id, FlowIdentity(name, path, flow_id), program="{}")


# What workers and operators do


def add_tasks(store: PersistenceAPI, *tasks: TaskDefinition) -> None:
    store.commit(IterationChanges(created_tasks=list(tasks)))


def claim_of(task: TaskDefinition) -> Claim:
    return Claim(task.uuid, task.fence)


def claim_one(store: PersistenceAPI, *names: str, **given: Any) -> TaskDefinition:
    (task,) = store.claim_tasks(list(names) or ["shop.Pay"], 1, **given)
    return task


def end_task(store: PersistenceAPI, task_id: str, state: str = TaskState.COMPLETED) -> None:
    """End a task whatever its state is, as an operator may."""

    def decision(view: View) -> tuple[IterationChanges, None]:
        task = view.get_task(task_id)
        assert task is not None
        return IterationChanges(updated_tasks=[ended(task, state, view.now_ms())]), None

    store.decide(decision)


def read_task(store: PersistenceAPI, task_id: str) -> TaskDefinition:
    task = store.get_task(task_id)
    assert task is not None
    return task


def read_step(store: PersistenceAPI, step_id: str) -> StepDefinition:
    step = store.get_step(StepId(step_id))
    assert step is not None
    return step
