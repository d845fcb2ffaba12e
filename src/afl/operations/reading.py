"""What people and programs are shown of runs. Nothing here changes anything.

Times are datetimes in UTC. A list of runs reads their records only; a single run is read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.operations.finding import newest_that_fit
from afl.runtime.entities import (
    LogDefinition,
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.names import short_name
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import AttributeValue, WorkflowId

#: Seconds between two looks at a run, and how many times as long as the look itself.
_REFRESH_S = 1.0
_SHARE = 20
#: Seconds between two looks at a log.
_LOOK_S = 0.5
#: A task that is over by the failure of its handler has counted its last delivery as that failure.
_FAILED_STATES = frozenset({TaskState.FAILED, TaskState.IGNORED})


def moment(ms: int) -> datetime | None:
    """A time of a record; None for one that was not set."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None


# Runs


@dataclass(frozen=True)
class RunSummary:
    """A run in a list."""

    run: str
    workflow: str
    state: str
    started: datetime | None
    ended: datetime | None
    #: Until now, if it is not over.
    duration_s: float
    task_list: str
    key: str | None
    #: Why it failed: `message`, `type`, and where in the text.
    error: dict[str, Any] | None


def summary(run: RunnerDefinition, now_ms: int) -> RunSummary:
    took = run.duration if run.is_over else max(now_ms - run.start_time, 0)
    return RunSummary(
        run.workflow_id,
        run.workflow.name,
        str(run.state),
        moment(run.start_time),
        moment(run.end_time),
        took / 1000,
        run.task_list,
        run.key,
        run.error,
    )


def list_runs(
    store: PersistenceAPI,
    *,
    state: str | None = None,
    workflow: str | None = None,
    limit: int = 50,
) -> list[RunSummary]:
    """The newest runs, newest first. `workflow` is a qualified or a short name.

    Raises UsageError for a state that no run can have.
    """
    if state is not None:
        require_state(state, RunnerState)

    def fits(run: RunnerDefinition) -> bool:
        names = (run.workflow.name, short_name(run.workflow.name))
        return (workflow is None or workflow in names) and (state is None or run.state == state)

    found = newest_that_fit(_runs_in(store, state), fits, limit)
    now = store.now_ms()
    return [summary(each, now) for each in found]


def require_state(state: str, states: type[RunnerState] | type[TaskState]) -> None:
    known = [each.value for each in states]
    if state not in known:
        raise UsageError(f"there is no state '{state}'; use one of {', '.join(known)}")


def _runs_in(store: PersistenceAPI, state: str | None) -> Callable[[int], list[RunnerDefinition]]:
    # Most runs are completed, so the newest of them are soon found; runs in any other state are
    # few, and the store keeps them apart.
    if state in (None, RunnerState.COMPLETED):
        return store.get_all_runners
    newest_first = store.get_runners_by_state(str(state))[::-1]
    return lambda limit: newest_first[:limit]


# One run


@dataclass(frozen=True)
class StepView:
    """A step of a run, with those inside it."""

    step: str
    #: The name in the text; of a block, what it is (`andThen:0`).
    name: str
    #: What it stands for, such as `VariableAssignment` or `AndThen`.
    kind: str
    facet: str
    #: waiting, running, completed, failed, or `not run` because of another step's error.
    state: str
    #: How often a handler was asked to do it.
    attempts: int
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    error: dict[str, Any] | None
    #: The state of its task, if it has one.
    task: str | None
    steps: tuple[StepView, ...] = ()

    def walk(self) -> Iterator[StepView]:
        """This one and all inside it, in reading order."""
        yield self
        for each in self.steps:
            yield from each.walk()


@dataclass(frozen=True)
class RunDetail:
    """All of a run."""

    summary: RunSummary
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    #: The workflow itself, with its steps inside.
    root: StepView | None


def detail(store: PersistenceAPI, run: RunnerDefinition) -> RunDetail:
    """A run with all its steps. Reads all of them: not for polling."""
    steps = store.get_steps_by_workflow(WorkflowId(run.workflow_id))
    tasks = {each.step_id: each for each in store.get_tasks_by_runner(run.uuid)}
    below: dict[str | None, list[StepDefinition]] = {}
    for each in steps:
        below.setdefault(each.block_id or each.container_id, []).append(each)
    root = next(iter(below.get(None, [])), None)
    return RunDetail(
        summary(run, store.now_ms()),
        {each.name: each.value for each in run.parameters},
        _values(root.attributes.returns) if root is not None else {},
        None if root is None else _view(root, below, tasks),
    )


def _view(
    step: StepDefinition,
    below: Mapping[str | None, list[StepDefinition]],
    tasks: Mapping[str, TaskDefinition],
) -> StepView:
    task = tasks.get(step.id)
    error = _error(step)
    return StepView(
        step.id,
        step.name,
        str(step.object_type),
        step.facet_name,
        _state(step, task, error),
        0 if task is None else attempts(task),
        _values(step.attributes.params),
        _values(step.attributes.returns),
        error,
        None if task is None else str(task.state),
        tuple(_view(each, below, tasks) for each in below.get(step.id, [])),
    )


def _values(attributes: Mapping[str, AttributeValue]) -> dict[str, Any]:
    return {name: each.value for name, each in attributes.items()}


def _error(step: StepDefinition) -> dict[str, Any] | None:
    error = step.transition.error
    if error is None or not step.is_error:
        return None
    facts: dict[str, Any] = getattr(error, "to_dict", dict)()
    return facts or {"message": str(error), "type": type(error).__name__}


def _state(step: StepDefinition, task: TaskDefinition | None, error: dict[str, Any] | None) -> str:
    if step.is_complete:
        return "completed"
    if step.is_error:
        return "not run" if "not_run" in (error or {}) else "failed"
    if step.state == StepState.CREATED:
        return "waiting"
    is_pending = task is not None and task.state == TaskState.PENDING
    return "waiting" if is_pending else "running"


def attempts(task: TaskDefinition) -> int:
    """How often a handler began with a task, in its present life."""
    is_counted_twice = task.state in _FAILED_STATES and task.failures > 0 and task.deliveries > 0
    return task.failures + task.deliveries - is_counted_twice


# How far it has come


@dataclass(frozen=True)
class TaskCounts:
    """The tasks of a run."""

    done: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0

    def __str__(self) -> str:
        text = f"{self.done} done, {self.running} running, {self.waiting} waiting"
        return f"{text}, {self.failed} failed" if self.failed else text


_COUNTED_AS: dict[str, str] = {
    TaskState.COMPLETED: "done",
    TaskState.RUNNING: "running",
    TaskState.PENDING: "waiting",
}


def task_counts(store: PersistenceAPI, run: RunnerDefinition) -> TaskCounts:
    """How many tasks of a run are where. Reads all of them: ask seldom."""
    counts: dict[str, int] = {}
    for each in store.get_tasks_by_runner(run.uuid):
        name = _COUNTED_AS.get(each.state, "failed")
        counts[name] = counts.get(name, 0) + 1
    return TaskCounts(**counts)


def wait_until_over(
    store: PersistenceAPI,
    run: RunnerDefinition,
    told: Callable[[TaskCounts], object],
    timeout: float | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> bool:
    """Wait for the end of a run, and tell how far it has come whenever that has changed.

    False if it is not over after `timeout` seconds.
    """
    run_id = WorkflowId(run.workflow_id)
    ends_at = None if timeout is None else clock.monotonic() + timeout
    last: TaskCounts | None = None
    while True:
        began = clock.monotonic()
        counts = task_counts(store, run)
        if counts != last:
            told(counts)
        last = counts
        # A large run takes long to count: most of the time must be left for its work.
        pause = max(_REFRESH_S, _SHARE * (clock.monotonic() - began))
        left = None if ends_at is None else max(ends_at - clock.monotonic(), 0)
        if store.wait_for_run(run_id, pause if left is None else min(pause, left)):
            return True
        if left is not None and left <= pause:
            return False


# Its log


@dataclass(frozen=True)
class LogLine:
    time: datetime | None
    #: info, warning or error.
    level: str
    #: workflow or agent.
    originator: str
    message: str
    step: str | None
    details: dict[str, Any]


class LogReader:
    """The log of a run, from its beginning; each line once."""

    def __init__(self, store: PersistenceAPI, run: RunnerDefinition) -> None:
        self._store = store
        self._run = run
        self._seen: set[str] = set()

    def news(self) -> list[LogLine]:
        """The lines that have come since the last time."""
        logs = self._store.get_logs_by_runner(self._run.uuid)
        # By id: lines of other processes may come to stand before those that were read.
        fresh = [each for each in logs if each.uuid not in self._seen]
        self._seen.update(each.uuid for each in fresh)
        return [_line(each) for each in fresh]

    def follow(self) -> Iterator[LogLine]:
        """The lines as they come, until the run is over."""
        yield from self.news()
        is_over = False
        while not is_over:
            # Asked before reading: what is written until the end is read once more.
            is_over = self._store.wait_for_run(WorkflowId(self._run.workflow_id), _LOOK_S)
            yield from self.news()


def _line(log: LogDefinition) -> LogLine:
    return LogLine(
        moment(log.time),
        str(log.note_type),
        str(log.note_originator),
        log.message,
        log.step_id,
        log.details,
    )
