"""The runner service: a worker with tools, locks, a status page and signals of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any

from afl import telemetry
from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreClosed, StoreError, UsageError
from afl.log import get_logger
from afl.runtime.agent import ToolRegistry
from afl.runtime.aside import on_main_thread
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.health import Report
from afl.runtime.lifecycle import LoopGroup, Runnable, ShutdownCoordinator
from afl.runtime.lifecycle.runs import LoopRuns, LoopState
from afl.runtime.loading import Handler
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.locks import ItemLocks
from afl.runtime.runner.protocol import RuntimeTasks
from afl.runtime.runner.safety_net import settle_forgotten_steps, unserved_names
from afl.runtime.runner.status import handled_by, served_status
from afl.runtime.task_source import Guard, TaskWork
from afl.runtime.worker import TaskWorker
from afl.runtime.worker_numbers import require_sound_lock
from afl.work.attempts import Attempt

_log = get_logger(__name__)

_BACKOFF = Backoff(initial=0.5, factor=2.0, maximum=30.0, jitter=0.5)
#: A look around may take this share of the time at most.
_SHARE = 0.05
_LAST_LOOK_S = 1.0
#: The share of a stop that is kept for giving work back; more of a short one, up to what that
#: takes at least, but never most of it.
_RESERVE, _LEAST_S, _MOST = 0.1, 2.5, 0.2


class RunnerService(TaskWorker):
    """Does tasks with the tools of a registry, and starts and resumes runs for others.

    `start` serves `/health` and `/status`, also for the loops beside it, and hears SIGTERM and
    SIGINT, if it is on the main thread. `run` does neither: in a `LoopGroup`, that is the group's
    part.
    """

    def __init__(
        self,
        persistence: PersistenceAPI,
        evaluator: Evaluator,
        config: RunnerConfig | None = None,
        tool_registry: ToolRegistry | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.config = config or RunnerConfig()
        self.tool_registry = tool_registry or ToolRegistry()
        self._tasks = RuntimeTasks(persistence, evaluator)
        #: Names that the default handler serves, because nobody else does.
        self._leftovers: tuple[str, ...] = ()
        self._claimed: tuple[str, ...] = ()
        self._handlers: dict[str, Handler] = {}
        self._started_at: float | None = None
        #: Of `start`, and what the one that goes on runs this in.
        self._starts = LoopRuns(clock)
        self._group: LoopGroup | None = None
        #: What runs beside it, or did so the last time.
        self._beside: tuple[Runnable, ...] = ()
        #: A start has ended without it.
        self._is_left = False
        duration_ms, extend_ms = self.config.lock_duration_ms, self.config.lock_extend_interval_ms
        # Again: they may have been changed since.
        require_sound_lock(duration_ms, extend_ms)
        self._locks = ItemLocks(persistence, duration_ms, extend_ms / 1000, clock)
        super().__init__(
            persistence, evaluator, self.config, topics=self.config.topics, clock=clock
        )

    # Running

    def start(self, *, beside: Sequence[Runnable] = ()) -> None:
        """Work until a signal or `stop`, with these other loops beside it. Raises UsageError if it
        runs already."""
        with self._starts.running():
            if self.running:
                raise UsageError("this runner runs already; stop that run first, or make another")
            # From here on a stop is for this start, although the loop runs a little later.
            self.expect_run()
            self._beside = tuple(beside)
            try:
                self._serve()
            finally:
                self._end_expected_run()

    def _serve(self) -> None:
        config = self.config
        with served_status(
            config.http_host,
            config.http_port,
            config.http_max_port_attempts,
            live=self._live,
            ready=self._ready,
            status=self.status,
        ) as port:
            self._tell_port(port)
            telemetry.emit(
                telemetry.HealthServed(at=self._clock.now(), host=config.http_host, port=port)
            )
            try:
                self._run_beside()
            finally:
                self._tell_port(0)

    def _tell_port(self, port: int) -> None:
        """The records of all say where the probes of this process are answered; 0: nowhere."""
        for each in self._all_loops():
            probed_at = getattr(each, "probed_at", None)
            if probed_at is not None:
                probed_at(port)

    def _all_loops(self) -> Iterable[Runnable]:
        return (self, *self._beside)

    def _run_beside(self) -> None:
        timeout_s = self.config.shutdown_timeout_ms / 1000
        self._group = group = LoopGroup(
            list(self._all_loops()),
            timeout_s,
            checkpoint_reserve_seconds=min(timeout_s * _MOST, max(timeout_s * _RESERVE, _LEAST_S)),
            watchdog_threshold=None,
        )
        try:
            group.run(install_signals=_can_hear_signals())
        except BaseExceptionGroup as failed:
            if len(failed.exceptions) == 1:
                raise failed.exceptions[0] from None
            raise
        finally:
            self._group, self._is_left = None, self.running

    def _end_expected_run(self) -> None:
        """A start that never came to its run is over, and with it a stop that was for it."""
        if self.state is LoopState.STARTING:
            with self._runs.running():
                pass

    def run(self, **options: Any) -> None:
        group = self._group
        super().run(**options)
        if group is not None:
            # Perhaps the stop came before the start, and nobody else heard of it.
            group.request_stop()

    def request_stop(self) -> None:
        """Ask for the stop; never waits, may be called again, and in a signal handler."""
        super().request_stop()
        group = self._group
        if group is not None:
            # It keeps the deadline, and stops what runs beside.
            group.request_stop()

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        self.request_stop()
        if self._starts.is_running:
            # It ends at its deadline, perhaps without this loop.
            return self._starts.shutdown(timeout) and not self.running
        # Nobody knows when a loop ends that was left behind.
        return super().shutdown(timeout=0.0 if self._is_left else timeout)

    def _is_awaiting_caller(self) -> bool:
        return super()._is_awaiting_caller() or self._starts.is_awaiting_caller()

    @property
    def _keeps_deadline(self) -> bool:
        return self._starts.is_running

    def _name_left(self) -> None:
        if not self._is_left:  # else its start has named it
            super()._name_left()

    def run_once(self) -> int:
        """Look around once and do what is waiting, on this thread; how many tasks that were."""
        self._look_for_leftovers()
        self._settle()
        return self.poll_once()

    # What is seen of it

    @property
    def http_port(self) -> int:
        """Where its status is served, or, before the start, the first port that is tried."""
        return self._server.http_port or self.config.http_port

    def registered_names(self) -> list[str]:
        return self.tool_registry.names()

    def status(self) -> dict[str, Any]:
        """What `/status` answers: of its own, and what is done and in hand beside it, too."""
        config, ready, began = self.config, self._ready(), self._started_at
        uptime_s = 0.0 if began is None else self._clock.monotonic() - began
        return {
            "server_id": self.server_id,
            "state": self._server.state,
            "running": self.is_running,
            "ready": ready.ok,
            "reasons": list(ready.reasons),
            "uptime_ms": round(uptime_s * 1000),
            "handled": handled_by(self._all_loops()),
            "active_work_items": sum(getattr(each, "in_flight", 0) for each in self._all_loops()),
            "config": {
                "server_group": config.server_group,
                "service_name": config.service_name,
                "server_name": config.server_name,
                "topics": list(config.topics),
                "task_list": config.task_list,
                "max_concurrent": config.max_concurrent,
                "poll_interval_ms": config.poll_interval_ms,
            },
        }

    def _live(self) -> Report:
        reasons = () if self.is_running else ("the runner does not run",)
        return Report(ok=not reasons, reasons=reasons)

    def _ready(self) -> Report:
        reason, group = self._why_unready(), self._group
        if reason is not None:
            return Report(ok=False, reasons=(reason,))
        # It is ready itself, so what its group has to say is about those beside it.
        return Report(ok=True) if group is None else group.ready()

    def _why_unready(self) -> str | None:
        if not self.is_running:
            return "the runner does not run"
        if self.state is LoopState.DRAINING:
            return "drain: asked to stop"
        return self.unready_reason

    # As a worker

    @property
    def claimed_names(self) -> Sequence[str]:
        tools = [each for each in self.tool_registry.names() if self._is_topical(each)]
        names = (*tools, *self._leftovers, *self._tasks.handlers, *self.own_names)
        if names != self._claimed:
            self._claimed = names
        return self._claimed

    def handler_for(self, task: TaskDefinition) -> Handler | None:
        own = self._tasks.handlers.get(task.name)
        if own is not None:
            return own
        call = self.tool_registry.handler_for(task.name)
        if call is None:
            return None
        known = self._handlers.get(task.name)
        if known is None or known.call is not call:
            known = self._handlers[task.name] = Handler(task.name, call, "tools")
        return known

    @property
    def guard(self) -> Guard:
        return self._locks

    @property
    def handled_names(self) -> Sequence[str]:
        # What the default handler takes is no promise: others may come who serve it.
        return [each for each in self.claimed_names if each not in self._leftovers]

    def began(self, work: TaskWork, attempt: Attempt) -> None:
        self._locks.attach(work, attempt)

    def ended(self, work: TaskWork) -> None:
        self._locks.leave(work)

    def open(self, stack: ExitStack, stop: threading.Event) -> None:  # noqa: ARG002
        self._started_at, self._is_left = self._clock.monotonic(), False
        stack.enter_context(self._locks.kept())
        over = threading.Event()
        looks = threading.Thread(
            target=self._keep_looking, args=(over,), name="loop-worker-looks", daemon=True
        )
        looks.start()
        stack.callback(looks.join, _LAST_LOOK_S)
        stack.callback(over.set)

    # Looking around

    def _keep_looking(self, over: threading.Event) -> None:
        pause, failures, steps_at = 0.0, 0, self._clock.monotonic()
        while not self._clock.wait(over, pause):
            try:
                pause = self._seconds(self._look_for_leftovers, self.config.poll_interval_ms)
                if self._clock.monotonic() >= steps_at:
                    interval_ms = self.config.step_poll_interval_ms
                    steps_at = self._clock.monotonic() + self._seconds(self._settle, interval_ms)
                failures = 0
            except StoreClosed:
                return
            except Exception as error:  # nothing may end this thread: nobody else would notice
                is_usual = isinstance(error, StoreError)
                _log.warning("look_around_failed", error=str(error), exc_info=not is_usual)
                failures += 1
                pause = _BACKOFF.delay(failures)

    def _seconds(self, look: Callable[[], object], interval_ms: int) -> float:
        """Look, and say when to do it again: a look that takes long is rare."""
        began = self._clock.monotonic()
        look()
        return max(interval_ms / 1000, (self._clock.monotonic() - began) / _SHARE)

    def _settle(self) -> None:
        settle_forgotten_steps(self.persistence, self.evaluator)

    def _look_for_leftovers(self) -> None:
        """Find what only the default handler can do. Costs nothing where there is none."""
        found: list[str] = []
        if self.tool_registry.default_handler is not None:
            found = unserved_names(
                self.persistence,
                self.config.task_list,
                self._leftovers,
                except_for=self.server_id,
                heartbeat_s=self.config.heartbeat_interval_ms / 1000,
            )
        leftovers = tuple(each for each in found if self._is_left_over(each))
        if leftovers != self._leftovers:
            self._leftovers = leftovers
            self.notice_change()

    def _is_left_over(self, name: str) -> bool:
        return self._is_topical(name) and not self.tool_registry.handler_for(name, default=False)

    def _is_topical(self, name: str) -> bool:
        topics = self.config.topics
        return not topics or any(fnmatchcase(name, each) for each in topics)


def _can_hear_signals() -> bool:
    return on_main_thread() or ShutdownCoordinator.get() is not None
