"""A run that was started or asked for: wait for it, and say how it stands."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from afl.mcp.arguments import Result
from afl.mcp.backend import Backend
from afl.mcp.tool import Call
from afl.operations import records, runs
from afl.operations.waiting import follow, look
from afl.runtime.entities import RunnerDefinition

#: Clients give up after a minute; an answer that says "it goes on" must come before.
WAIT_S = 30.0
LONGEST_S = 600.0

WaitSeconds = Annotated[
    float,
    Meta(
        ge=0,
        le=LONGEST_S,
        description="How long to wait for the end of the run. It goes on after that; ask for it "
        "with afl_runs.",
    ),
]


class RunResult(Result):
    """Where a run stands."""

    workflow_id: Annotated[str, Meta(description="The id of the run.")] | UnsetType = UNSET
    status: (
        Annotated[
            str, Meta(description="COMPLETED, PAUSED while it waits for something, or ERROR.")
        ]
        | UnsetType
    ) = UNSET
    state: (
        Annotated[str, Meta(description="running, paused, completed, failed or cancelled.")]
        | UnsetType
    ) = UNSET
    iterations: int | UnsetType = UNSET
    outputs: dict[str, Any] | UnsetType = UNSET
    progress: (
        Annotated[str, Meta(description="How far it has come, while it is not over.")] | UnsetType
    ) = UNSET
    unserved: (
        Annotated[
            list[str],
            Meta(description="Facets whose tasks wait while nobody is there who could do them."),
        ]
        | UnsetType
    ) = UNSET
    note: Annotated[str, Meta(description="What to do next.")] | UnsetType = UNSET


async def followed(call: Call, run_id: str, seconds: float, note: str = "") -> RunResult:
    """Wait for a run, tell how far it comes, and say how it stands then."""
    backend = call.backend
    run = await call.wait(runs.status, backend.store, run_id)
    furthest = -1
    with backend.waiting() as stop:
        looks = follow(backend.store, run, seconds, stop)
        while (seen := await call.wait(next, looks, None)) is not None:
            ended = seen.counts.done + seen.counts.failed
            # Progress that is reported may only grow, whatever is tried again.
            if ended > furthest:
                furthest = ended
                await call.report(ended, str(seen.counts))
    return await call.wait(stands, backend, run_id, note)


def stands(backend: Backend, run_id: str, note: str = "") -> RunResult:
    """How a run stands now."""
    found = records.result(backend.evaluator, run_id)
    run = runs.status(backend.store, run_id)
    if run.is_over:
        # It may have ended between the two looks; now it stays as it is.
        found = records.result(backend.evaluator, run_id)
    answer = RunResult(
        success=found.success,
        workflow_id=run.workflow_id,
        status=str(found.status),
        state=str(run.state),
        iterations=found.iterations,
        outputs=found.outputs,
        note=note or UNSET,
    )
    if not found.success:
        answer.error = str(found.error)
        answer.note = _after_failure(run)
    return answer if run.is_over else _unfinished(backend, run, answer)


def _after_failure(run: RunnerDefinition) -> str:
    if run.state == "cancelled":
        return "The run was cancelled. Start another one if it is still wanted."
    return (
        f"Look at its steps with afl_runs (workflow_id {run.workflow_id}, steps true); when the "
        "cause is gone, try its failed steps again with afl_retry_step."
    )


def _unfinished(backend: Backend, run: RunnerDefinition, answer: RunResult) -> RunResult:
    seen = look(backend.store, run)
    answer.progress = str(seen.counts)
    answer.unserved = sorted({*seen.unserved, *seen.unattended}) or UNSET
    advice = [answer.note or "", seen.advice(run.task_list)]
    advice.append(
        "Let it go on with afl_manage_runner, action resume."
        if seen.is_paused
        else f"The run is not over and goes on; ask with afl_runs, workflow_id {run.workflow_id}."
    )
    answer.note = " ".join(each for each in advice if each)
    return answer
