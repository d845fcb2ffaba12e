"""Results of tasks that wait together, decided together and in one commit.

A batch takes along whatever comes until it is decided: results of one run share a context, so that
a hundred results of one foreach read and write its counters once; results of many runs are read and
written with a few statements for all. A result whose claim was lost is refused alone.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from afl.collector import collector_paused
from afl.runtime.claims import NextClaim
from afl.runtime.context import ExecutionContext
from afl.runtime.entities import RunnerDefinition, TaskDefinition
from afl.runtime.errors import RunNotFoundError, StaleFence
from afl.runtime.persistence import Claiming, IterationChanges, View
from afl.runtime.plan import Plan
from afl.runtime.progress import run_agenda
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

T = TypeVar("T")

#: What a decision about a run does with its context.
Act = Callable[[ExecutionContext], T]

#: The last one is what all contexts of a batch write.
NewContext = Callable[[View, RunnerDefinition, Plan, IterationChanges], ExecutionContext]

#: Others wait for the transaction, so it must not become endless.
_MOST_RESULTS = 256


@dataclass(eq=False, slots=True)
class Result:
    """The result of one task, on its way. Knows no group: a circle of the two would keep all
    that was decided in memory until the collector finds it."""

    task: TaskDefinition
    act: Act[None]
    claim: NextClaim | None = None
    refusal: StaleFence | None = None
    #: Tasks that it made possible, claimed along with it.
    claimed: list[TaskDefinition] = field(default_factory=list)
    #: Others that were claimed along with it, and how many of them are its own.
    others: Claiming | None = None
    share: int = 0

    def taken(self) -> list[TaskDefinition]:
        """All that was claimed along with it, once it is durable. Asked for once."""
        if self.others is not None:
            with suppress(IndexError):  # fewer were waiting
                for _ in range(self.share):
                    self.claimed.append(self.others.tasks.popleft())
        return self.claimed


class Group:
    """The results of one run in a batch."""

    def __init__(self, workflow_id: WorkflowId, plan: Plan) -> None:
        self.workflow_id = workflow_id
        self.plan = plan
        self.results: list[Result] = []
        self.context: ExecutionContext | None = None

    def decide(self, context: ExecutionContext) -> None:
        """May be done again, with another context and the same results."""
        self.context = context
        for each in self.results:
            each.refusal, context.next_claim, context.claimed = None, each.claim, []
            try:
                each.act(context)
            except StaleFence as refusal:
                each.refusal = refusal
            run_agenda(context)
            each.claimed = context.claimed
        context.finished_changes()


class Batch:
    """Results that share a commit. Safe from any thread."""

    def __init__(self, new_context: NewContext) -> None:
        self._new_context = new_context
        self._groups: dict[str, Group] = {}
        self._size = 0
        self._is_closed = False
        self._lock = threading.Lock()
        #: Done when all of it is durable.
        self.future: Future[None] = Future()

    @property
    def is_lone(self) -> bool:
        return self._size == 1

    def join(
        self, task: TaskDefinition, plan: Plan, act: Act[None], claim: NextClaim | None
    ) -> tuple[Group, Result] | None:
        """None if it is being decided already, or full, or if the store could not even begin."""
        with self._lock:
            if self._is_closed or self._size == _MOST_RESULTS or self.future.done():
                return None
            group = self._groups.get(task.workflow_id)
            if group is None:
                group = Group(WorkflowId(task.workflow_id), plan)
                self._groups[task.workflow_id] = group
            result = Result(task, act, claim)
            group.results.append(result)
            self._size += 1
            return group, result

    def close(self) -> None:
        """Nobody may join any more."""
        with self._lock:
            self._is_closed = True

    def decide(self, view: View) -> tuple[IterationChanges, None]:
        """The decision for all. It may be run again, with the same results."""
        self.close()
        for each in self._groups.values():
            each.context = None
        if self.is_lone:
            changes = self._decide_lone(view)
        else:
            with collector_paused():
                changes = self._decide_all(view)
        changes.claimings.extend(_claimings(self._groups.values()))
        return changes, None

    def _decide_all(self, view: View) -> IterationChanges:
        changes = IterationChanges()
        # In one order everywhere, so that two batches that lock rows never wait for each other.
        groups = [self._groups[key] for key in sorted(self._groups)]
        known = _Known(view, groups)
        for each in groups:
            run = known.runs.get(each.workflow_id)
            if run is not None:
                self._decide_one(each, self._new_context(view, run, each.plan, changes), known)
        return changes

    def _decide_lone(self, view: View) -> IterationChanges:
        changes, (group,) = IterationChanges(), self._groups.values()
        run, task = view.get_run_and_task(group.workflow_id, group.results[0].task.uuid)
        if run is not None:
            context = self._new_context(view, run, group.plan, changes)
            if task is not None:
                context.adopt_tasks([task])
            group.decide(context)
        return changes

    def _decide_one(self, group: Group, context: ExecutionContext, known: _Known) -> None:
        context.adopt(known.steps[group.workflow_id])
        context.adopt_tasks(known.tasks[group.workflow_id])
        group.decide(context)


def context_of(group: Group) -> ExecutionContext:
    """Where it was decided. Raises RunNotFoundError if its run was gone by then."""
    context = group.context
    if context is None:
        raise RunNotFoundError(group.workflow_id)
    return context


def _claimings(groups: Iterable[Group]) -> Iterable[Claiming]:
    """What may be claimed in the places that come free."""
    wanted: dict[NextClaim, Claiming] = {}
    for group in groups:
        for each in group.results:
            claim, each.others = each.claim, None
            if claim is None or claim.task_list is None:
                continue
            if group.context is None or each.refusal is not None:
                continue
            each.share = claim.limit - len(each.claimed)
            if each.share > 0:
                each.others = wanted.get(claim) or wanted.setdefault(claim, _claiming(claim))
                each.others.limit += each.share
    return wanted.values()


def _claiming(claim: NextClaim) -> Claiming:
    return Claiming(claim.names, claim.task_list or "", claim.owner, claim.lease_ms)


class _Known:
    """What the results of many runs need, read at once: runs, tasks, steps, and the blocks of
    those. What is missing, contexts read themselves."""

    def __init__(self, view: View, groups: Sequence[Group]) -> None:
        results = [result for group in groups for result in group.results]
        self.runs = view.get_runs([group.workflow_id for group in groups])
        self.tasks: defaultdict[str, list[TaskDefinition]] = defaultdict(list)
        for task in view.get_tasks([each.task.uuid for each in results]).values():
            self.tasks[task.workflow_id].append(task)
        self.steps: defaultdict[str, list[StepDefinition]] = defaultdict(list)
        steps = self._read(view, (each.task.step_id for each in results))
        ending = Counter(each.block_id for each in steps if each.block_id is not None)
        blocks = self._read(view, ending)
        # A block that ends with these results tells its parent.
        last = [each for each in blocks if each.pending <= ending[each.id]]  # type: ignore[index]
        self._read(view, (str(each.block_id or each.container_id) for each in last))

    def _read(self, view: View, ids: Iterable[str]) -> list[StepDefinition]:
        wanted = [StepId(each) for each in dict.fromkeys(ids)]
        found = list(view.get_steps(wanted).values()) if wanted else []
        for each in found:
            self.steps[each.workflow_id].append(each)
        return found
