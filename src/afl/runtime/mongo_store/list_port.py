"""Lists, counts and changes, as the port has them."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping

from afl.runtime.entities import LogDefinition, RunnerDefinition, TaskDefinition
from afl.runtime.listing import COUNTED, Count, Page, Queue, RunQuery, TaskQuery
from afl.runtime.mongo_store import lists
from afl.runtime.mongo_store.access import Access
from afl.runtime.mongo_store.runs import run_topic
from afl.runtime.remote_access import LOOK_S
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId


class ListPort(Access):
    def list_runs(
        self, query: RunQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[RunnerDefinition]:
        return self._read(lists.runs, query, limit, cursor)

    def count_runs(self, limit: int = COUNTED) -> dict[str, Count]:
        return self._read(lists.count_runs, limit)

    def list_run_workflows(self) -> list[str]:
        return self._read(lists.run_workflows)

    def find_run_ids(self, prefix: str, limit: int = 10) -> list[str]:
        return self._read(lists.run_ids, prefix, limit)

    def list_tasks(
        self, query: TaskQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[TaskDefinition]:
        return self._read(lists.tasks, query, limit, cursor)

    def count_tasks(self, limit: int = COUNTED) -> dict[str, Count]:
        return self._read(lists.count_tasks, limit)

    def list_queues(self, limit: int = COUNTED) -> list[Queue]:
        return self._read(lists.queues, limit)

    def find_task_ids(self, prefix: str, limit: int = 10) -> list[str]:
        return self._read(lists.task_ids, prefix, limit)

    def changed_tasks(self, known: Mapping[str, int]) -> list[TaskDefinition]:
        return self._read(lists.changed_tasks, known)

    def list_steps(
        self, workflow_id: WorkflowId, limit: int = 1000, cursor: str | None = None
    ) -> Page[StepDefinition]:
        return self._read(lists.steps, workflow_id, limit, cursor)

    def changed_steps(self, known: Mapping[StepId, int]) -> list[StepDefinition]:
        return self._read(lists.changed_steps, known)

    def list_logs(
        self, runner_id: str, limit: int = 1000, cursor: str | None = None
    ) -> Page[LogDefinition]:
        return self._read(lists.logs, runner_id, limit, cursor)

    # Changes

    def changes_seen(self, workflow_id: WorkflowId) -> int:
        self._require_open()
        return self.database.bell.count(run_topic(workflow_id))

    def wait_for_change(
        self,
        workflow_id: WorkflowId,
        seen: int,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        while stop is None or not stop.is_set():
            patience = deadline - self._clock.monotonic()
            is_changed = self.changes_seen(workflow_id) != seen
            if is_changed or patience <= 0:
                return is_changed
            self.database.bell.wait(run_topic(workflow_id), seen, min(patience, LOOK_S), stop)
        return False
