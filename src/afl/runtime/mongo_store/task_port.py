"""Tasks and their claims, as the port has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afl.db.mongo import Reader, Transaction
from afl.runtime.asking.tasks import AskedTasks
from afl.runtime.asking.topics import work_topic
from afl.runtime.entities import TaskDefinition
from afl.runtime.mongo_store import queue, tasks
from afl.runtime.mongo_store.access import Access
from afl.runtime.mongo_store.holding import Holding
from afl.runtime.persistence import DEFAULT_LEASE_MS, DEFAULT_TASK_LIST, Claim


class TaskPort(AskedTasks[Reader], Access):
    _tasks = tasks

    def save_task(self, task: TaskDefinition) -> None:
        self._write(_save_task, task)

    def update_task_state(self, task_id: str, state: str) -> bool:
        return self._write(_change_state, task_id, state)

    # Claims, renewals and releases change single documents, and wait for no decision of this
    # process.

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
        claimant = queue.Claimant(owner or self.owner, lease_ms)

        def claim(reader: Reader) -> list[TaskDefinition]:
            if is_told:
                return queue.claim_new(reader, wanted, limit, claimant, self._now)
            return queue.claim(reader, wanted, limit, claimant, self._now)

        return self._unhindered(claim)

    def extend_leases(
        self, claims: Sequence[Claim], lease_ms: int = DEFAULT_LEASE_MS
    ) -> list[bool]:
        return self._change(tasks.extend, claims, lease_ms, self._now)

    def release_task(self, claim: Claim, *, not_before: int = 0) -> bool:
        task = self._change(tasks.release, claim, not_before, self._now)
        if task is not None:
            self.database.bell.nudge(work_topic(task.task_list_name))
        return task is not None

    def _work(self, names: Sequence[str], task_list: str) -> tuple[str, Callable[[Reader], float]]:
        wanted = queue.Wanted.of(names, task_list)
        return work_topic(task_list), lambda reader: queue.seconds_left(reader, wanted, self._now)


def _save_task(tx: Transaction, task: TaskDefinition) -> None:
    Holding(tx).hold([task.workflow_id])
    tasks.save(tx, task)


def _change_state(tx: Transaction, task_id: str, state: str) -> bool:
    found = tasks.get(tx, task_id)
    if found is None:
        return False
    Holding(tx).hold([found.workflow_id])
    return tasks.change_state(tx, task_id, state)
