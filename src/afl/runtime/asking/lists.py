"""Lists, counts, and ids by their beginnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from afl.runtime.asking.access import R, R_contra, Reading
from afl.runtime.entities import LogDefinition, RunnerDefinition, TaskDefinition
from afl.runtime.listing import COUNTED, Count, Page, Queue, RunQuery, TaskQuery
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId


class Lists(Protocol[R_contra]):
    def runs(
        self, reader: R_contra, query: RunQuery, limit: int, cursor: str | None, /
    ) -> Page[RunnerDefinition]: ...

    def count_runs(self, reader: R_contra, limit: int, /) -> dict[str, Count]: ...

    def run_workflows(self, reader: R_contra, /) -> list[str]: ...

    def run_ids(self, reader: R_contra, prefix: str, limit: int, /) -> list[str]: ...

    def tasks(
        self, reader: R_contra, query: TaskQuery, limit: int, cursor: str | None, /
    ) -> Page[TaskDefinition]: ...

    def count_tasks(self, reader: R_contra, limit: int, /) -> dict[str, Count]: ...

    def queues(self, reader: R_contra, limit: int, /) -> list[Queue]: ...

    def task_ids(self, reader: R_contra, prefix: str, limit: int, /) -> list[str]: ...

    def changed_tasks(
        self, reader: R_contra, known: Mapping[str, int], /
    ) -> list[TaskDefinition]: ...

    def steps(
        self, reader: R_contra, workflow_id: WorkflowId, limit: int, cursor: str | None, /
    ) -> Page[StepDefinition]: ...

    def changed_steps(
        self, reader: R_contra, known: Mapping[StepId, int], /
    ) -> list[StepDefinition]: ...

    def logs(
        self, reader: R_contra, runner_id: str, limit: int, cursor: str | None, /
    ) -> Page[LogDefinition]: ...


class AskedLists(Reading[R]):
    _lists: Lists[R]

    def list_runs(
        self, query: RunQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[RunnerDefinition]:
        return self._read(self._lists.runs, query, limit, cursor)

    def count_runs(self, limit: int = COUNTED) -> dict[str, Count]:
        return self._read(self._lists.count_runs, limit)

    def list_run_workflows(self) -> list[str]:
        return self._read(self._lists.run_workflows)

    def find_run_ids(self, prefix: str, limit: int = 10) -> list[str]:
        return self._read(self._lists.run_ids, prefix, limit)

    def list_tasks(
        self, query: TaskQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[TaskDefinition]:
        return self._read(self._lists.tasks, query, limit, cursor)

    def count_tasks(self, limit: int = COUNTED) -> dict[str, Count]:
        return self._read(self._lists.count_tasks, limit)

    def list_queues(self, limit: int = COUNTED) -> list[Queue]:
        return self._read(self._lists.queues, limit)

    def find_task_ids(self, prefix: str, limit: int = 10) -> list[str]:
        return self._read(self._lists.task_ids, prefix, limit)

    def changed_tasks(self, known: Mapping[str, int]) -> list[TaskDefinition]:
        return self._read(self._lists.changed_tasks, known)

    def list_steps(
        self, workflow_id: WorkflowId, limit: int = 1000, cursor: str | None = None
    ) -> Page[StepDefinition]:
        return self._read(self._lists.steps, workflow_id, limit, cursor)

    def changed_steps(self, known: Mapping[StepId, int]) -> list[StepDefinition]:
        return self._read(self._lists.changed_steps, known)

    def list_logs(
        self, runner_id: str, limit: int = 1000, cursor: str | None = None
    ) -> Page[LogDefinition]:
        return self._read(self._lists.logs, runner_id, limit, cursor)
