"""Tasks of the runtime itself that a runner does: `afl:execute` starts a run, `afl:resume` lets a
step go on whose result somebody else has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.errors import UsageError
from afl.lang.compiler import compile_input
from afl.lang.program import Program
from afl.lang.sources import CompilerInput, SourceEntry, TextOrigin
from afl.runtime.dispatch import HandlerContext
from afl.runtime.entities import FlowDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.loading import Handler
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import StepId, WorkflowId

EXECUTE = "afl:execute"
RESUME = "afl:resume"


class RuntimeTasks:
    """Does them. Each may be done again after a crash, and then changes nothing."""

    def __init__(self, store: PersistenceAPI, evaluator: Evaluator) -> None:
        self._store = store
        self._evaluator = evaluator
        self.handlers = {
            EXECUTE: Handler(EXECUTE, self.execute, "afl"),
            RESUME: Handler(RESUME, self.resume, "afl"),
        }

    def execute(self, payload: Mapping[str, Any], context: HandlerContext) -> dict[str, Any]:
        """Start the run of `workflow_name` of the flow `flow_id`, with `inputs`."""
        flow_id, name = _required(payload, EXECUTE, "flow_id", "workflow_name")
        flow = self._store.get_flow(flow_id)
        if flow is None:
            raise UsageError(f"there is no flow {flow_id}; save it first, in the same store")
        run_id = self._evaluator.submit(
            _program_of(flow),
            name,
            payload.get("inputs") or {},
            key=f"{EXECUTE}:{context.idempotency_key or context.task_id}",
            runner_id=payload.get("runner_id") or "",
            task_list=context.task.task_list_name,
        )
        return {"status": self._evaluator.result(run_id).status, "workflow_id": run_id}

    def resume(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Let the step `step_id` go on with the returns that it has; `workflow_id` is its run."""
        (step_id,) = _required(payload, RESUME, "step_id")
        self._evaluator.continue_step(StepId(step_id), payload.get("result"))
        workflow_id = payload.get("workflow_id")
        if not workflow_id:
            return {}
        result = self._evaluator.resume(WorkflowId(workflow_id))
        return {"status": result.status, "workflow_id": workflow_id}


def _required(payload: Mapping[str, Any], task: str, *names: str) -> list[str]:
    missing = [each for each in names if not payload.get(each)]
    if missing:
        raise UsageError(f"the data of a task {task} must have {' and '.join(missing)}")
    return [str(payload[each]) for each in names]


def _program_of(flow: FlowDefinition) -> Program:
    if flow.program:
        return Program.from_json(flow.program)
    texts = [
        SourceEntry(each.content, TextOrigin(each.name))
        for each in flow.compiled_sources
        if each.language == "afl"
    ]
    if not texts:
        raise UsageError(f"the flow {flow.uuid} has neither a program nor AFL text")
    return compile_input(CompilerInput(texts)).require()
