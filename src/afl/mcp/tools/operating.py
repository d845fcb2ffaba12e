"""Tools that act on runs and their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from afl.errors import UsageError
from afl.mcp.arguments import Arguments, Result
from afl.mcp.backend import Backend
from afl.mcp.missing import required_run, required_step
from afl.mcp.tool import Hints, Tool, in_thread
from afl.operations import records, runs
from afl.runtime.evaluator import Evaluator


class ManageRunner(Arguments):
    runner_id: Annotated[str, Meta(description="The id of a run, or the beginning of it.")]
    action: Annotated[
        Literal["cancel", "pause", "resume"],
        Meta(
            description="cancel ends the run now, and nothing brings it back; pause lets nothing "
            "more begin; resume lets a paused run go on."
        ),
    ]


class Managed(Result):
    workflow_id: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    changed: (
        Annotated[bool, Meta(description="False if the run was in that state already, or over.")]
        | UnsetType
    ) = UNSET


_ACTIONS: dict[str, Callable[[Evaluator, str], bool]] = {
    "cancel": runs.cancel,
    "pause": runs.pause,
    "resume": runs.unpause,
}


def manage_runner(backend: Backend, given: ManageRunner) -> Managed:
    run_id = required_run(backend, given.runner_id, "Runner").workflow_id
    is_changed = _ACTIONS[given.action](backend.evaluator, run_id)
    state = str(runs.status(backend.store, run_id).state)
    return Managed(success=True, workflow_id=run_id, state=state, changed=is_changed)


class ContinueStep(Arguments):
    step_id: Annotated[str, Meta(description="A step that waits for its result.")]
    result: Annotated[
        dict[str, Any], Meta(description="What the facet of the step returns, by name.")
    ] = msgspec.field(default_factory=dict)


class StepResult(Result):
    workflow_id: str | UnsetType = UNSET
    step_id: str | UnsetType = UNSET
    state: str | UnsetType = UNSET


def continue_step(backend: Backend, given: ContinueStep) -> StepResult:
    required_step(backend, given.step_id)
    step = records.continue_step(backend.evaluator, given.step_id, given.result)
    return StepResult(
        success=True, workflow_id=step.workflow_id, step_id=step.id, state=str(step.state)
    )


class RetryStep(Arguments):
    step_id: Annotated[str, Meta(description="A step that failed.")] = ""
    workflow_id: Annotated[
        str, Meta(description="Instead of a step: all failed steps of this run.")
    ] = ""


class Retried(Result):
    workflow_id: str | UnsetType = UNSET
    retried: Annotated[list[str], Meta(description="Ids of steps.")] | UnsetType = UNSET
    refused: (
        Annotated[dict[str, str], Meta(description="Why others are not tried again, by their ids.")]
        | UnsetType
    ) = UNSET


def retry_step(backend: Backend, given: RetryStep) -> Retried:
    if bool(given.step_id) == bool(given.workflow_id):
        raise UsageError("say either step_id, or workflow_id for all failed steps of a run")
    if given.step_id:
        step = required_step(backend, given.step_id)
        runs.retry(backend.evaluator, step.id)
        return Retried(success=True, workflow_id=step.workflow_id, retried=[step.id])
    run_id = required_run(backend, given.workflow_id).workflow_id
    report = runs.retry_failed(backend.store, backend.evaluator, run_id)
    return Retried(
        success=bool(report.retried),
        error=UNSET if report.retried else "no step could be tried again; see refused",
        workflow_id=run_id,
        retried=list(report.retried),
        refused=dict(report.refused) or UNSET,
    )


TOOLS = (
    Tool(
        "afl_manage_runner",
        "Cancel, pause or resume a run",
        "Cancel, pause or resume a run. It acts on tasks that workers have in hand, too: a "
        "cancelled run loses them, a paused one finishes them.",
        ManageRunner,
        Managed,
        in_thread(manage_runner),
        Hints(is_destructive=True, is_idempotent=True),
    ),
    Tool(
        "afl_continue_step",
        "Give a step its result",
        "Give a waiting step its result in place of a handler; the run goes on with it. Does "
        "nothing if the step has gone on already.",
        ContinueStep,
        StepResult,
        in_thread(continue_step),
        Hints(is_destructive=True, is_idempotent=True),
    ),
    Tool(
        "afl_retry_step",
        "Try a failed step again",
        "Try a failed step again, or all failed steps of a run, and bring back what failed because "
        "of them.",
        RetryStep,
        Retried,
        in_thread(retry_step),
    ),
)
