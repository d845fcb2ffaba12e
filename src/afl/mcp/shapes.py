"""Records as JSON. Names of fields are a public contract; times are milliseconds since 1970."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from afl.lang.diagnostics import Diagnostic
from afl.operations import fleet
from afl.operations.records import FlowEntry
from afl.operations.tasks import Serving
from afl.runtime.entities import (
    FlowDefinition,
    HandlerRegistration,
    LogDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.step import StepDefinition
from afl.runtime.types import AttributeValue
from afl.turns.api import TurnRecord

Shape = dict[str, Any]


def runner(run: RunnerDefinition) -> Shape:
    return {
        "uuid": run.uuid,
        "workflow_id": run.workflow_id,
        "workflow_name": run.workflow.name,
        "state": str(run.state),
        "start_time": run.start_time,
        "end_time": run.end_time,
        "duration": run.duration,
        "parameters": [asdict(each) for each in run.parameters],
        "task_list": run.task_list,
        "key": run.key,
        "error": run.error,
    }


def step(found: StepDefinition) -> Shape:
    error = found.transition.error if found.is_error else None
    shape: Shape = {
        "id": found.id,
        "workflow_id": found.workflow_id,
        "object_type": str(found.object_type),
        "state": str(found.state),
        "statement_id": found.statement_id,
        "container_id": found.container_id,
        "block_id": found.block_id,
        "name": found.name,
    }
    if found.facet_name:
        shape["facet_name"] = found.facet_name
    if found.attributes.params:
        shape["params"] = _values(found.attributes.params)
    if found.attributes.returns:
        shape["returns"] = _values(found.attributes.returns)
    return shape if error is None else {**shape, "error": str(error)}


def _values(attributes: Mapping[str, AttributeValue]) -> Shape:
    return {name: each.value for name, each in attributes.items()}


def flow_entry(entry: FlowEntry) -> Shape:
    return {"uuid": entry.flow_id, "workflows": [_workflow(each) for each in entry.workflows]}


def flow(found: FlowDefinition, workflows: Sequence[WorkflowDefinition], facets: int) -> Shape:
    return {
        "uuid": found.uuid,
        "name": found.name.name,
        "path": found.name.path,
        "workflows": [_workflow(each) for each in workflows],
        "sources": len(found.compiled_sources),
        "facets": facets,
        "digest": found.digest,
    }


def flow_source(found: FlowDefinition) -> Shape:
    return {
        "uuid": found.uuid,
        "name": found.name.name,
        "sources": [asdict(each) for each in found.compiled_sources],
        "program": json.loads(found.program) if found.program else None,
    }


def _workflow(found: WorkflowDefinition) -> Shape:
    shape = {"uuid": found.uuid, "name": found.name, "version": found.version}
    return shape if not found.documentation else {**shape, "documentation": found.documentation}


def task(found: TaskDefinition, who: Serving) -> Shape:
    return {
        "uuid": found.uuid,
        "name": found.name,
        "runner_id": found.runner_id,
        "workflow_id": found.workflow_id,
        "flow_id": found.flow_id,
        "step_id": found.step_id,
        "state": str(found.state),
        "created": found.created,
        "updated": found.updated,
        "task_list_name": found.task_list_name,
        "data_type": found.data_type,
        "data": found.data,
        "error": found.error,
        "is_unserved": found.state == TaskState.PENDING and not who.serves(found),
    }


def log(found: LogDefinition) -> Shape:
    return {
        "uuid": found.uuid,
        "order": found.order,
        "runner_id": found.runner_id,
        "step_id": found.step_id,
        "note_type": str(found.note_type),
        "note_originator": str(found.note_originator),
        "note_importance": int(found.note_importance),
        "message": found.message,
        "state": found.state,
        "time": found.time,
        "details": found.details,
    }


def server(found: ServerDefinition, now_ms: int) -> Shape:
    return {
        "uuid": found.uuid,
        "server_group": found.server_group,
        "service_name": found.service_name,
        "server_name": found.server_name,
        "state": str(found.state),
        "phase": fleet.phase_of(found),
        "start_time": found.start_time,
        "ping_time": found.ping_time,
        "topics": list(found.topics),
        "handlers": list(found.handlers),
        "handled": [asdict(each) for each in found.handled],
        "task_list": found.task_list,
        "version": found.version,
        "host": found.host,
        "pid": found.pid,
        "in_flight": found.in_flight,
        "is_alive": fleet.is_alive(found, now_ms),
        "incidents": list(found.incidents),
    }


def handler(found: HandlerRegistration) -> Shape:
    shape = asdict(found)
    return {**shape, "isolation": str(found.isolation), "on_lost": str(found.on_lost)}


def turn(record: TurnRecord) -> Shape:
    return {**msgspec.structs.asdict(record), "state": str(record.state)}


def problem(found: Diagnostic) -> Shape:
    """What is wrong with a program, and where."""
    shape: Shape = {"message": found.message, "code": found.code}
    if found.location is not None:
        shape |= {"line": found.line, "column": found.column}
    return {**shape, "hint": found.hint} if found.hint else shape
