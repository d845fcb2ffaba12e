"""Which tasks of a memory table can be claimed, in which order, and when the next one can.

Each question looks only at tasks with the names asked for: those that are ready, those whose time
has come, and those whose lease has lapsed.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from afl.runtime.entities import OPEN_TASK_STATES, TaskDefinition, TaskState
from afl.runtime.memory_store.table import Index, Journal, Table, by
from afl.runtime.names import is_short

Tasks = Table[TaskDefinition]


class Wanted(NamedTuple):
    """The queues that a worker asks: of its names, and of the tasks that its short names fit."""

    exact: list[Hashable]
    short: list[Hashable]

    @classmethod
    def of(cls, names: Iterable[str], task_list: str) -> Wanted:
        known = sorted(set(names))
        return cls(
            [(task_list, each) for each in known],
            [(task_list, each, "short") for each in known if is_short(each)],
        )


def task_table(journal: Journal) -> Tasks:
    return Table(
        journal,
        lambda task: task.uuid,
        runner=by("runner_id"),
        state=by("state"),
        workflow=by("workflow_id"),
        open=Index(lambda task: (task.workflow_id,) if task.state in OPEN_TASK_STATES else ()),
        pending=Index(lambda task: (task.task_list_name,) if _is_pending(task) else ()),
        queue=Index(
            lambda task: ((task.task_list_name, task.name),) if _is_pending(task) else (),
        ),
        running_of=Index(lambda task: (task.step_id,) if _is_running(task) else ()),
        # The queues.
        ready=Index(
            lambda task: _queues(task) if _is_pending(task) and not task.not_before else ()
        ),
        retries=Index(
            lambda task: _queues(task) if _is_pending(task) and task.not_before else (),
            rank=lambda task: task.not_before,
        ),
        # A lease holds from its beginning to its end. Before its beginning the clock was set back.
        lease_ends=Index(
            lambda task: _queues(task) if _is_running(task) else (),
            rank=lambda task: task.lease_expires,
        ),
        lease_begins=Index(
            lambda task: _queues(task) if _is_running(task) else (),
            rank=lambda task: task.lease_expires - task.lease_ms,
        ),
    )


def has_other_running(tasks: Tasks, task: TaskDefinition) -> bool:
    """Whether another task of its step is running. Tasks without a step do not count."""
    if not task.step_id:
        return False
    return any(each.uuid != task.uuid for each in tasks.scan("running_of", task.step_id))


def claimable(tasks: Tasks, wanted: Wanted, now: int) -> Iterator[TaskDefinition]:
    """Tasks that may be handed out, in their order, at most one of each step.

    The table must not change before the last one was taken.
    """
    seen: set[str] = set()
    steps: set[str] = set()
    for task in _in_order(tasks, wanted, now):
        if task.uuid in seen or task.step_id in steps or has_other_running(tasks, task):
            continue
        seen.add(task.uuid)
        if task.step_id:
            steps.add(task.step_id)
        yield task


def next_time(tasks: Tasks, wanted: Wanted, now: int) -> float:
    """When a task that cannot be claimed now may become claimable by itself; perhaps never."""
    return min(
        (
            tasks.next_rank(index, queue, above=now)
            for queue in wanted.exact + wanted.short
            for index in ("retries", "lease_ends")
        ),
        default=float("inf"),
    )


def _is_pending(task: TaskDefinition) -> bool:
    return task.state == TaskState.PENDING


def _is_running(task: TaskDefinition) -> bool:
    return task.state == TaskState.RUNNING


def _queues(task: TaskDefinition) -> tuple[Hashable, ...]:
    if task.held:
        return ()
    exact = (task.task_list_name, task.name)
    if is_short(task.name):
        return (exact,)
    return exact, (task.task_list_name, task.short_name, "short")


def _in_order(tasks: Tasks, wanted: Wanted, now: int) -> Iterator[TaskDefinition]:
    queues = wanted.exact + wanted.short
    yield from sorted(_each(tasks, "retries", queues, to=now), key=tasks.number)
    for queues in wanted:
        ready = [tasks.scan("ready", queue) for queue in queues]
        lapsed = [
            *_each(tasks, "lease_ends", queues, to=now),
            *_each(tasks, "lease_begins", queues, above=now),
        ]
        yield from heapq.merge(*ready, sorted(lapsed, key=tasks.number), key=tasks.number)


def _each(
    tasks: Tasks,
    index: str,
    queues: list[Hashable],
    above: float = float("-inf"),
    to: float = float("inf"),
) -> Iterator[TaskDefinition]:
    for queue in queues:
        yield from tasks.scan(index, queue, above, to)
