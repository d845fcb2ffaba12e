"""Records as the store keeps them, for faces that show all of their fields."""

from __future__ import annotations

from dataclasses import dataclass

from afl.errors import NotFound
from afl.lang import ast
from afl.lang.program import Program
from afl.operations.finding import find_run
from afl.runtime.entities import (
    FlowDefinition,
    LogDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    WorkflowDefinition,
)
from afl.runtime.errors import StepNotFoundError
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.results import ExecutionResult
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

#: Workflows that are looked through for their flows.
_WORKFLOWS = 1000


class FlowNotFound(NotFound):
    """No flow has this id."""

    def __init__(self, flow_id: str) -> None:
        self.flow_id = flow_id
        super().__init__(f"Flow {flow_id} not found; check the id, and that it is the right store")


# Runs and their steps


def newest_runs(store: PersistenceAPI, limit: int) -> list[RunnerDefinition]:
    return store.get_all_runners(limit)


def runner(store: PersistenceAPI, text: str) -> RunnerDefinition:
    """The run with this record id, run id, or beginning of one. Raises NotFound, UsageError."""
    return store.get_runner(text) or find_run(store, text)


def steps_of(store: PersistenceAPI, run: RunnerDefinition) -> list[StepDefinition]:
    """All steps of a run, in the order of their creation."""
    return store.get_steps_by_workflow(WorkflowId(run.workflow_id))


def logs_of(store: PersistenceAPI, run: RunnerDefinition) -> list[LogDefinition]:
    return store.get_logs_by_runner(run.uuid)


def step(store: PersistenceAPI, step_id: str) -> StepDefinition:
    """Raises StepNotFoundError."""
    found = store.get_step(StepId(step_id))
    if found is None:
        raise StepNotFoundError(step_id)
    return found


def newest_tasks(store: PersistenceAPI, limit: int) -> list[TaskDefinition]:
    return store.get_all_tasks(limit)


# Flows


@dataclass(frozen=True)
class FlowEntry:
    """A program of the store in a list."""

    flow_id: str
    workflows: tuple[WorkflowDefinition, ...]


def flows(store: PersistenceAPI) -> list[FlowEntry]:
    """The programs of the newest workflows, newest first."""
    found: dict[str, list[WorkflowDefinition]] = {}
    for each in store.get_all_workflows(_WORKFLOWS):
        found.setdefault(each.flow_id, []).append(each)
    return [FlowEntry(flow_id, tuple(workflows)) for flow_id, workflows in found.items()]


def flow(store: PersistenceAPI, flow_id: str) -> tuple[FlowDefinition, list[WorkflowDefinition]]:
    """A program with its workflows. Raises FlowNotFound."""
    found = store.get_flow(flow_id)
    if found is None:
        raise FlowNotFound(flow_id)
    return found, store.get_workflows_by_flow(flow_id)


def facet_count(found: FlowDefinition) -> int:
    """How many facets and event facets a program declares."""
    if not found.program:
        return 0
    declared = Program.from_json(found.program).declarations.values()
    return sum(isinstance(each.node, ast.FacetDecl | ast.EventFacetDecl) for each in declared)


# Servers


def servers(store: PersistenceAPI) -> list[ServerDefinition]:
    """Those that were heard of last come first."""
    return sorted(store.get_all_servers(), key=lambda each: (-each.ping_time, each.uuid))


# Acting on one step or run as it stands


def continue_step(evaluator: Evaluator, step_id: str, result: dict[str, object]) -> StepDefinition:
    """Give a waiting step its result; nothing happens once it has gone on.

    Raises StepNotFoundError, InvalidStepStateError.
    """
    evaluator.continue_step(StepId(step_id), result)
    return step(evaluator.persistence, step_id)


def resume(evaluator: Evaluator, run_id: str) -> ExecutionResult:
    """Let a run go on from where it is, with the program that is stored with it."""
    return evaluator.resume(WorkflowId(run_id))


def result(evaluator: Evaluator, run_id: str) -> ExecutionResult:
    """Where a run stands. Raises RunNotFoundError."""
    return evaluator.result(WorkflowId(run_id))
