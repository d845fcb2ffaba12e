"""What all workers share: a consumer of tasks that runs as a loop, with a server record.

`AgentPoller`, `RegistryRunner` and `RunnerService` are this, and say only whom tasks go to.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any, Protocol

from afl.clock import SYSTEM_CLOCK, Clock
from afl.error_text import text_of
from afl.ids import new_id
from afl.log import get_logger
from afl.runtime.aside import on_main_thread
from afl.runtime.dispatch import Runner, run_alone
from afl.runtime.entities import ServerDefinition, ServerState, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.fleet import DRAIN, HandledCounts, ServerRecord, new_server
from afl.runtime.handlers.scripts import SCRIPT_TASK
from afl.runtime.lifecycle import BaseLoop
from afl.runtime.lifecycle.abandoned import name_abandoned
from afl.runtime.lifecycle.runs import LoopState
from afl.runtime.loading import Handler
from afl.runtime.persistence import DEFAULT_LEASE_MS, PersistenceAPI
from afl.runtime.phases import Phase
from afl.runtime.task_source import Guard, NotNow, TaskSource, TaskWork
from afl.runtime.types import StepId
from afl.runtime.watchdog import StallStage
from afl.runtime.worker_numbers import require_sound
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Observer, Options, why_unready

_log = get_logger(__name__)

LEASE_MS = DEFAULT_LEASE_MS
#: How long a stop waits for work in hand, unless told otherwise.
DRAIN_TIMEOUT_MS = 30_000
#: What comes after a drain takes at most: giving back, the last records, the server's.
CLOSING_S = 5.0


class WorkerConfig(Protocol):
    """What the configurations of all workers have."""

    service_name: str
    server_group: str
    server_name: str
    task_list: str
    poll_interval_ms: int
    max_concurrent: int
    heartbeat_interval_ms: int
    #: How long a claim holds unless it is renewed.
    lease_ms: int
    #: Threads for handlers that block; None: as many as may work at once, at most 64.
    threads: int | None

    @property
    def drain_ms(self) -> int:
        """How long work in hand may go on after a stop."""


class TaskWorker(BaseLoop):
    """A worker on one task list of a store. Subclasses say whom tasks go to.

    `start` blocks until `stop`. `run`, for a `LoopGroup`, does the same, except that it leaves it
    to the group how long a drain may take. Raises ConfigurationError for numbers with which it
    could not work.
    """

    def __init__(
        self,
        persistence: PersistenceAPI,
        evaluator: Evaluator,
        config: WorkerConfig,
        *,
        topics: Sequence[str] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        require_sound(config)
        super().__init__(config.service_name, clock=clock)
        self.persistence = persistence
        self.evaluator = evaluator
        self._worker_config = config
        self._clock = clock
        self._counts = HandledCounts()
        self._is_paused = False
        #: An operator asked the server to drain.
        self._is_drained = False
        self._is_alone = False
        #: What must be there before work is taken is not there yet.
        self._is_opening = False
        self._server = new_server(
            new_id(),
            group=config.server_group,
            service=config.service_name,
            name=config.server_name,
            task_list=config.task_list,
            topics=topics,
        )
        self._record = ServerRecord(
            persistence,
            self._server,
            config.heartbeat_interval_ms / 1000,
            measure=self._measure,
            on_wanted=self._hear_wanted,
            clock=clock,
        )
        #: Of the run that goes on, or the last one; and what those before it had come to.
        self._consumer = self._new_consumer(math.inf)
        self._polls: Consumer[TaskWork] | None = None
        self._past_progress = self._past_lost = 0

    # What subclasses say

    @property
    @abstractmethod
    def claimed_names(self) -> Sequence[str]:
        """What to claim tasks by now. The same object as long as nothing changes."""

    @abstractmethod
    def handler_for(self, task: TaskDefinition) -> Handler | None:
        """Whom a task goes to; None if nobody here does it any more."""

    @property
    def own_names(self) -> list[str]:
        """Of tasks that need no handler: scripts that a process left behind, where those are
        turned on."""
        return [SCRIPT_TASK] if self.evaluator.runs_scripts else []

    def open(self, stack: ExitStack, stop: threading.Event) -> None:
        """Begin what goes on beside the work, until the stack is closed."""

    @property
    def guard(self) -> Guard | None:
        """Who must agree before a task is done here."""
        return None

    @property
    def handled_names(self) -> Sequence[str]:
        """What the server record shows as served here."""
        return self.claimed_names

    def began(self, work: TaskWork, attempt: Attempt) -> None:
        """A task is being done from now on. Must not wait."""

    def ended(self, work: TaskWork) -> None:
        """It is recorded how a task ended, or its claim is lost. Must not wait."""

    # Running

    def start(self) -> None:
        """Work on this thread until `stop`. Raises UsageError if it runs already."""
        self._is_alone = True
        try:
            self.run()
        finally:
            self._is_alone = False

    def stop(self) -> None:
        """Ask for the stop and wait for it, as long as a drain may take: a run that has not ended
        by then is named and left behind. Only asks where waiting would be in vain: in a signal
        handler, and in a handler that this worker waits for itself."""
        if in_signal_handler() or self._is_awaiting_caller():
            self.request_stop()
        elif not self.shutdown(timeout=self._longest_stop_s()):
            self._name_left()

    def _is_awaiting_caller(self) -> bool:
        """Whether this cannot end before whoever calls this has returned."""
        return self._runs.is_awaiting_caller()

    @property
    def _keeps_deadline(self) -> bool:
        """Whether it ends a drain by itself, and not the group that it runs in."""
        return self._is_alone

    def _longest_stop_s(self) -> float:
        drain_s = self._worker_config.drain_ms / 1000
        # Only after its deadline it gives back what is left: that is no reason to give it up.
        return drain_s + CLOSING_S if self._keeps_deadline else drain_s

    def _name_left(self) -> None:
        """A stop waits for it no longer."""
        thread = self._runs.thread
        if thread is not None:  # else it has ended just now
            name_abandoned(self.name, thread, self._clock)

    def poll_once(self) -> int:
        """Do what is waiting, one after another, up to `max_concurrent` tasks; how many that
        were. Starts no thread and registers no server."""
        if self._polls is None:
            self._polls = Consumer(self._new_source(run_alone), self._options(0.0), _Reports(self))
        return self._polls.poll_once()

    def work(
        self,
        stop: threading.Event,
        *,
        max_iterations: int | None,
        visibility_timeout: int,  # noqa: ARG002 - leases are short, and renewed
        wait_time_seconds: int,  # noqa: ARG002 - `poll_interval_ms` says that
    ) -> None:
        drain_s = self._worker_config.drain_ms / 1000 if self._is_alone else math.inf
        self._past_progress, self._past_lost = self.progress, self.leases_lost
        self._consumer = self._new_consumer(drain_s)
        with ExitStack() as stack:
            stack.enter_context(self._record.on_duty())
            self._is_opening = True
            try:
                self.open(stack, stop)
            finally:
                self._is_opening = False
            self._record.is_running()
            self._consumer.run(stop, max_iterations=max_iterations)

    def pause(self) -> None:
        """Take no more work, finish what is in hand, then idle until `unpause`."""
        self._is_paused = True
        self.notice_change()

    def unpause(self) -> None:
        """Take work again, unless an operator asked for a drain."""
        self._is_paused = False
        self.notice_change()

    def checkpoint(self) -> None:
        """The time of a drain is over: give back what is unfinished, and let the run end."""
        self._consumer.checkpoint()

    def rescue(self, stage: StallStage) -> None:
        """Asked by the watchdog, before it kills this process."""
        if stage is StallStage.CANCELLED:
            self._consumer.cancel_all()
        else:
            self._consumer.kill_all()

    def probed_at(self, port: int) -> None:
        """The group that it runs in answers probes there: its record says so."""
        self._server.http_port = port

    def notice_change(self) -> None:
        """What is served has changed: look at once for work of the new names, and tell others."""
        self._consumer.notify()
        self._record.tell_soon()

    # What is seen of it

    @property
    def server_id(self) -> str:
        return self._server.uuid

    @property
    def is_running(self) -> bool:
        return self.running

    @property
    def in_flight(self) -> int:
        polls = self._polls
        return self._consumer.in_flight + (polls.in_flight if polls is not None else 0)

    @property
    def progress(self) -> int:
        return self._past_progress + self._consumer.progress

    @property
    def leases_lost(self) -> int:
        return self._past_lost + self._consumer.leases_lost

    @property
    def handled(self) -> list[tuple[str, int, int]]:
        """Facets, and how many of their tasks were done and how many failed here."""
        return [(each.handler, each.handled, each.not_handled) for each in self._counts.all()]

    @property
    def unready_reason(self) -> str | None:
        if self._is_opening:
            return "starting: what it needs is being loaded"
        if self._is_drained:
            return "drain mode: an operator wants it to take no work"
        if self._is_paused:
            return "paused: it takes no work"
        return why_unready(self._consumer, is_running=self.running)

    # Steps and programs

    def update_step(self, step_id: str, partial_result: Mapping[str, Any]) -> None:
        """Merge a part of a result into the returns of a step that is being done."""
        self.evaluator.update_step(StepId(step_id), partial_result)

    def cache_workflow_ast(
        self, workflow_id: str, ast: Mapping[str, Any], program_ast: Any = None
    ) -> None:
        """Not needed here: the program travels with the run. Accepted for code that calls it."""

    # Its parts

    def _new_consumer(self, drain_s: float) -> Consumer[TaskWork]:
        return Consumer(self._new_source(None), self._options(drain_s), _Reports(self))

    def _new_source(self, run: Runner | None) -> TaskSource:
        config = self._worker_config
        return TaskSource(
            self.persistence,
            self.evaluator,
            self._names,
            self.handler_for,
            config.task_list,
            self.server_id,
            config.lease_ms,
            run=run,
            guard=self.guard,
            clock=self._clock,
        )

    def _options(self, drain_s: float) -> Options:
        config = self._worker_config
        return Options(
            concurrency=config.max_concurrent,
            threads=config.threads,
            poll_interval_s=config.poll_interval_ms / 1000,
            drain_s=drain_s,
            clock=self._clock,
            heartbeat=self._heartbeat,
            on_drain=self._record.tell_soon,
        )

    def _names(self) -> Sequence[str]:
        return () if self._is_paused or self._is_drained else self.claimed_names

    # The server record

    def _measure(self, server: ServerDefinition) -> None:
        server.handlers = list(self.handled_names)
        server.handled = self._counts.all()
        server.in_flight = self.in_flight
        server.phase = str(self._phase(server.state))

    def _phase(self, state: str) -> Phase:
        if state == ServerState.STARTUP:
            return Phase.WARMUP
        if state != ServerState.RUNNING:
            return Phase.TERMINATE
        takes_none = self._is_paused or self._is_drained or self.state is LoopState.DRAINING
        return Phase.DRAIN if takes_none else Phase.READY

    def _hear_wanted(self, wanted: str) -> None:
        is_drained = wanted == DRAIN
        if is_drained is not self._is_drained:
            self._is_drained = is_drained
            self.notice_change()

    def note_end(self, work: TaskWork, error: BaseException | None) -> None:
        if not isinstance(error, NotNow):
            self._counts.add(work.task.name, is_handled=error is None)
            if error is not None:
                _log_failure(work.task, error)
        self.ended(work)


class _Reports(Observer[TaskWork]):
    """Tells a worker what its consumer does."""

    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def began(self, work: TaskWork, attempt: Attempt) -> None:
        self._worker.began(work, attempt)

    def ended(self, work: TaskWork, attempt: Attempt, error: BaseException | None) -> None:  # noqa: ARG002
        self._worker.note_end(work, error)

    def lost(self, work: TaskWork, attempt: Attempt) -> None:  # noqa: ARG002
        self._worker.ended(work)


def _log_failure(task: TaskDefinition, error: BaseException) -> None:
    """The only place that has the whole trace: what is stored names one line of it."""
    _log.warning(
        "handler_failed",
        facet=task.name,
        task=task.uuid,
        run=task.workflow_id,
        delivery=task.deliveries,
        error=text_of(error),
        exc_info=error,
    )


def in_signal_handler() -> bool:
    """Whether a handler of Python's `signal` module is being called: there, nobody may wait."""
    if not on_main_thread():
        return False
    handlers = {_code_of(signal.getsignal(each)) for each in signal.valid_signals()} - {None}
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code in handlers:
            return True
        frame = frame.f_back
    return False


def _code_of(handler: object) -> object:
    function = getattr(handler, "__func__", handler)
    return getattr(function, "__code__", None)
