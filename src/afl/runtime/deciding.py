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
from typing import Any, Generic, TypeVar

from afl.clock import Clock
from afl.errors import StoreClosed, StoreUnavailable
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

#: What a decision about a run does with its context.
Act = Callable[[ExecutionContext], T]


class Pending(Generic[T]):
    """A decision under way."""

    def __init__(self, future: Future[T], after: Callable[[], None]) -> None:
        self._future = future
        self._after = after

    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the commit; then do, once, what follows it: on this thread, not on one that
        others wait for."""
        answered = self._future.result(timeout)
        self._after()
        return answered


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
        self._lock = threading.Lock()
        #: Results that the next decision about their run will take along.
        self._waiting: dict[WorkflowId, list[_Result]] = {}

    def context(self, view: View, run: RunnerDefinition, plan: Plan) -> ExecutionContext:
        return ExecutionContext(
            view,
            run,
            plan,
            self._values,
            max_depth=self._settings.max_depth,
            runs_scripts=self._settings.runs_scripts,
            owner=self._settings.owner,
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

    def about_task(self, task: TaskDefinition, plan: Plan, act: Act[None]) -> Pending[None]:
        """Decide together with other results of the run. `act` raises StaleFence before it has
        changed anything, or not at all."""
        result = _Result(task, act)
        workflow_id = WorkflowId(task.workflow_id)
        with self._lock:
            waiting = self._waiting.setdefault(workflow_id, [])
            waiting.append(result)
            is_first = len(waiting) == 1
        if is_first:
            self._decide_together(workflow_id, plan)
        return Pending(result.future, lambda: self._follow_once(result))

    def follow(self, context: ExecutionContext) -> None:
        """What follows a commit: tell the world, and do the scripts that it asks for."""
        context.publish()
        if self._telemetry.is_heard:
            at = self._clock.now()
            for kind, facts in context.told:
                self._telemetry.emit(kind(at=at, **facts))
        for task in context.scripts:
            self._do_script(task)

    # Results that are decided together

    def _decide_together(self, workflow_id: WorkflowId, plan: Plan) -> None:
        taken: list[_Result] = []

        def decision(view: View) -> tuple[IterationChanges, None]:
            if not taken:  # a decision may be run again, with the same results
                taken.extend(self._take(workflow_id))
            return self._decided(view, workflow_id, plan, taken), None

        self._submit(decision, workflow_id, plan, taken)

    def _decide_alone(self, result: _Result, workflow_id: WorkflowId, plan: Plan) -> None:
        def decision(view: View) -> tuple[IterationChanges, None]:
            return self._decided(view, workflow_id, plan, [result]), None

        self._submit(decision, workflow_id, plan, [result])

    def _submit(
        self,
        decision: Callable[[View], tuple[IterationChanges, None]],
        workflow_id: WorkflowId,
        plan: Plan,
        taken: list[_Result],
    ) -> None:
        try:
            future = self._store.decide_later(decision)
        except Exception as error:
            for each in taken or self._take(workflow_id):
                each.future.set_exception(error)
            return
        future.add_done_callback(lambda done: self._settle(done, workflow_id, plan, taken))

    def _take(self, workflow_id: WorkflowId) -> list[_Result]:
        with self._lock:
            return self._waiting.pop(workflow_id, [])

    def _decided(
        self, view: View, workflow_id: WorkflowId, plan: Plan, results: Sequence[_Result]
    ) -> IterationChanges:
        context = self.context(view, require_run(view, workflow_id), plan)
        if len(results) > 1:
            _prefetch(context, results)
        for each in results:
            each.context, each.refusal = context, None
            try:
                each.act(context)
            except StaleFence as refusal:
                each.refusal = refusal
            run_agenda(context)
        return context.finished_changes()

    def _settle(
        self, done: Future[None], workflow_id: WorkflowId, plan: Plan, taken: list[_Result]
    ) -> None:
        """Tell everybody; after a defect, let each try alone: it may be that of another."""
        error = done.exception()
        if error is None:
            for each in taken:
                each.resolve()
            return
        if not taken:
            taken = self._take(workflow_id)
        if len(taken) > 1 and not isinstance(error, StoreClosed | StoreUnavailable):
            for each in taken:
                self._decide_alone(each, workflow_id, plan)
            return
        for each in taken:
            each.future.set_exception(error)

    def _follow_once(self, result: _Result) -> None:
        """Results that were decided together have one context, and its end is followed once."""
        context, result.context = result.context, None
        if context is None:
            return
        with self._lock:
            is_first, context.is_followed = not context.is_followed, True
        if is_first:
            self.follow(context)


@dataclass(eq=False, slots=True)
class _Result:
    """The result of a task on its way."""

    task: TaskDefinition
    act: Act[None]
    future: Future[None] = field(default_factory=Future)
    refusal: StaleFence | None = None
    context: ExecutionContext | None = None

    def resolve(self) -> None:
        if self.refusal is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.refusal)


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
