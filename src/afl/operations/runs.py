"""Runs: start them, look at them, wait for them, act on them, remove old ones.

What acts on a run is an evaluator; what only looks is a store. Wrong requests raise `UsageError`
or `NotFound`; a run that did not complete is told by `RunFailed` or `RunCancelled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from afl.backoff import format_duration, parse_duration
from afl.errors import AflError, UsageError
from afl.lang.program import Program
from afl.operations.inputs import check_inputs
from afl.runtime.entities import ENDED_RUNNER_STATES, RunnerDefinition, RunnerState, TaskState
from afl.runtime.errors import InvalidRunStateError, InvalidStepStateError, RunNotFoundError
from afl.runtime.evaluator import Evaluator
from afl.runtime.listing import RunQuery
from afl.runtime.persistence import DEFAULT_TASK_LIST, PersistenceAPI, Pruned
from afl.runtime.types import StepId, WorkflowId

#: What `retention` says for "keep all".
NEVER = "never"
#: Longer than any clock: only runs that say themselves how long they are kept are removed.
_FOR_EVER_MS = 2**52
#: What a retry of a run tries again.
RETRIED_TASK_STATES = frozenset({TaskState.FAILED, TaskState.DEAD_LETTER})
#: Runs removed in one transaction, so that others get their turn.
_BATCH = 100


class RunFailed(AflError):  # noqa: N818 - what happened is what callers catch
    """The run ended in error. `error` is what was recorded: `message`, `type`, and the place."""

    def __init__(self, run_id: str, error: Mapping[str, Any] | None) -> None:
        self.run_id = run_id
        self.error = dict(error or {})
        super().__init__(self.error.get("message") or f"run {run_id} failed")


class RunCancelled(AflError):  # noqa: N818 - what happened is what callers catch
    """The run was cancelled; it has no outputs."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was cancelled")


# Starting


def submit(
    evaluator: Evaluator,
    program: Program,
    workflow: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    task_list: str = DEFAULT_TASK_LIST,
) -> WorkflowId:
    """Start a run that survives everything from here on. The same `key` twice is one run.

    Raises UnknownWorkflow or InvalidInputs, and then nothing has started.
    """
    declared = program.workflow(workflow)
    given = dict(inputs or {})
    check_inputs(program, declared, given)
    return evaluator.submit(program, declared.qualified, given, key=key, task_list=task_list)


# Looking


def status(store: PersistenceAPI, run_id: str) -> RunnerDefinition:
    """The record of a run. Raises RunNotFoundError."""
    found = store.get_run(WorkflowId(run_id))
    if found is None:
        raise RunNotFoundError(run_id)
    return found


def program_of(store: PersistenceAPI, run: RunnerDefinition) -> Program:
    """The program that a run was started with."""
    flow = store.get_flow(run.workflow.flow_id)
    if flow is None or not flow.program:
        raise UsageError(f"run {run.workflow_id} has no stored program; start it again")
    return Program.from_json(flow.program)


def result(
    store: PersistenceAPI, evaluator: Evaluator, run_id: str, timeout: float | None = None
) -> dict[str, Any]:
    """The outputs of a run, as soon as it is over.

    Raises RunFailed, RunCancelled, RunNotFoundError, or TimeoutError if that takes longer.
    """
    status(store, run_id)
    if not store.wait_for_run(WorkflowId(run_id), timeout):
        waited = format_duration(timeout or 0)
        raise TimeoutError(f"run {run_id} is not over after {waited}; it goes on")
    ended = status(store, run_id)
    if ended.state == RunnerState.FAILED:
        raise RunFailed(run_id, ended.error)
    if ended.state == RunnerState.CANCELLED:
        raise RunCancelled(run_id)
    return outputs(evaluator, ended)


def outputs(evaluator: Evaluator, run: RunnerDefinition) -> dict[str, Any]:
    """What a run has yielded; nothing unless it is completed."""
    if run.state != RunnerState.COMPLETED:
        return {}
    return dict(evaluator.result(WorkflowId(run.workflow_id)).outputs)


# Acting


def cancel(evaluator: Evaluator, run_id: str) -> bool:
    """End a run now. False if it was over."""
    return evaluator.cancel(WorkflowId(run_id))


def pause(evaluator: Evaluator, run_id: str) -> bool:
    """Let nobody begin anything more; what is being done is finished. False if it is paused
    already, or over."""
    return evaluator.pause(WorkflowId(run_id))


def unpause(evaluator: Evaluator, run_id: str) -> bool:
    """Let a paused run go on. False if it was not paused."""
    return evaluator.unpause(WorkflowId(run_id))


def retry(evaluator: Evaluator, step_id: str) -> None:
    """Try a failed step again, and with it all that failed because of it."""
    evaluator.retry_step(StepId(step_id))


@dataclass(frozen=True)
class RetryReport:
    """What a retry of a whole run has done."""

    #: Ids of the steps that are tried again.
    retried: tuple[str, ...]
    #: Why others are not, by their ids.
    refused: Mapping[str, str]


def retry_failed(store: PersistenceAPI, evaluator: Evaluator, run_id: str) -> RetryReport:
    """Try all steps of a run again whose handlers failed. Each is a commit of its own.

    Raises UsageError if there is none.
    """
    run = status(store, run_id)
    failed = [
        each for each in store.get_tasks_by_runner(run.uuid) if each.state in RETRIED_TASK_STATES
    ]
    if not failed:
        raise UsageError(
            f"run {run.workflow_id} is {run.state} and has no failed tasks to try again"
            + ("; submit it again" if run.is_over else "")
        )
    retried: list[str] = []
    refused: dict[str, str] = {}
    for task in failed:
        try:
            evaluator.retry_step(StepId(task.step_id))
            retried.append(task.step_id)
        except (InvalidStepStateError, InvalidRunStateError) as error:
            refused[task.step_id] = str(error)
    return RetryReport(tuple(retried), refused)


# Removing


@dataclass(frozen=True)
class PruneReport:
    """What was removed, or would be."""

    runs: int = 0
    steps: int = 0
    tasks: int = 0

    def plus(self, more: Pruned) -> PruneReport:
        return PruneReport(self.runs + more.runs, self.steps + more.steps, self.tasks + more.tasks)


def prune(store: PersistenceAPI, keep: str, *, limit: int | None = None) -> PruneReport:
    """Remove runs that ended longer ago than `keep` says (`30d`, `never`), at most `limit`."""
    report = PruneReport()
    left = limit
    while left is None or left > 0:
        batch = _BATCH if left is None else min(left, _BATCH)
        removed = store.prune_runs(_keep_ms(keep), batch)
        report = report.plus(removed)
        if removed.runs < batch:
            break
        left = None if left is None else left - removed.runs
    return report


def prunable(store: PersistenceAPI, keep: str) -> list[RunnerDefinition]:
    """The runs that `prune` would remove, oldest first. Nothing is changed."""
    now, keep_ms = store.now_ms(), _keep_ms(keep)
    old = [run for run in _ended(store) if _is_old(run, now, keep_ms)]
    return sorted(old, key=lambda run: (run.end_time, run.uuid))


def _ended(store: PersistenceAPI) -> Iterator[RunnerDefinition]:
    """All runs that are over, without their parameters: there may be many."""
    for state in ENDED_RUNNER_STATES:
        page = store.list_runs(RunQuery(state), _BATCH)
        yield from page.items
        while page.has_more:
            page = store.list_runs(RunQuery(state), _BATCH, page.cursor)
            yield from page.items


def _is_old(run: RunnerDefinition, now: int, keep_ms: int) -> bool:
    if run.retain < 0:
        return False
    return run.end_time + (run.retain or keep_ms) < now


def _keep_ms(keep: str) -> int:
    return _FOR_EVER_MS if keep == NEVER else int(parse_duration(keep) * 1000)
