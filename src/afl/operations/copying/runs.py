"""Runs with all that is theirs: steps, events, lines of logs, and tasks that are over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from afl.operations.copying.listing import Head, pages_of, some_at_once
from afl.operations.copying.progress import Pace, Part, PartReport, facts_of
from afl.operations.copying.tasks import TaskCopy
from afl.runtime.entities import (
    EVENT_DATA,
    EventDefinition,
    LogDefinition,
    RunnerDefinition,
    TaskDefinition,
)
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.runtime.rows.steps import COLUMNS, row_of
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, StepId, WorkflowId


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
        #: A run may have several records; its work is there once.
        done: set[str] = set()
        for each in heads:
            self._copy_record(each)
            if each.workflow_id not in done:
                done.add(each.workflow_id)
                self._copy_work(each)
            for runner_id in sorted({each.uuid, each.workflow_id}):
                self._copy_logs(runner_id)
            self._pace.went_on(1)

    def _copy_record(self, head: Head) -> None:
        run = self._source.get_runner(head.uuid)
        if run is not None:  # else it is gone, which shows in the end
            self._runs.bring({run.uuid: run}, self._found_runs, self._add_runs, facts_of)

    def _found_runs(self, ids: Sequence[str]) -> dict[str, RunnerDefinition]:
        found = map(self._target.get_runner, ids)
        return {each.uuid: each for each in found if each is not None}

    def _add_runs(self, runs: Sequence[RunnerDefinition]) -> None:
        self._target.commit(IterationChanges(created_runs=list(runs)))

    def _copy_work(self, head: Head) -> None:
        workflow_id = WorkflowId(head.workflow_id)
        self._copy_steps(workflow_id)
        of_run = self._source.get_tasks_by_runner(head.uuid)
        self._tasks.copy([task for task in of_run if task.is_over])
        self._copy_events(workflow_id, of_run)

    # Steps

    def _copy_steps(self, workflow_id: WorkflowId) -> None:
        list_page = partial(self._source.list_steps, workflow_id)
        for some in some_at_once(pages_of(lambda cursor: list_page(cursor=cursor))):
            given = {str(each.id): each for each in some}
            self._steps.bring(given, self._found_steps, self._add_steps, _facts_of_step)
            self._pace.went_on(0)

    def _found_steps(self, ids: Sequence[str]) -> dict[str, StepDefinition]:
        found = self._target.changed_steps({StepId(each): -1 for each in ids})
        return {each.id: each for each in found}

    def _add_steps(self, steps: Sequence[StepDefinition]) -> None:
        self._target.commit(IterationChanges(created_steps=list(steps)))

    # Events that other code keeps; the others are tasks

    def _copy_events(self, workflow_id: WorkflowId, tasks: Sequence[TaskDefinition]) -> None:
        of_tasks = {each.uuid for each in tasks if each.data_type == EVENT_DATA}
        found = self._source.get_events_by_workflow(workflow_id)
        kept = {str(each.id): each for each in found if each.id not in of_tasks}
        self._events.bring(kept, self._found_events, self._add_events, facts_of)

    def _found_events(self, ids: Sequence[str]) -> dict[str, EventDefinition]:
        found = (self._target.get_event(EventId(each)) for each in ids)
        return {each.id: each for each in found if each is not None}

    def _add_events(self, events: Sequence[EventDefinition]) -> None:
        self._target.commit(IterationChanges(created_events=list(events)))

    # Logs

    def _copy_logs(self, runner_id: str) -> None:
        def found(_ids: Sequence[str]) -> dict[str, LogDefinition]:
            return self._lines(self._target, runner_id)

        self._logs.bring(self._lines(self._source, runner_id), found, self._add_lines, facts_of)

    def _lines(self, store: PersistenceAPI, runner_id: str) -> dict[str, LogDefinition]:
        lines = pages_of(lambda cursor: store.list_logs(runner_id, cursor=cursor))
        return {each.uuid: each for each in lines}

    def _add_lines(self, lines: Sequence[LogDefinition]) -> None:
        for some in some_at_once(lines):
            self._target.commit(IterationChanges(logs=list(some)))
            self._pace.went_on(0)


def _facts_of_step(step: StepDefinition) -> dict[str, Any]:
    return dict(zip(COLUMNS, row_of(step), strict=True))
