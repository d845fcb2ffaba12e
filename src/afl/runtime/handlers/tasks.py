"""Tasks: how the work of a step is queued."""

from __future__ import annotations

from typing import Any

from afl.runtime.arguments import NO_POLICY, Policy
from afl.runtime.context import ExecutionContext
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import task_id_of
from afl.runtime.step import StepDefinition


def new_task(
    step: StepDefinition,
    context: ExecutionContext,
    name: str,
    data_type: str,
    data: dict[str, Any],
    policy: Policy = NO_POLICY,
) -> TaskDefinition:
    """The task that carries the work of a step. It is always the same one for the same step."""
    return TaskDefinition(
        uuid=task_id_of(step.id),
        name=name,
        runner_id=context.run.uuid,
        workflow_id=step.workflow_id,
        flow_id=context.run.workflow.flow_id,
        step_id=step.id,
        created=context.now,
        updated=context.now,
        task_list_name=context.run.task_list,
        data_type=data_type,
        data=data,
        idempotency_key=task_id_of(step.id),
        max_attempts=policy.max_attempts,
        backoff_ms=policy.backoff_ms,
        timeout_ms=policy.timeout_ms,
    )
