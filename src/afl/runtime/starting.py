"""The beginning of a run: what is stored with it, and its first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from afl.errors import UsageError
from afl.ids import new_id, stable_id
from afl.lang import paths
from afl.lang.names import Declared
from afl.lang.program import Program
from afl.log import get_logger
from afl.runtime.arguments import type_hint
from afl.runtime.context import ExecutionContext
from afl.runtime.entities import (
    FlowDefinition,
    FlowIdentity,
    Parameter,
    RunnerDefinition,
    RunnerState,
    WorkflowDefinition,
)
from afl.runtime.persistence import child_id
from afl.runtime.plans import flow_id_of
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType
from afl.telemetry import RunStarted

_log = get_logger(__name__)


@dataclass(frozen=True)
class NewRun:
    """A run to be: its id is fixed, so that a decision that is repeated begins the same one."""

    program: Program
    workflow: Declared
    inputs: dict[str, Any]
    key: str | None
    runner_id: str
    task_list: str
    id: str = field(default_factory=new_id)

    def run(self, now: int) -> RunnerDefinition:
        return RunnerDefinition(
            uuid=self.runner_id or self.id,
            workflow_id=self.id,
            workflow=replace(_catalogue(self.program).workflows[self.workflow.qualified], date=now),
            parameters=_parameters(self.workflow, self.inputs),
            step_id=child_id(self.id, "root"),
            start_time=now,
            state=RunnerState.RUNNING,
            key=self.key,
            task_list=self.task_list,
        )


def begin(new: NewRun, context: ExecutionContext) -> None:
    """Create the run, its program and its root; the agenda does the rest."""
    changes, catalogue = context.changes, _catalogue(new.program)
    changes.created_runs.append(context.run)
    changes.flows.append(catalogue.flow)
    changes.workflows.extend(
        replace(each, date=context.now) for each in catalogue.workflows.values()
    )
    root = StepDefinition.create(
        context.workflow_id, ObjectType.WORKFLOW, facet_name=new.workflow.qualified
    )
    root.id, root.name = child_id(new.id, "root"), new.workflow.name
    for each in context.run.parameters:
        root.attributes.set_param(each.name, each.value, each.type_hint)
    context.schedule(context.create(root))
    context.tell(RunStarted, workflow=new.workflow.qualified)


def require_same(known: RunnerDefinition, new: NewRun) -> None:
    """A key stands for one run: with another workflow or other inputs it is a mistake."""
    if known.workflow.name != new.workflow.qualified:
        raise UsageError(
            f"the key {new.key!r} belongs to run {known.workflow_id} of {known.workflow.name}; "
            f"use another key for {new.workflow.qualified}"
        )
    if {each.name: each.value for each in known.parameters} != new.inputs:
        raise UsageError(
            f"the key {new.key!r} belongs to run {known.workflow_id}, which has other inputs; "
            "use another key"
        )


class _Catalogue(NamedTuple):
    """What is kept of a program beside its runs."""

    flow: FlowDefinition
    workflows: dict[str, WorkflowDefinition]


@lru_cache(maxsize=64)
def _catalogue(program: Program) -> _Catalogue:
    """The same for all runs of it, so it is made once: that costs what the program is long."""
    flow_id = flow_id_of(program)
    flow = FlowDefinition(
        uuid=flow_id,
        name=FlowIdentity("", "", flow_id),
        digest=program.digest,
        program=program.to_json(),
    )
    workflows = {name: _catalogued(program, each) for name, each in program.workflows.items()}
    return _Catalogue(flow, workflows)


def _catalogued(program: Program, declared: Declared) -> WorkflowDefinition:
    flow_id = flow_id_of(program)
    node_id = paths.node_id(paths.declaration(declared.namespace, declared.node))
    return WorkflowDefinition(
        uuid=stable_id("workflow", flow_id, declared.qualified),
        name=declared.qualified,
        namespace_id=paths.node_id(paths.namespace(declared.namespace)),
        facet_id=node_id,
        flow_id=flow_id,
        starting_step=node_id,
        version=program.digest[:12],
        documentation=_documentation(declared),
    )


def _documentation(declared: Declared) -> dict[str, Any] | None:
    doc = declared.node.doc
    if doc is None:
        return None
    return {
        "description": doc.description,
        "params": {each.name: each.description for each in doc.params},
        "returns": {each.name: each.description for each in doc.returns},
    }


def _parameters(declared: Declared, inputs: Mapping[str, Any]) -> list[Parameter]:
    return [
        Parameter(name, value, type_hint(declared.params.get(name)))
        for name, value in inputs.items()
    ]


# Compiled JSON, as `execute` and `resume` take it


def program_of(
    workflow_ast: Mapping[str, Any], program_ast: Mapping[str, Any] | Program | None
) -> tuple[Program, str]:
    """The program, and the qualified name of the workflow in it."""
    if program_ast is None:
        program_ast = {"type": "Program", "workflows": [dict(workflow_ast)]}
    program = program_ast if isinstance(program_ast, Program) else Program.from_dict(program_ast)
    wanted = workflow_ast.get("id")
    for name, declared in program.workflows.items():
        if paths.node_id(paths.declaration(declared.namespace, declared.node)) == wanted:
            return program, name
    return program, program.workflow(str(workflow_ast.get("name"))).qualified


def warn_if_other(
    run: RunnerDefinition,
    workflow_ast: Mapping[str, Any] | None,
    program_ast: Mapping[str, Any] | Program | None,
) -> None:
    """The program stored with the run wins; say so if another one was passed."""
    if workflow_ast is None or program_ast is None:
        return
    program, _ = program_of(workflow_ast, program_ast)
    if flow_id_of(program) != run.workflow.flow_id:
        _log.warning(
            "resumed_with_another_program",
            run=run.workflow_id,
            given=program.digest[:12],
            used=run.workflow.version,
        )
