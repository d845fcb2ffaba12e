"""Runs are at rest after every commit, and equal runs have equal shapes."""

from __future__ import annotations

from typing import Any

from afl.runtime.persistence import PersistenceAPI
from afl.runtime.rest import problems_of_run
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId


def check_rest(store: PersistenceAPI, workflow_id: WorkflowId) -> None:
    """Raises AssertionError with everything that is wrong."""
    problems = problems_of_run(store, workflow_id)
    assert not problems, "\n".join(problems)


def shape_of(store: PersistenceAPI, workflow_id: WorkflowId) -> list[tuple[str, str, Any]]:
    """All steps of a run by their place in the text: the same for equal runs, whatever their ids
    and whenever their steps ended."""
    steps = {each.id: each for each in store.get_steps_by_workflow(workflow_id)}

    def path(step: StepDefinition) -> str:
        parent = step.block_id or step.container_id
        return f"{path(steps[StepId(parent)])}/{step.name}" if parent else step.name

    return sorted((path(each), each.state, each.attributes.values()) for each in steps.values())
