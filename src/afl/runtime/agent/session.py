"""One run that is done here: its tasks go to handlers, and what they do not serve to Claude."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from afl.agents.errors import BudgetExceeded
from afl.agents.model import ModelAdapter
from afl.clock import Clock
from afl.errors import StoreError, UsageError
from afl.ids import new_id
from afl.lang.program import Program
from afl.log import get_logger
from afl.runtime.agent.briefing import Account, Briefing
from afl.runtime.agent.registry import ToolRegistry
from afl.runtime.agent.talks import hold
from afl.runtime.dispatch import HandlerContext
from afl.runtime.entities import RunnerDefinition, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.handlers.scripts import SCRIPT_TASK
from afl.runtime.loading import Handler
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.results import ExecutionResult
from afl.runtime.task_source import NotNow, TaskSource, TaskWork, note_of
from afl.runtime.types import WorkflowId
from afl.work.consumer import Consumer, Options

_log = get_logger(__name__)


@dataclass(frozen=True)
class Desk:
    """What all sessions of a runner share."""

    evaluator: Evaluator
    store: PersistenceAPI
    adapter: ModelAdapter
    registry: ToolRegistry
    max_dispatches: int
    lease_ms: int
    clock: Clock


class Session:
    """`work` blocks until the run is over, or cannot go on here. One task at a time."""

    def __init__(
        self, desk: Desk, run: RunnerDefinition, program: Program, briefing: Briefing
    ) -> None:
        self._desk = desk
        self._run_id = WorkflowId(run.workflow_id)
        self._briefing = briefing
        self._names = (*program.event_facets, SCRIPT_TASK)
        self._source = TaskSource(
            desk.store,
            desk.evaluator,
            lambda: self._names,
            self._handler_for,
            run.task_list,
            f"claude:{new_id()}",
            desk.lease_ms,
            clock=desk.clock,
        )
        self._dispatches = 0
        self._stop = threading.Event()
        #: Why it cannot go on.
        self._obstacle: Exception | None = None

    def request_stop(self) -> None:
        self._stop.set()

    def work(self) -> ExecutionResult:
        """How the run stands at the end. Raises UsageError if Claude cannot be asked at all; the
        run can be resumed then, as after a spent budget, which is an error of the result."""
        finished = threading.Event()
        watch = threading.Thread(
            target=self._watch, args=(finished,), name="loop-worker-claude-watch", daemon=True
        )
        consumer: Consumer[TaskWork] = Consumer(
            self._source, Options(concurrency=1, clock=self._desk.clock)
        )
        watch.start()
        try:
            consumer.run(self._stop)
        finally:
            finished.set()
            watch.join()
        return self._result()

    def _watch(self, finished: threading.Event) -> None:
        """Notice the end of the run, whoever brings it about."""
        try:
            self._desk.store.wait_for_run(self._run_id, stop=finished)
        except StoreError as error:
            self._obstacle = error
        self._stop.set()

    def _result(self) -> ExecutionResult:
        result = self._desk.evaluator.result(self._run_id)
        if isinstance(self._obstacle, BudgetExceeded):
            return replace(result, success=False, error=self._obstacle)
        if self._obstacle is not None:
            raise self._obstacle
        return result

    # Tasks

    def _handler_for(self, task: TaskDefinition) -> Handler:
        self._count()
        handler = self._desk.registry.handler_for(task.name)
        if handler is None:
            return Handler(task.name, self._ask, "Claude")
        return Handler(task.name, handler, "tool registry")

    def _count(self) -> None:
        limit = self._desk.max_dispatches
        if self._dispatches >= limit:
            obstacle = BudgetExceeded(
                f"the run was given {limit} tasks to do and is not over; allow more with "
                "max_dispatches and resume it"
            )
            raise self._cannot_go_on(obstacle)
        self._dispatches += 1

    def _ask(self, payload: Mapping[str, Any], context: HandlerContext) -> dict[str, Any]:
        talk = self._briefing.talk(payload, context, self._desk.clock)
        account = Account.of(talk, context)
        try:
            return hold(talk, self._desk.adapter, account.tally)
        except (BudgetExceeded, UsageError) as obstacle:
            raise self._cannot_go_on(obstacle) from obstacle
        finally:
            self._note(account, context.task)

    def _cannot_go_on(self, obstacle: Exception) -> NotNow:
        """Stop, and give the task back: another time, or another key, may do better."""
        self._obstacle = obstacle
        self._stop.set()
        return NotNow(str(obstacle))

    def _note(self, account: Account, task: TaskDefinition) -> None:
        """What a step used, in the log of the run."""
        if not account.tally.calls:
            return
        line = note_of(task, account.message, "info", self._desk.store.now_ms())
        line.object_type, line.details = "model", account.details
        try:
            self._desk.store.save_log(line)
        except StoreError as error:
            _log.warning("model_usage_not_recorded", **account.details, error=str(error))
