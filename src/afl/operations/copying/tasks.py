"""Tasks. Claims stay behind: what somebody had in hand can be claimed again at the destination."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from afl.operations.copying.listing import AT_ONCE, Head, some_at_once
from afl.operations.copying.progress import Pace, Part, PartReport, facts_of
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.listing import TaskQuery, pages_of
from afl.runtime.persistence import IterationChanges, PersistenceAPI


class TaskCopy:
    def __init__(self, source: PersistenceAPI, target: PersistenceAPI, pace: Pace) -> None:
        self._source = source
        self._target = target
        self._pace = pace
        self._part = Part("task")
        self._done: set[str] = set()

    @property
    def report(self) -> PartReport:
        return self._part.report()

    def copy_waiting(self, ids: Sequence[str]) -> None:
        """Those that nobody has done, in this order, which is that of the queue."""
        self._pace.began("tasks", len(ids))
        for some in some_at_once(ids):
            found = self._source.changed_tasks(dict.fromkeys(some, -1))
            by_id = {each.uuid: each for each in found}
            self.copy([by_id[each] for each in some if each in by_id])
            self._pace.went_on(len(some))

    def copy_strays(self, heads: Iterable[Head]) -> None:
        """Those that were done and belong to no run, or to a record of one that is gone."""
        runs = {(each.uuid, each.workflow_id) for each in heads}
        query = TaskQuery(TaskState.COMPLETED)
        newest_first = pages_of(lambda cursor: self._source.list_tasks(query, AT_ONCE, cursor))
        strays = [e for e in newest_first if (e.runner_id, e.workflow_id) not in runs]
        self.copy(strays[::-1])

    def copy(self, tasks: Iterable[TaskDefinition]) -> None:
        for some in some_at_once(tasks):
            given = {each.uuid: unclaimed(each) for each in some if each.uuid not in self._done}
            self._part.bring(given, self._found, self._add, facts_of)
            # Those that are completed are seen once, with their run or without one.
            self._done.update(e.uuid for e in some if e.state != TaskState.COMPLETED)
            self._pace.went_on(0)

    def _found(self, ids: Sequence[str]) -> dict[str, TaskDefinition]:
        return {each.uuid: each for each in self._target.changed_tasks(dict.fromkeys(ids, -1))}

    def _add(self, tasks: Sequence[TaskDefinition]) -> None:
        self._target.commit(IterationChanges(created_tasks=list(tasks)))


def unclaimed(task: TaskDefinition) -> TaskDefinition:
    """As it is when nobody has it. A delivery that did not end counts, so that a task whose effect
    nobody knows is found; whoever had it has lost it."""
    if task.state != TaskState.RUNNING:
        return task
    return replace(
        task,
        state=TaskState.PENDING,
        owner="",
        lease_expires=0,
        lease_ms=0,
        fence=task.fence + 1,
        version=task.version + 1,
    )
