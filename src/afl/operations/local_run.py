"""Doing a run in this process: claim its tasks, call their handlers, until it is over.

The run has a task list of its own, so nobody else takes its tasks and this process takes no other
ones. Everything is durable at every moment: if this process is stopped or killed, another
`LocalRun` on the same store goes on.

The thread of `work` claims and keeps time, one thread renews leases, and each attempt at a task
has one of its own. An attempt that is given up is abandoned, since no thread can be killed; its
claim is lost by then, so nothing that it still does is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from afl.backoff import format_duration
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import AflError, StoreError
from afl.ids import new_id
from afl.log import get_logger
from afl.operations.attempts import Attempt, Attempts
from afl.runtime.dispatch import HandlerContext, invoke
from afl.runtime.entities import LogDefinition, NoteOriginator, NoteType, TaskDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.handlers.scripts import SCRIPT_TASK
from afl.runtime.loading import HandlerTable
from afl.runtime.persistence import DEFAULT_LEASE_MS, Claim, PersistenceAPI
from afl.runtime.types import StepId, WorkflowId

_log = get_logger(__name__)

#: Task lists that belong to one run start like this.
OWN_LIST = "run:"


def own_task_list() -> str:
    """A fresh task list for one run."""
    return f"{OWN_LIST}{new_id()}"


class TaskTimeout(AflError):  # noqa: N818 - what happened is what callers read
    """A handler took longer than its task allows."""


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
    max_deliveries: int = 5
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
        self._evaluator = evaluator
        self._handlers = handlers
        #: Scripts, too: those that a process left behind when it died. Others never get here.
        self._names = [*handlers.names(), SCRIPT_TASK]
        self._workflow_id = workflow_id
        self._task_list = task_list
        self._options = options or Options()
        self._clock = self._options.clock
        self._owner = new_id()
        self._attempts = Attempts(self._clock)
        #: Something happened that the loop must look at.
        self._news = threading.Event()
        self._stop = threading.Event()
        self._finished = threading.Event()
        self._is_over = False
        self._failure: Exception | None = None

    # For others

    def request_stop(self) -> None:
        """Take no more work; `work` returns when the running handlers have ended. Waits for
        nothing and may be called again. In a signal handler, only if `work` has a thread of its
        own."""
        self._stop.set()
        self._news.set()

    def abort(self) -> None:
        """Like `request_stop`, but do not wait for running handlers."""
        self._attempts.stop_waiting()
        self.request_stop()

    def running(self) -> list[str]:
        """The steps whose handlers are at work."""
        return [each.step for each in self._attempts.all()]

    def waiting(self) -> int:
        """How many tasks wait for a handler."""
        return len(self._store.get_pending_tasks(self._task_list))

    def work(self) -> bool:
        """Do the run until it is over: True; False if it was stopped before. Raises what keeps
        the store from working; what was recorded until then is kept."""
        helpers = [
            threading.Thread(target=self._watch, name="loop-worker-run-watch", daemon=True),
            threading.Thread(target=self._renew, name="loop-worker-run-leases", daemon=True),
        ]
        for each in helpers:
            each.start()
        try:
            self._consume()
        except Exception as error:
            self._fail(error)
        finally:
            self._drain()
            # Only now, so that no lease lapses while handlers are waited for.
            self._finished.set()
            for each in helpers:
                each.join()
        if self._failure is not None:
            raise self._failure
        # Asked again: it may have ended while running handlers were waited for.
        run = self._store.get_run(self._workflow_id)
        return run is None or run.is_over

    # The loop

    def _consume(self) -> None:
        while True:
            # Before looking: what happens from here on ends the wait below.
            self._news.clear()
            if self._is_over or self._stop.is_set():
                return
            for attempt in self._attempts.overdue():
                self._give_up(attempt)
            for task in self._claim(self._options.concurrency - len(self._attempts)):
                self._begin(task)
            self._wait()

    def _claim(self, free: int) -> list[TaskDefinition]:
        if free <= 0:
            return []
        return self._store.claim_tasks(
            self._names,
            free,
            task_list=self._task_list,
            owner=self._owner,
            lease_ms=self._options.lease_ms,
        )

    def _wait(self) -> None:
        timeout = self._attempts.until_overdue()
        if len(self._attempts) >= self._options.concurrency:
            self._clock.wait(self._news, timeout)
        else:
            self._store.wait_for_work(
                self._names, timeout, task_list=self._task_list, stop=self._news
            )

    def _drain(self) -> None:
        """Let running handlers end; then give back what has not."""
        if self._is_over:
            for attempt in self._attempts.all():
                attempt.cancellation.set()
        self._attempts.wait_until_none(self._options.drain_s)
        for attempt in self._attempts.all():
            if self._attempts.begin_end(attempt):
                self._release(attempt)

    # The helpers

    def _watch(self) -> None:
        """Notice the end of the run, whoever brings it about."""
        try:
            self._is_over = self._store.wait_for_run(self._workflow_id, stop=self._finished)
        except Exception as error:
            self._fail(error)
        self._news.set()

    def _renew(self) -> None:
        interval = self._options.lease_ms / 3000
        while not self._clock.wait(self._finished, interval):
            attempts = self._attempts.all()
            try:
                kept = self._store.extend_leases(
                    [each.claim for each in attempts], self._options.lease_ms
                )
            except StoreError as error:
                # The lease still has two thirds: the next round may be luckier.
                _log.warning("leases_not_renewed", error=str(error))
                continue
            for attempt, is_kept in zip(attempts, kept, strict=True):
                if not is_kept and not attempt.is_ending:
                    attempt.cancellation.set()

    def _fail(self, error: Exception) -> None:
        """Nothing can be recorded any more: end, and let `work` raise it."""
        self._failure = self._failure or error
        self.request_stop()

    # Attempts

    def _begin(self, task: TaskDefinition) -> None:
        if self._stop.is_set():
            self._store.release_task(Claim(task.uuid, task.fence))
            return
        attempt = Attempt(task, self._step_name(task))
        if task.timeout_ms:
            attempt.ends_at = self._clock.monotonic() + task.timeout_ms / 1000
            attempt.deadline = self._clock.now() + timedelta(milliseconds=task.timeout_ms)
        self._attempts.add(attempt)
        self._options.on_progress(Progress(task, attempt.step, is_over=False))
        threading.Thread(
            target=self._attempt,
            args=(attempt,),
            name=f"loop-worker-run-{attempt.step}",
            daemon=True,
        ).start()

    def _step_name(self, task: TaskDefinition) -> str:
        step = self._store.get_step(StepId(task.step_id))
        return (step.name if step is not None else "") or task.short_name

    def _attempt(self, attempt: Attempt) -> None:
        task = attempt.task
        if task.deliveries > self._options.max_deliveries:
            self._bury(attempt)
            return
        if task.name == SCRIPT_TASK:
            self._attempts.begin_end(attempt)
            self._record(attempt, partial(self._evaluator.do_script, task))
            return
        result: dict[str, Any] = {}
        error: BaseException | None = None
        try:
            result = self._invoke(attempt)
        except BaseException as problem:  # also of a handler that wants to exit
            error = problem
        if not self._attempts.begin_end(attempt):
            _log.warning("late_result_dropped", task=task.uuid, step=attempt.step)
        elif error is None:
            self._record(attempt, partial(self._complete, task, result))
        else:
            self._record(attempt, partial(self._evaluator.fail_task, task, error), str(error))

    def _invoke(self, attempt: Attempt) -> dict[str, Any]:
        task = attempt.task
        handler = self._handlers.handler_for(task.name)
        assert handler is not None, "only what has a handler is claimed"
        context = HandlerContext(
            task,
            deadline=attempt.deadline,
            on_update=partial(self._evaluator.update_step, StepId(task.step_id), fence=task.fence),
            on_log=partial(self._note, task),
            cancellation=attempt.cancellation,
        )
        return invoke(handler, task, context)

    def _note(self, task: TaskDefinition, message: str, level: str) -> None:
        """A line of a handler, in the log of its run."""
        now = self._store.now_ms()
        self._store.save_log(
            LogDefinition(
                new_id(),
                now * 1000,  # as the engine numbers its own lines
                task.runner_id,
                task.step_id,
                object_id=task.uuid,
                object_type="task",
                note_originator=NoteOriginator.AGENT,
                note_type=level if level in set(NoteType) else NoteType.INFO,
                message=message,
                time=now,
            )
        )

    # Ends

    def _complete(self, task: TaskDefinition, result: dict[str, Any]) -> None:
        try:
            self._evaluator.complete_task(task, result)
        except StoreError:
            raise
        except Exception as error:  # the engine cannot take this result
            self._evaluator.fail_task(task, error)

    def _bury(self, attempt: Attempt) -> None:
        """A task that was handed out again and again without an end is not run any more."""
        reason = (
            f"{attempt.task.name} was handed out {attempt.task.deliveries} times without an end: "
            "its handler seems to end the process; correct it, then retry the step"
        )
        self._attempts.begin_end(attempt)
        write = partial(self._evaluator.dead_letter_task, attempt.task, reason)
        self._record(attempt, write, reason)

    def _give_up(self, attempt: Attempt) -> None:
        """The time of an attempt is up. Its thread goes on, but for nobody."""
        limit = format_duration(attempt.task.timeout_ms / 1000)
        error = TaskTimeout(f"the handler of {attempt.task.name} took longer than {limit}")
        attempt.cancellation.set()
        write = partial(self._evaluator.fail_task, attempt.task, error)
        self._record(attempt, write, str(error))

    def _release(self, attempt: Attempt) -> None:
        attempt.cancellation.set()
        _log.warning("attempt_abandoned", task=attempt.task.uuid, step=attempt.step)
        self._record(attempt, partial(self._store.release_task, attempt.claim), tell=False)

    def _record(
        self,
        attempt: Attempt,
        write: Callable[[], object],
        error: str | None = None,
        *,
        tell: bool = True,
    ) -> None:
        """Write how an attempt ended. Its lease is renewed until that is done."""
        try:
            write()
            if tell:
                self._options.on_progress(Progress(attempt.task, attempt.step, True, error))
        except StaleFence as stale:
            _log.warning("late_result_dropped", task=attempt.task.uuid, reason=str(stale))
        except Exception as problem:
            self._fail(problem)
        finally:
            self._attempts.remove(attempt)
            self._news.set()
