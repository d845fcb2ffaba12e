"""Doing a run in this process: claim its tasks, call their handlers, until it is over.

The run has a task list of its own, so nobody else takes its tasks and this process takes no other
ones. Everything is durable at every moment: if this process is stopped or killed, another
`LocalRun` on the same store goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreError, StoreUnavailable
from afl.log import get_logger
from afl.runtime.aside import do_aside, start_aside
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.handlers.scripts import SCRIPT_TASK
from afl.runtime.loading import HandlerTable
from afl.runtime.own_lists import OWN_LIST as OWN_LIST
from afl.runtime.own_lists import own_task_list as own_task_list
from afl.runtime.persistence import DEFAULT_LEASE_MS, PersistenceAPI
from afl.runtime.task_source import MAX_DELIVERIES, TaskSource, TaskWork
from afl.runtime.types import StepId, WorkflowId
from afl.work import consumer
from afl.work.attempts import Attempt

_log = get_logger(__name__)

_BACKOFF = Backoff(initial=0.05, factor=2.0, maximum=5.0, jitter=0.2)
_LAST_TRIES = 5


class Progress(NamedTuple):
    """An attempt at a task began, or ended."""

    task: TaskDefinition
    #: The name of the step in the text.
    step: str
    is_over: bool
    #: Why it failed, if it is over and did.
    error: str | None = None


def _nobody(_progress: Progress) -> None:
    """For who does not want to know."""


@dataclass(frozen=True)
class Options:
    """How a run is done here."""

    #: Tasks at the same time.
    concurrency: int = 8
    lease_ms: int = DEFAULT_LEASE_MS
    #: Deliveries without an end after which a task is taken for one that kills its worker.
    max_deliveries: int = MAX_DELIVERIES
    #: How long running handlers may go on after a stop was asked for.
    drain_s: float = 5.0
    #: Called on the threads that do the work.
    on_progress: Callable[[Progress], None] = _nobody
    clock: Clock = SYSTEM_CLOCK


class LocalRun:
    """One run, done in this process. `work` blocks; everything else is safe from any thread."""

    def __init__(
        self,
        store: PersistenceAPI,
        evaluator: Evaluator,
        handlers: HandlerTable,
        workflow_id: WorkflowId,
        task_list: str,
        options: Options | None = None,
    ) -> None:
        self._store = store
        self._workflow_id = workflow_id
        self._task_list = task_list
        self._options = options or Options()
        self._clock = self._options.clock
        self._steps = _StepNames(store)
        #: Scripts, too: those that a process left behind when it died. Others never get here.
        names = (*handlers.names(), SCRIPT_TASK)
        source = TaskSource(
            store,
            evaluator,
            lambda: names,
            lambda task: handlers.handler_for(task.name),
            task_list,
            lease_ms=self._options.lease_ms,
            max_deliveries=self._options.max_deliveries,
            clock=self._clock,
        )
        observer = _Observer(self._options.on_progress, self._steps)
        self._consumer = consumer.Consumer(source, self._consumer_options(), observer)
        self._stop = threading.Event()
        self._failure: Exception | None = None
        start_aside()

    # For others

    def request_stop(self) -> None:
        """Take no more work; `work` returns when the running handlers have ended. Waits for
        nothing and may be called again. In a signal handler, only if `work` has a thread of its
        own."""
        self._stop.set()

    def abort(self) -> None:
        """Like `request_stop`, but do not wait for running handlers."""
        self.request_stop()
        # Elsewhere: in a signal handler, the main thread may hold what this needs.
        do_aside(self._consumer.checkpoint)

    def running(self) -> list[str]:
        """The steps whose handlers are at work."""
        attempts = self._consumer.attempts()
        return [self._steps.of(each.work) for each in attempts if each.is_running]

    def waiting(self) -> int:
        """How many tasks wait for a handler."""
        return len(self._store.get_pending_tasks(self._task_list))

    def work(self) -> bool:
        """Do the run until it is over: True; False if it was stopped before. Outages of the store
        are waited for; raises what keeps it from working at all."""
        finished = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(finished,), name="loop-worker-run-watch", daemon=True
        )
        watcher.start()
        try:
            self._consumer.run(self._stop)
        finally:
            finished.set()
            watcher.join()
        if self._failure is not None:
            raise self._failure
        return self._has_ended()

    # Its parts

    def _consumer_options(self) -> consumer.Options:
        options = self._options
        return consumer.Options(
            concurrency=options.concurrency,
            threads=options.concurrency,
            drain_s=options.drain_s,
            clock=self._clock,
        )

    def _has_ended(self) -> bool:
        """Asked again at the end: it may have ended while running handlers were waited for."""
        for tries in range(1, _LAST_TRIES + 1):
            try:
                run = self._store.get_run(self._workflow_id)
                return run is None or run.is_over
            except StoreUnavailable:
                if tries == _LAST_TRIES:
                    raise
                self._clock.sleep(_BACKOFF.delay(tries))
        raise AssertionError("it answers or raises")

    def _watch(self, finished: threading.Event) -> None:
        """Notice the end of the run, whoever brings it about."""
        failures = 0
        while not finished.is_set():
            try:
                if self._store.wait_for_run(self._workflow_id, stop=finished):
                    self._stop.set()
                    self._consumer.cancel_all()
                return
            except StoreUnavailable as error:
                failures += 1
                _log.warning("run_not_watched", run=self._workflow_id, error=str(error))
                self._clock.wait(finished, _BACKOFF.delay(failures))
            except Exception as error:
                self._failure = error
                self._stop.set()
                return


class _StepNames:
    """How steps are called in the text."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._known: dict[str, str] = {}

    def of(self, work: TaskWork) -> str:
        return self._known.get(work.id) or work.task.short_name

    def read(self, task: TaskDefinition) -> str:
        try:
            step = self._store.get_step(StepId(task.step_id))
        except StoreError:  # only people look at it
            step = None
        name = (step.name if step is not None else "") or task.short_name
        self._known[task.uuid] = name
        return name

    def forget(self, work: TaskWork) -> None:
        self._known.pop(work.id, None)


class _Observer(consumer.Observer[TaskWork]):
    """Tells what happens as progress."""

    def __init__(self, tell: Callable[[Progress], None], steps: _StepNames) -> None:
        self._tell = tell
        self._steps = steps

    def began(self, work: TaskWork, attempt: Attempt) -> None:  # noqa: ARG002
        self._tell(Progress(work.task, self._steps.read(work.task), is_over=False))

    def ended(self, work: TaskWork, attempt: Attempt, error: BaseException | None) -> None:  # noqa: ARG002
        text = None if error is None else str(error)
        self._tell(Progress(work.task, self._steps.of(work), is_over=True, error=text))
        self._steps.forget(work)

    def lost(self, work: TaskWork, attempt: Attempt) -> None:  # noqa: ARG002
        self._steps.forget(work)
