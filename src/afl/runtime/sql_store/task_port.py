"""Tasks and their claims, as the port has them."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from afl.db.sqlite import Reader, Transaction
from afl.runtime.asking.tasks import AskedTasks
from afl.runtime.asking.topics import work_topic
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import DEFAULT_LEASE_MS, DEFAULT_TASK_LIST, Claim
from afl.runtime.sql_store import queue, tasks
from afl.runtime.sql_store.access import Access


class TaskPort(AskedTasks[Reader], Access):
    _tasks = tasks

    def save_task(self, task: TaskDefinition) -> None:
        self._write(tasks.save, task)

    # The time is asked inside each write: its turn may come late, and leases begin then.

    def update_task_state(self, task_id: str, state: str) -> bool:
        return self._write(lambda tx: tasks.change_state(tx, task_id, state, self.now_ms()))

    def claim_tasks(
        self,
        task_names: Sequence[str],
        limit: int,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        owner: str | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        is_told: bool = False,
        is_durable: bool = False,
    ) -> list[TaskDefinition]:
        holder = owner or self.owner

        def claim(tx: Transaction) -> list[TaskDefinition]:
            wanted = queue.Wanted.of(tx, task_names, task_list, self.now_ms())
            question = queue.WAITING if is_told else queue.CANDIDATES
            return queue.claim(tx, question, wanted, limit, holder, lease_ms)

        # Others are not flushed: a loss of power ends all who might hold one, and their tasks wait
        # again.
        return self._write(claim) if is_durable else self._write_lightly(claim)

    def extend_leases(
        self, claims: Sequence[Claim], lease_ms: int = DEFAULT_LEASE_MS
    ) -> list[bool]:
        return self._write(lambda tx: tasks.extend(tx, claims, self.now_ms(), lease_ms))

    def release_task(self, claim: Claim, *, not_before: int = 0) -> bool:
        return self._write(lambda tx: tasks.release(tx, claim, self.now_ms(), not_before))

    def wait_for_work(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        stop: threading.Event | None = None,
    ) -> bool:
        def seconds_left(reader: Reader) -> float:
            wanted = queue.Wanted.of(reader, names, task_list, self.now_ms())
            if queue.has_work(reader, wanted):
                return 0
            time = queue.next_time(reader, wanted)
            return math.inf if time is None else (time - wanted.now) / 1000

        return self._wait(work_topic(task_list), seconds_left, timeout, stop)
