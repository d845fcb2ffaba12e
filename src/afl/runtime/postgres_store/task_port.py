"""Tasks and their claims, as the port has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afl.db.postgres import Reader
from afl.errors import Conflict
from afl.runtime.asking.tasks import AskedTasks
from afl.runtime.asking.topics import work_topic
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import DEFAULT_LEASE_MS, DEFAULT_TASK_LIST, Claim
from afl.runtime.postgres_store import queue, tasks
from afl.runtime.postgres_store.access import Access

_ATTEMPTS = 5


class TaskPort(AskedTasks[Reader], Access):
    _tasks = tasks

    def save_task(self, task: TaskDefinition) -> None:
        self._write(tasks.save, task)

    def update_task_state(self, task_id: str, state: str) -> bool:
        return self._write(tasks.change_state, task_id, state)

    # Claims and renewals are one statement each, and wait for no decision of this process.

    def claim_tasks(
        self,
        task_names: Sequence[str],
        limit: int,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        owner: str | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        is_told: bool = False,
        is_durable: bool = False,  # noqa: ARG002 - as all claims here
    ) -> list[TaskDefinition]:
        wanted = queue.Wanted.of(task_names, task_list)
        given = queue.given(wanted, limit, owner or self.owner, lease_ms, self._told())
        for _ in range(_ATTEMPTS):
            try:
                return self._read(queue.claim, wanted, given, is_told=is_told)
            except Conflict:
                continue  # somebody took another task of the same step in the same moment
        return []

    def extend_leases(
        self, claims: Sequence[Claim], lease_ms: int = DEFAULT_LEASE_MS
    ) -> list[bool]:
        return self._read(tasks.extend, claims, lease_ms, self._told())

    def release_task(self, claim: Claim, *, not_before: int = 0) -> bool:
        return self._write(tasks.release, claim, not_before)

    def _work(self, names: Sequence[str], task_list: str) -> tuple[str, Callable[[Reader], float]]:
        wanted = queue.Wanted.of(names, task_list)
        return work_topic(task_list), lambda reader: queue.seconds_left(
            reader, wanted, self._told()
        )
