"""Tools that start runs, and look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import anyio.to_thread
import msgspec
from msgspec import UNSET, Meta, UnsetType

from afl.errors import UsageError
from afl.lang.program import Program, UnknownWorkflow
from afl.mcp import shapes
from afl.mcp.arguments import Arguments, Result
from afl.mcp.backend import Backend
from afl.mcp.following import WAIT_S, RunResult, WaitSeconds, followed
from afl.mcp.missing import required_run
from afl.mcp.tool import READS, Call, Hints, Tool, never
from afl.mcp.tools.programs import Source
from afl.operations import reading, records, runs
from afl.runtime.entities import RunnerDefinition
from afl.runtime.step import StepDefinition

#: Records in an answer: whoever reads it has little room.
_MOST = 200

RunId = Annotated[str, Meta(description="The id of a run, or the beginning of it.")]
Inputs = Annotated[dict[str, Any], Meta(description="The inputs of the workflow, by name.")]


class Execute(Arguments):
    source: Source
    workflow_name: Annotated[str, Meta(description="Its name, with or without the namespace.")]
    inputs: Inputs = msgspec.field(default_factory=dict)
    wait_seconds: WaitSeconds = WAIT_S
    idempotency_key: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="The same key again is the same run: use one to try again.",
            ),
        ]
        | UnsetType
    ) = UNSET


async def execute(call: Call, given: Execute) -> RunResult:
    run_id = await anyio.to_thread.run_sync(_submitted, call.backend, given)
    return await followed(call, run_id, given.wait_seconds)


def _submitted(backend: Backend, given: Execute) -> str:
    program = backend.compiled(given.source)
    _require_workflow(program, given.workflow_name)
    return runs.submit(
        backend.evaluator,
        program,
        given.workflow_name,
        given.inputs,
        key=given.idempotency_key or None,
        task_list=backend.options.task_list,
    )


def _require_workflow(program: Program, name: str) -> None:
    try:
        program.workflow(name)
    except UnknownWorkflow as error:
        raise UsageError(f"Workflow '{name}' not found in source: {error}") from None


class Resume(Arguments):
    workflow_id: RunId
    source: Annotated[
        str,
        Meta(description="Not needed: the program is kept with the run, and that one counts."),
    ] = ""
    workflow_name: Annotated[str, Meta(description="Not needed, as `source`.")] = ""
    inputs: Annotated[
        dict[str, Any], Meta(description="Not needed: a run keeps those it began with.")
    ] = msgspec.field(default_factory=dict)
    wait_seconds: WaitSeconds = WAIT_S


async def resume(call: Call, given: Resume) -> RunResult:
    run, note = await anyio.to_thread.run_sync(_resumed, call.backend, given)
    return await followed(call, run.workflow_id, given.wait_seconds, note)


def _resumed(backend: Backend, given: Resume) -> tuple[RunnerDefinition, str]:
    run = required_run(backend, given.workflow_id)
    program = backend.compiled(given.source) if given.source else None
    records.resume(backend.evaluator, run.workflow_id)
    is_same = program is None or program.digest.startswith(run.workflow.version)
    note = "" if is_same else "`source` is another program; the one kept with the run was used."
    return run, note


class Runs(Arguments):
    workflow_id: Annotated[
        str, Meta(description="The run to look at, by its id or the beginning of it.")
    ] = ""
    wait_seconds: WaitSeconds = 0.0
    steps: Annotated[bool, Meta(description="With a run: also its steps.")] = False
    state: Annotated[
        str,
        Meta(
            description="Only runs that are running, paused, completed, failed or cancelled; "
            "with a run: only its steps that are waiting, completed or failed."
        ),
    ] = ""
    workflow_name: Annotated[str, Meta(description="Only runs of this workflow.")] = ""
    limit: Annotated[int, Meta(ge=1, le=_MOST, description="At most so many runs, or steps.")] = 20


class RunsResult(RunResult):
    runs: Annotated[list[dict[str, Any]], Meta(description="The list.")] | UnsetType = UNSET
    run: (
        Annotated[dict[str, Any], Meta(description="The run as `afl://runners/{id}` has it.")]
        | UnsetType
    ) = UNSET
    steps: (
        Annotated[list[dict[str, Any]], Meta(description="Steps as `afl://steps/{id}` has them.")]
        | UnsetType
    ) = UNSET
    more_steps: Annotated[int, Meta(description="How many more steps there are.")] | UnsetType = (
        UNSET
    )


async def runs_(call: Call, given: Runs) -> Result:
    if not given.workflow_id:
        return await anyio.to_thread.run_sync(_listed, call.backend, given)
    run = await anyio.to_thread.run_sync(required_run, call.backend, given.workflow_id)
    stands = await followed(call, run.workflow_id, given.wait_seconds)
    return await anyio.to_thread.run_sync(_shown, call.backend, run.workflow_id, given, stands)


def _listed(backend: Backend, given: Runs) -> RunsResult:
    found = reading.list_runs(
        backend.store,
        state=given.state or None,
        workflow=given.workflow_name or None,
        limit=given.limit,
    )
    listed: list[dict[str, Any]] = [
        {
            "workflow_id": each.run,
            "workflow_name": each.workflow,
            "state": each.state,
            "started": each.started.isoformat() if each.started else None,
            "duration_s": each.duration_s,
            "error": (each.error or {}).get("message"),
        }
        for each in found
    ]
    return RunsResult(success=True, runs=listed)


def _shown(backend: Backend, run_id: str, given: Runs, stands: RunResult) -> RunsResult:
    run = runs.status(backend.store, run_id)
    facts = {name: getattr(stands, name) for name in RunResult.__struct_fields__}
    # That the run failed is what was asked for, not a failure to answer.
    answer = RunsResult(**{**facts, "success": True}, run=shapes.runner(run))
    if given.steps:
        chosen = _fitting(records.steps_of(backend.store, run), given.state)
        answer.steps = [shapes.step(each) for each in chosen[: given.limit]]
        answer.more_steps = max(len(chosen) - given.limit, 0) or UNSET
    return answer


#: How steps are asked for.
_STEP_STATES: dict[str, Callable[[StepDefinition], bool]] = {
    "waiting": lambda step: not (step.is_complete or step.is_error),
    "completed": lambda step: step.is_complete,
    "failed": lambda step: step.is_error,
}


def _fitting(steps: list[StepDefinition], wanted: str) -> list[StepDefinition]:
    if not wanted:
        return steps
    fits = _STEP_STATES.get(wanted)
    if fits is None:
        raise UsageError(f"there are no steps that are '{wanted}'; use {', '.join(_STEP_STATES)}")
    return [each for each in steps if fits(each)]


TOOLS = (
    Tool(
        "afl_execute_workflow",
        "Run a workflow",
        "Start a workflow of an AFL program given as text. The run is durable at once and workers "
        "do its tasks; this waits for its end and reports progress. If it is not over after "
        "wait_seconds the run goes on, and `workflow_id` is what to ask for with afl_runs. "
        "`unserved` names facets that nobody serves: such tasks wait until somebody does.",
        Execute,
        RunResult,
        execute,
    ),
    Tool(
        "afl_resume_workflow",
        "Let a run go on",
        "Let a run go on from where it is, and wait for it as afl_execute_workflow does. Only "
        "workflow_id is needed. A run that was paused goes on with afl_manage_runner.",
        Resume,
        RunResult,
        resume,
        Hints(is_idempotent=True),
    ),
    Tool(
        "afl_runs",
        "Look at runs",
        "Without workflow_id: list runs, newest first. With it: how that run stands, its outputs "
        "or its error, and with `steps` what each step was given and gave. wait_seconds waits for "
        "its end.",
        Runs,
        RunsResult,
        runs_,
        READS,
        never,
    ),
)
