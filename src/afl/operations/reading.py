"""What people and programs are shown of runs. Nothing here changes anything.

Times are datetimes in UTC. A list of runs reads their records only; a single run is read whole.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from afl.errors import UsageError
from afl.operations.finding import SHORTEST
from afl.operations.paging import from_cursor
from afl.runtime.entities import (
    LogDefinition,
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.listing import RunQuery
from afl.runtime.names import short_name
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import AttributeValue, WorkflowId

#: Ids that may begin with a text that is looked for.
_IDS = 1000
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


@dataclass(frozen=True)
class RunPage:
    """Some runs of a list, newest first."""

    runs: tuple[RunSummary, ...]
    #: What gives the next page; None if this is the last one.
    cursor: str | None


def run_page(
    store: PersistenceAPI,
    *,
    state: str | None = None,
    workflow: str | None = None,
    text: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> RunPage:
    """The newest runs that fit, from a cursor on. `workflow` is a qualified or a short name;
    `text` the beginning of one, or of the id of a run.

    Raises UsageError for a state that no run can have, and for a cursor that is none.
    """
    if state is not None:
        require_state(state, RunnerState)
    query = _query(store, state, workflow, text)
    with from_cursor(cursor):
        page = store.list_runs(query, limit, cursor)
    now = store.now_ms()
    runs = tuple(summary(each, now) for each in page.items)
    return RunPage(runs, page.cursor if page.has_more else None)


def _query(
    store: PersistenceAPI, state: str | None, workflow: str | None, text: str | None
) -> RunQuery:
    if workflow is None and not text:
        return RunQuery(state)
    names = store.list_run_workflows()
    if workflow is not None:
        names = [each for each in names if workflow in (each, short_name(each))]
    if not text:
        return RunQuery(state, tuple(names))
    begun = tuple(each for each in names if _begins(each, text))
    ids = _ids(store, text)
    if workflow is not None:
        # Either all runs of a workflow fit by its name, or some by their ids.
        ids = () if begun else tuple(each for each in ids if _is_of(store, each, names))
    return RunQuery(state, begun, ids)


def _begins(name: str, text: str) -> bool:
    return any(each.casefold().startswith(text.casefold()) for each in (name, short_name(name)))


def _ids(store: PersistenceAPI, text: str) -> tuple[str, ...]:
    return tuple(store.find_run_ids(text, _IDS)) if len(text) >= SHORTEST else ()


def _is_of(store: PersistenceAPI, run_id: str, workflows: Sequence[str]) -> bool:
    run = store.get_run(WorkflowId(run_id))
    return run is not None and run.workflow.name in workflows


def list_runs(
    store: PersistenceAPI,
    *,
    state: str | None = None,
    workflow: str | None = None,
    limit: int = 50,
) -> list[RunSummary]:
    """The runs of the first page alone."""
    return list(run_page(store, state=state, workflow=workflow, limit=limit).runs)


def require_state(state: str, states: type[RunnerState] | type[TaskState]) -> None:
    known = [each.value for each in states]
    if state not in known:
        raise UsageError(f"there is no state '{state}'; use one of {', '.join(known)}")


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
    #: How often its task was handed out, and not given back.
    attempts: int
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    error: dict[str, Any] | None
    #: The state of its task, if it has one.
    task: str | None
    #: The step that this one is in; None for the workflow itself.
    parent: str | None
    #: The statement of the program that it does; rounds of a loop have the same one.
    statement: str | None
    started: datetime | None
    #: None as long as it goes on.
    ended: datetime | None
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
    root = tree_of(step_view(each, tasks.get(each.id)) for each in steps)
    shown = summary(run, store.now_ms())
    if root is not None and run.is_over:
        root = replace(root, ended=shown.ended)
    return RunDetail(
        shown,
        {each.name: each.value for each in run.parameters},
        {} if root is None else root.outputs,
        root,
    )


def step_view(step: StepDefinition, task: TaskDefinition | None) -> StepView:
    """A step by itself, without those inside it."""
    error = _error(step)
    state = _state(step, task, error)
    is_over = state not in ("waiting", "running")
    return StepView(
        step.id,
        step.name,
        str(step.object_type),
        step.facet_name,
        state,
        0 if task is None else attempts(task),
        _values(step.attributes.params),
        _values(step.attributes.returns),
        error,
        None if task is None else str(task.state),
        step.block_id or step.container_id,
        step.statement_id,
        moment(step.timestamp or 0),
        moment((task.updated if task is not None else step.timestamp) or 0) if is_over else None,
    )


def tree_of(steps: Iterable[StepView]) -> StepView | None:
    """The steps of a run inside each other; None if there is none without a parent.

    A step with others inside ends with the last of them: nobody notes when.
    """
    below: dict[str | None, list[StepView]] = {}
    for each in steps:
        below.setdefault(each.parent, []).append(each)

    def grown(step: StepView) -> StepView:
        inside = tuple(map(grown, below.get(step.step, ())))
        if not inside:
            return step
        ends = [each.ended for each in (step, *inside) if each.ended is not None]
        return replace(step, steps=inside, ended=max(ends) if step.ended else None)

    roots = below.get(None, [])
    return grown(roots[0]) if roots else None


@dataclass(frozen=True)
class TimelineRow:
    """A step of a run as a bar: who, how deep inside, from when to when."""

    step: str
    name: str
    facet: str
    depth: int
    state: str
    started: datetime | None
    ended: datetime | None


def timeline(root: StepView) -> Iterator[TimelineRow]:
    """The bars of a step and of all inside it, in reading order."""
    yield from _bars(root, 0)


def _bars(step: StepView, depth: int) -> Iterator[TimelineRow]:
    yield TimelineRow(step.step, step.name, step.facet, depth, step.state, step.started, step.ended)
    for each in step.steps:
        yield from _bars(each, depth + 1)


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
    """How often a task was handed out in its present life, and not given back. Whether a handler
    began with it each time, nobody wrote down."""
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
    """The log of a run, from its beginning; each line once, in the order of their arrival."""

    def __init__(self, store: PersistenceAPI, run: RunnerDefinition) -> None:
        self._store = store
        self._run = run
        self._cursor: str | None = None

    def news(self) -> list[LogLine]:
        """The lines that have come since the last time."""
        lines: list[LogLine] = []
        has_more = True
        while has_more:
            page = self._store.list_logs(self._run.uuid, cursor=self._cursor)
            self._cursor, has_more = page.cursor, page.has_more
            lines += map(_line, page.items)
        return lines

    def follow(self, stop: threading.Event | None = None) -> Iterator[LogLine]:
        """The lines as they come, until the run is over or `stop` is set."""
        run_id, record = WorkflowId(self._run.workflow_id), WorkflowId(self._run.uuid)
        while True:
            # Asked in this order: what is written until the end is read once more.
            seen = self._store.changes_seen(record)
            is_over = self._store.wait_for_run(run_id, 0)
            yield from self.news()
            if is_over or (stop is not None and stop.is_set()):
                return
            self._store.wait_for_change(record, seen, stop=stop)


def _line(log: LogDefinition) -> LogLine:
    return LogLine(
        moment(log.time),
        str(log.note_type),
        str(log.note_originator),
        log.message,
        log.step_id,
        log.details,
    )
