"""Decisions about runs: made on the store, one commit each, and what follows the commit.

Results of tasks that wait together are decided together, run by run: a hundred results of one
foreach read and write its counters once, not a hundred times. Nothing waits for company: who comes
while a decision is on its way to the store joins it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from afl.clock import Clock
from afl.errors import StoreClosed, StoreUnavailable
from afl.log import get_logger
from afl.runtime.claims import NextClaim
from afl.runtime.context import ExecutionContext, require_run
from afl.runtime.entities import RunnerDefinition, TaskDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.persistence import IterationChanges, Transactions, View
from afl.runtime.plan import Plan
from afl.runtime.progress import run_agenda
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.values import ValueCache
from afl.telemetry import Telemetry

T = TypeVar("T")

_log = get_logger(__name__)

#: What a decision about a run does with its context.
Act = Callable[[ExecutionContext], T]


class Pending(Protocol):
    """A result of a task on its way."""

    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> list[TaskDefinition]:
        """Wait for the commit; then do, once, what follows it: on this thread, not on one that
        others wait for. The tasks that were claimed in it. Raises what the decision raised."""


@dataclass(frozen=True)
class Settings:
    """What contexts are told about the evaluator they belong to."""

    owner: str
    max_depth: int
    runs_scripts: bool


class Decisions:
    """Makes decisions on a store. `do_script` does the scripts that a commit asks for."""

    def __init__(
        self,
        store: Transactions,
        settings: Settings,
        telemetry: Telemetry,
        clock: Clock,
        do_script: Callable[[TaskDefinition], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock
        self._do_script = do_script
        self._values = ValueCache()
        # Reentrant: a store may decide on the thread that asks it to.
        self._lock = threading.RLock()
        #: Results that the next decision about their run will take along.
        self._waiting: dict[WorkflowId, _Group] = {}

    def context(self, view: View, run: RunnerDefinition, plan: Plan) -> ExecutionContext:
        return ExecutionContext(
            view,
            run,
            plan,
            self._values,
            max_depth=self._settings.max_depth,
            runs_scripts=self._settings.runs_scripts,
            owner=self._settings.owner,
            is_heard=self._telemetry.is_heard,
        )

    def about_run(self, workflow_id: WorkflowId, plan: Plan, act: Act[T]) -> T:
        """Decide alone, and wait for it."""
        made: list[ExecutionContext] = []

        def decision(view: View) -> tuple[IterationChanges, T]:
            context = self.context(view, require_run(view, workflow_id), plan)
            answered = act(context)
            run_agenda(context)
            made[:] = [context]
            return context.finished_changes(), answered

        answered = self._store.decide(decision)
        self.follow(made[0])
        return answered

    def about_task(
        self, task: TaskDefinition, plan: Plan, act: Act[None], claim: NextClaim | None = None
    ) -> Pending:
        """Decide together with other results of the run. `act` raises StaleFence before it has
        changed anything, or not at all."""
        workflow_id = WorkflowId(task.workflow_id)
        with self._lock:
            group = self._waiting.get(workflow_id)
            if group is not None:
                return group.join(task, act, claim)
            group = self._waiting[workflow_id] = _Group(self, workflow_id, plan)
            result = group.join(task, act, claim)
            try:
                group.future = self._store.decide_later(group.decide)
            except BaseException:
                self.close(group)
                raise
            return result

    def follow(self, context: ExecutionContext) -> None:
        """What follows a commit: tell the world, and do the scripts that it asks for."""
        context.publish()
        if self._telemetry.is_heard:
            at = self._clock.now()
            for kind, facts in context.told:
                self._telemetry.emit(kind(at=at, **facts))
        for task in context.scripts:
            try:
                self._do_script(task)
            except StaleFence as lost:
                # Cancelled, or done by somebody else: not the affair of whoever waits here.
                _log.warning("late_result_dropped", task=task.uuid, reason=str(lost))

    def close(self, group: _Group) -> None:
        """Nobody may join any more."""
        with self._lock:
            if self._waiting.get(group.workflow_id) is group:
                del self._waiting[group.workflow_id]

    def follow_once(self, context: ExecutionContext) -> None:
        """Results that were decided together have one context, and its end is followed once."""
        with self._lock:
            is_first, context.is_followed = not context.is_followed, True
        if is_first:
            self.follow(context)


class _Group:
    """Results that are decided together: of one run, and in one commit."""

    def __init__(self, decisions: Decisions, workflow_id: WorkflowId, plan: Plan) -> None:
        self._decisions = decisions
        self.workflow_id = workflow_id
        self._plan = plan
        self._results: list[_Result] = []
        self.future: Future[ExecutionContext] = Future()

    def join(self, task: TaskDefinition, act: Act[None], claim: NextClaim | None) -> _Result:
        result = _Result(self, task, act, claim)
        self._results.append(result)
        return result

    def decide(self, view: View) -> tuple[IterationChanges, ExecutionContext]:
        """The decision for all. It may be run again, with the same results."""
        self._decisions.close(self)
        run = require_run(view, self.workflow_id)
        context = self._decisions.context(view, run, self._plan)
        if len(self._results) > 1:
            _prefetch(context, self._results)
        for each in self._results:
            each.refusal, context.next_claim, context.claimed = None, each.claim, []
            try:
                each.act(context)
            except StaleFence as refusal:
                each.refusal = refusal
            run_agenda(context)
            each.claimed = context.claimed
        return context.finished_changes(), context

    def settle(self, result: _Result, timeout: float | None) -> list[TaskDefinition]:
        try:
            context = self.future.result(timeout)
        except (StoreClosed, StoreUnavailable, TimeoutError):
            raise
        except Exception:
            if len(self._results) == 1:
                raise
            # A defect, perhaps of another: each tries alone.
            self._decisions.about_run(self.workflow_id, self._plan, result.act)
            return []
        self._decisions.follow_once(context)
        if result.refusal is not None:
            raise result.refusal
        return result.claimed


@dataclass(eq=False, slots=True)
class _Result:
    group: _Group
    task: TaskDefinition
    act: Act[None]
    claim: NextClaim | None = None
    refusal: StaleFence | None = None
    claimed: list[TaskDefinition] = field(default_factory=list)

    def done(self) -> bool:
        return self.group.future.done()

    def result(self, timeout: float | None = None) -> list[TaskDefinition]:
        return self.group.settle(self, timeout)


def _prefetch(context: ExecutionContext, results: Sequence[_Result]) -> None:
    """Read at once what all of them need: tasks, steps, and the blocks of those."""
    context.prefetch_tasks([each.task.uuid for each in results])
    steps = [StepId(each.task.step_id) for each in results]
    context.prefetch(dict.fromkeys(steps))
    blocks: dict[Any, None] = {}
    for each in steps:
        step = context.step(each)
        if step is not None and step.block_id is not None:
            blocks[StepId(step.block_id)] = None
    context.prefetch(blocks)
