"""Runs with all that is theirs: steps, events, lines of logs, and tasks that are over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from afl.operations.copying.listing import Head, some_at_once
from afl.operations.copying.progress import Pace, Part, PartReport, facts_of
from afl.operations.copying.tasks import TaskCopy
from afl.runtime.entities import (
    EVENT_DATA,
    EventDefinition,
    LogDefinition,
    RunnerDefinition,
)
from afl.runtime.listing import pages_of
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.runtime.rows.steps import COLUMNS, row_of
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, StepId, WorkflowId

#: Most runs are small: a commit for each of them would take longer than all else.
_RUNS_AT_ONCE = 50


class RunCopy:
    """`tasks` copies those that are over with their run. The others come last."""

    def __init__(
        self, source: PersistenceAPI, target: PersistenceAPI, tasks: TaskCopy, pace: Pace
    ) -> None:
        self._source = source
        self._target = target
        self._tasks = tasks
        self._pace = pace
        self._runs, self._steps = Part("run"), Part("step")
        self._events, self._logs = Part("event"), Part("log line")

    @property
    def reports(self) -> list[PartReport]:
        parts = (self._runs, self._steps, self._events, self._logs)
        return [each.report() for each in parts]

    def copy(self, heads: Sequence[Head]) -> None:
        self._pace.began("runs", len(heads))
        #: A run may have several records, each with tasks of its own; its steps are there once.
        done: set[str] = set()
        for some in some_at_once(heads, _RUNS_AT_ONCE):
            self._copy_records(some)
            new = dict.fromkeys(each.workflow_id for each in some if each.workflow_id not in done)
            done |= new.keys()
            self._copy_steps([WorkflowId(each) for each in new])
            self._copy_tasks(some)
            self._copy_events([WorkflowId(each) for each in new])
            self._copy_logs(sorted({each.uuid for each in some} | new.keys()))
            self._pace.went_on(len(some))

    def _copy_records(self, heads: Sequence[Head]) -> None:
        found = (self._source.get_runner(each.uuid) for each in heads)
        # Those that are gone show in the end.
        given = {each.uuid: each for each in found if each is not None}
        self._runs.bring(given, self._found_runs, self._add_runs, facts_of)

    def _found_runs(self, ids: Sequence[str]) -> dict[str, RunnerDefinition]:
        found = map(self._target.get_runner, ids)
        return {each.uuid: each for each in found if each is not None}

    def _add_runs(self, runs: Sequence[RunnerDefinition]) -> None:
        self._target.commit(IterationChanges(created_runs=list(runs)))

    # Steps

    def _copy_steps(self, workflow_ids: Sequence[WorkflowId]) -> None:
        for some in some_at_once(chain.from_iterable(map(self._steps_of, workflow_ids))):
            given = {str(each.id): each for each in some}
            self._steps.bring(given, self._found_steps, self._add_steps, _facts_of_step)
            self._pace.went_on(0)

    def _steps_of(self, workflow_id: WorkflowId) -> Iterator[StepDefinition]:
        return pages_of(lambda cursor: self._source.list_steps(workflow_id, cursor=cursor))

    def _found_steps(self, ids: Sequence[str]) -> dict[str, StepDefinition]:
        found = self._target.changed_steps({StepId(each): -1 for each in ids})
        return {each.id: each for each in found}

    def _add_steps(self, steps: Sequence[StepDefinition]) -> None:
        self._target.commit(IterationChanges(created_steps=list(steps)))

    # Tasks that are over, and events that other code keeps; the others are tasks

    def _copy_tasks(self, heads: Sequence[Head]) -> None:
        found = chain.from_iterable(self._source.get_tasks_by_runner(each.uuid) for each in heads)
        self._tasks.copy(each for each in found if each.is_over)

    def _copy_events(self, workflow_ids: Sequence[WorkflowId]) -> None:
        found = chain.from_iterable(map(self._source.get_events_by_workflow, workflow_ids))
        for some in some_at_once(found):
            tasks = self._source.changed_tasks({str(each.id): -1 for each in some})
            of_tasks = {each.uuid for each in tasks if each.data_type == EVENT_DATA}
            given = {str(each.id): each for each in some if each.id not in of_tasks}
            self._events.bring(given, self._found_events, self._add_events, facts_of)

    def _found_events(self, ids: Sequence[str]) -> dict[str, EventDefinition]:
        found = (self._target.get_event(EventId(each)) for each in ids)
        return {each.id: each for each in found if each is not None}

    def _add_events(self, events: Sequence[EventDefinition]) -> None:
        self._target.commit(IterationChanges(created_events=list(events)))

    # Logs

    def _copy_logs(self, runner_ids: Sequence[str]) -> None:
        def found(_ids: Sequence[str]) -> dict[str, LogDefinition]:
            return _lines(self._target, runner_ids)

        self._logs.bring(_lines(self._source, runner_ids), found, self._add_lines, facts_of)

    def _add_lines(self, lines: Sequence[LogDefinition]) -> None:
        for some in some_at_once(lines):
            self._target.commit(IterationChanges(logs=list(some)))
            self._pace.went_on(0)


def _facts_of_step(step: StepDefinition) -> dict[str, Any]:
    return dict(zip(COLUMNS, row_of(step), strict=True))


def _lines(store: PersistenceAPI, runner_ids: Sequence[str]) -> dict[str, LogDefinition]:
    def of(runner_id: str) -> Iterator[LogDefinition]:
        return pages_of(lambda cursor: store.list_logs(runner_id, cursor=cursor))

    return {each.uuid: each for each in chain.from_iterable(map(of, runner_ids))}
