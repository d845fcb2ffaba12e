"""Scripts: Python in a program. They are work outside of the engine, like events.

A script becomes a task of the runtime itself. A worker whose result leads to one does it as it does
other tasks, so that none of its results waits for it. Where there is no worker, the evaluator that
created it has claimed it, so that no other takes it as long as that lives; if it dies, the lease
lapses and another evaluator runs it.
"""

from __future__ import annotations

from typing import Any

from afl.ids import stable_id
from afl.lang import ast
from afl.runtime.claims import claimed
from afl.runtime.context import ExecutionContext
from afl.runtime.errors import StepFailure
from afl.runtime.handlers.tasks import new_task
from afl.runtime.persistence import DEFAULT_LEASE_MS
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType

SCRIPT_TASK = "afl:script"
SCRIPT_DATA = "script"


class FacetScriptsHandler:
    """FACET_SCRIPTS_BEGIN: the script that is the body of a facet, or stands before its blocks."""

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        script = script_of(step, context)
        assert script is not None, "else there is no work in this state"
        request_script(step, script, step.attributes.values(), context)
        return False


def script_of(step: StepDefinition, context: ExecutionContext) -> ast.ScriptBlock | None:
    """The script of a step; it follows from the text alone."""
    if step.object_type == ObjectType.YIELD_ASSIGNMENT:
        return None
    declared = context.workflow
    if step.object_type != ObjectType.WORKFLOW:
        statement = context.statement_of(step)
        if statement.callee is None or (statement.own is not None and statement.own.blocks):
            return None  # its own body replaces that of the facet
        declared = statement.callee
    node = declared.node
    if isinstance(node, ast.SchemaDecl):
        return None
    return node.body if isinstance(node.body, ast.ScriptBlock) else node.pre_script


def script_task_id(step_id: str) -> str:
    return stable_id("script", step_id)


def request_script(
    step: StepDefinition,
    script: ast.ScriptBlock,
    params: dict[str, Any],
    context: ExecutionContext,
) -> None:
    """Leave the task of a script. Raises StepFailure where scripts are turned off."""
    if not context.runs_scripts:
        raise scripts_are_off()
    data = {"code": script.code, "language": script.language, "params": params}
    task = new_task(step, context, SCRIPT_TASK, SCRIPT_DATA, data)
    # Not the id of the step: an event facet has an event behind its script.
    task.uuid = task.idempotency_key = script_task_id(step.id)
    if context.is_paused or _is_for_worker(context):
        context.queue_task(task)
        return
    task = claimed(task, context.owner, context.now, DEFAULT_LEASE_MS)
    context.scripts.append(task)
    context.add_task(task)


def _is_for_worker(context: ExecutionContext) -> bool:
    return context.next_claim is not None and context.next_claim.wants(SCRIPT_TASK)


def scripts_are_off() -> StepFailure:
    return StepFailure(
        "script blocks are turned off; an operator can turn them on with the setting "
        "scripts.enabled",
        "ScriptsDisabled",
    )
