"""Tasks, without their claims: each kind of database has its own way for those."""

from __future__ import annotations

from typing import Protocol

from afl.runtime.asking.access import R, R_contra, Reading
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import DEFAULT_TASK_LIST


class Tasks(Protocol[R_contra]):
    def get(self, reader: R_contra, task_id: str, /) -> TaskDefinition | None: ...

    def pending(self, reader: R_contra, task_list: str, /) -> list[TaskDefinition]: ...

    def newest(self, reader: R_contra, limit: int, /) -> list[TaskDefinition]: ...

    def by_runner(self, reader: R_contra, runner_id: str, /) -> list[TaskDefinition]: ...

    def by_state(self, reader: R_contra, state: str, limit: int, /) -> list[TaskDefinition]: ...


class AskedTasks(Reading[R]):
    _tasks: Tasks[R]

    def get_task(self, task_id: str) -> TaskDefinition | None:
        return self._read(self._tasks.get, task_id)

    def get_pending_tasks(self, task_list: str = DEFAULT_TASK_LIST) -> list[TaskDefinition]:
        return self._read(self._tasks.pending, task_list)

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        return self._read(self._tasks.newest, limit)

    def get_tasks_by_runner(self, runner_id: str) -> list[TaskDefinition]:
        return self._read(self._tasks.by_runner, runner_id)

    def get_tasks_by_state(self, state: str, limit: int = 100) -> list[TaskDefinition]:
        return self._read(self._tasks.by_state, state, limit)
