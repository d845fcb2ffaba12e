"""Decisions about runs: made on the store, one commit each, and what follows the commit.

Results of tasks that wait together are decided together (`afl.runtime.batches`). Nothing waits for
company: who comes while a decision is on its way to the store joins it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from afl.clock import Clock
from afl.errors import StoreClosed, StoreError, StoreUnavailable
from afl.log import get_logger
from afl.runtime.batches import Act, Batch, Group, Result, context_of
from afl.runtime.claims import NextClaim
from afl.runtime.context import ExecutionContext, require_run
from afl.runtime.entities import RunnerDefinition, TaskDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.persistence import IterationChanges, Transactions, View
from afl.runtime.plan import Plan
from afl.runtime.progress import run_agenda
from afl.runtime.types import WorkflowId
from afl.runtime.values import ValueCache
from afl.telemetry import Telemetry

T = TypeVar("T")

_log = get_logger(__name__)


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
        # Order of locks: this one, those of the store, that of a batch.
        self._lock = threading.Lock()
        #: Takes along what comes until it is decided.
        self._batch: Batch | None = None
        #: Scripts that are still to be done by the thread at work here.
        self._noted = threading.local()

    def context(
        self,
        view: View,
        run: RunnerDefinition,
        plan: Plan,
        changes: IterationChanges | None = None,
    ) -> ExecutionContext:
        return ExecutionContext(
            view,
            run,
            plan,
            self._values,
            max_depth=self._settings.max_depth,
            runs_scripts=self._settings.runs_scripts,
            owner=self._settings.owner,
            is_heard=self._telemetry.is_heard,
            changes=changes,
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
        self,
        task: TaskDefinition,
        plan: Plan,
        act: Act[None],
        claim: NextClaim | None = None,
        *,
        is_waited_for: bool = False,
    ) -> Pending:
        """Decide together with other results. `act` raises StaleFence before it has
        changed anything, or not at all. Who is going to wait at once should say so: then the
        store may decide on this thread."""
        with self._lock:
            batch = self._batch
            joined = None if batch is None else batch.join(task, plan, act, claim)
            if batch is not None and joined is not None:
                return _Pending(self, batch, *joined)
            batch = self._batch = Batch(self.context)
            first = batch.join(task, plan, act, claim)
            assert first is not None, "a new one has room"
            if not is_waited_for:
                batch.future = self._decide_later(batch)
        if is_waited_for:
            self._decide_now(batch)
        return _Pending(self, batch, *first)

    def _decide_later(self, batch: Batch) -> Future[None]:
        try:
            return self._store.decide_later(batch.decide)
        except BaseException:
            batch.close()
            raise

    def _decide_now(self, batch: Batch) -> None:
        try:
            batch.future.set_result(self._store.decide(batch.decide))
        except Exception as error:
            batch.future.set_exception(error)
        except BaseException:
            # The interrupt of this thread is no affair of the others.
            told = StoreUnavailable("interrupted; perhaps nothing was written")
            batch.future.set_exception(told)
            raise
        finally:
            batch.close()

    def settle(
        self, batch: Batch, group: Group, result: Result, timeout: float | None
    ) -> list[TaskDefinition]:
        """Wait until a result is durable, and follow it."""
        try:
            batch.future.result(timeout)
        except (TimeoutError, StoreClosed, StoreUnavailable):
            raise
        except Exception:
            if batch.is_lone:
                raise
            # A defect, perhaps of another: each tries alone.
            self.about_run(group.workflow_id, group.plan, result.act)
            return []
        self._follow_once(batch, context_of(group))
        if result.refusal is not None:
            raise result.refusal
        return result.taken()

    def follow(self, context: ExecutionContext) -> None:
        """What follows a commit: tell the world, and do the scripts that it asks for."""
        context.publish()
        if self._telemetry.is_heard:
            at = self._clock.now()
            for kind, facts in context.told:
                self._telemetry.emit(kind(at=at, **facts))
        if context.scripts:
            self._do_scripts(context.scripts)

    def _do_scripts(self, tasks: list[TaskDefinition]) -> None:
        """One after the other, also those that the end of one leads to: each of them comes back
        here, so only the first call on a thread works, and the others leave it a note."""
        noted: deque[TaskDefinition] | None = getattr(self._noted, "scripts", None)
        if noted is not None:
            noted.extend(tasks)
            return
        noted = self._noted.scripts = deque(tasks)
        try:
            while noted:
                self._do_one_script(noted.popleft())
        finally:
            del self._noted.scripts

    def _do_one_script(self, task: TaskDefinition) -> None:
        try:
            self._do_script(task)
        except StaleFence as lost:
            # Cancelled, or done by somebody else: not the affair of whoever waits here.
            _log.warning("late_result_dropped", task=task.uuid, reason=str(lost))
        except (StoreError, OSError) as error:
            # What led to it is committed all the same. Once its lease is over, others do it, who
            # may be able to start a process.
            _log.warning("script_left_to_others", task=task.uuid, error=str(error))

    def _follow_once(self, batch: Batch, context: ExecutionContext) -> None:
        """Results of one run have one context, and its end is followed once."""
        with self._lock:
            if self._batch is batch:
                self._batch = None  # it may hold much
            is_first, context.is_followed = not context.is_followed, True
        if is_first:
            self.follow(context)


@dataclass(eq=False, slots=True)
class _Pending:
    decisions: Decisions
    batch: Batch
    group: Group
    of: Result

    def done(self) -> bool:
        return self.batch.future.done()

    def result(self, timeout: float | None = None) -> list[TaskDefinition]:
        return self.decisions.settle(self.batch, self.group, self.of, timeout)
