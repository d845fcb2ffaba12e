"""The port of a store, over tables in memory: one lock, waits, and announcements.

Everything happens under the lock, so decisions are simply made one after another.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock, condition_of, now_ms
from afl.db.waiting import WaitingRoom
from afl.errors import Conflict, StoreClosed, StoreMisused
from afl.ids import new_id
from afl.runtime.asking.lists import AskedLists
from afl.runtime.claims import ended, extended, may_follow, released
from afl.runtime.conveniences import Conveniences
from afl.runtime.entities import (
    EVENT_DATA,
    EventDefinition,
    FlowDefinition,
    HandlerRegistration,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    PublishedSource,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    WorkflowDefinition,
)
from afl.runtime.memory_store import lists
from afl.runtime.memory_store.queue import Wanted, claimable, next_time
from afl.runtime.memory_store.state import Lock, State, StateView
from afl.runtime.memory_store.table import ALL, Table
from afl.runtime.persistence import (
    DEFAULT_LEASE_MS,
    DEFAULT_TASK_LIST,
    Claim,
    Decision,
    IterationChanges,
    Pruned,
    event_of,
)
from afl.runtime.registered import beaten, judged, reported
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class MemoryStore(AskedLists[State], Conveniences):
    """`owner` is who claims and locks where a call names nobody else; a fresh id if left out.

    Raises StoreClosed after `close`, and StoreMisused if a decision uses the store instead of its
    view.
    """

    _lists = lists

    def __init__(self, clock: Clock = SYSTEM_CLOCK, owner: str | None = None) -> None:
        self.owner = new_id() if owner is None else owner
        self._clock = clock
        # Reentrant, so that a decision that uses the store is refused and does not hang.
        self._lock = threading.RLock()
        self._is_deciding = False
        self._is_closed = False
        #: Grows with every write: whoever waits looks again.
        self._news = 0
        self._waiting: list[threading.Condition] = []
        self._asked = WaitingRoom(clock)
        self._state = State()

    # Transactions

    def decide(self, decision: Decision[T]) -> T:
        with self._writing():
            self._is_deciding = True
            try:
                changes, answer = decision(StateView(self._state, self.now_ms()))
            finally:
                self._is_deciding = False
            self._apply(changes)
        return answer

    def decide_later(self, decision: Decision[T]) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(self.decide(decision))
        except Exception as error:
            future.set_exception(error)
        return future

    def commit(self, changes: IterationChanges) -> None:
        with self._writing():
            self._apply(changes)

    def _apply(self, changes: IterationChanges) -> None:
        self._state.apply(changes)
        for each in changes.claimings:
            wanted = Wanted.of(each.names, each.task_list)
            now = self.now_ms()
            each.fill(self._state.claim_waiting(wanted, each.limit, each.owner, now, each.lease_ms))

    def now_ms(self) -> int:
        return now_ms(self._clock)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._announce()
        self._asked.close()

    # Steps

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        return self._get(self._state.steps, step_id)

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]:
        return self._find(self._state.steps, "block", block_id)

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._find(self._state.steps, "workflow", workflow_id)

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        return self._find(self._state.steps, "state", state)

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        return self._find(self._state.steps, "container", container_id)

    def get_blocks_by_step(self, step_id: StepId) -> list[StepDefinition]:
        return self._find(self._state.steps, "block_of", step_id)

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        return self._last(self._state.steps, "root", workflow_id)

    def step_exists(self, statement_id: StatementId, block_id: BlockId | None) -> bool:
        return bool(self._find(self._state.steps, "place", (block_id, statement_id)))

    def save_step(self, step: StepDefinition) -> None:
        with self._writing():
            self._state.save_step(step)
            step.sequence = self._state.steps.require(step.id).sequence

    # Events

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        with self._reading():
            return self._state.events.get(event_id) or self._state.event_of_task(event_id)

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        saved = self._find(self._state.events, "workflow", workflow_id)
        return saved + _events_of(self._find(self._state.tasks, "workflow", workflow_id))

    def get_all_events(self) -> list[EventDefinition]:
        return self._find(self._state.events) + _events_of(self._find(self._state.tasks))

    def save_event(self, event: EventDefinition) -> None:
        with self._writing():
            self._state.save_event(event)

    # Tasks

    def get_task(self, task_id: str) -> TaskDefinition | None:
        return self._get(self._state.tasks, task_id)

    def get_pending_tasks(self, task_list: str = DEFAULT_TASK_LIST) -> list[TaskDefinition]:
        return self._find(self._state.tasks, "pending", task_list)

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        return self._newest(self._state.tasks, limit)

    def get_tasks_by_runner(self, runner_id: str) -> list[TaskDefinition]:
        return self._find(self._state.tasks, "runner", runner_id)

    def get_tasks_by_state(self, state: str, limit: int = 100) -> list[TaskDefinition]:
        return self._newest(self._state.tasks, limit, "state", state)

    def save_task(self, task: TaskDefinition) -> None:
        with self._writing():
            self._state.save_task(task)

    def update_task_state(self, task_id: str, state: str) -> bool:
        with self._writing():
            task = self._state.tasks.peek(task_id)
            if task is None or not may_follow(task.state, state):
                return False
            # Whatever follows, whoever had claimed it has lost it.
            self._state.put_task(ended(task, state, self.now_ms(), task.error))
            return True

    def claim_tasks(
        self,
        task_names: Sequence[str],
        limit: int,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        owner: str | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        is_told: bool = False,
        is_durable: bool = False,  # noqa: ARG002 - as all claims here
    ) -> list[TaskDefinition]:
        wanted = Wanted.of(task_names, task_list)
        with self._writing():
            claim = self._state.claim_waiting if is_told else self._state.claim
            return claim(wanted, limit, owner or self.owner, self.now_ms(), lease_ms)

    def extend_leases(
        self, claims: Sequence[Claim], lease_ms: int = DEFAULT_LEASE_MS
    ) -> list[bool]:
        with self._writing():
            now = self.now_ms()
            return [
                self._state.rewrite_claimed(each, lambda task: extended(task, now, lease_ms))
                for each in claims
            ]

    def release_task(self, claim: Claim, *, not_before: int = 0) -> bool:
        with self._writing():
            now = self.now_ms()
            return self._state.rewrite_claimed(claim, lambda task: released(task, now, not_before))

    def wait_for_work(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        stop: threading.Event | None = None,
    ) -> bool:
        wanted = Wanted.of(names, task_list)

        def seconds_left() -> float:
            now = self.now_ms()
            if any(claimable(self._state.tasks, wanted, now)):
                return 0
            return (next_time(self._state.tasks, wanted, now) - now) / 1000

        return self._wait(seconds_left, timeout, stop)

    # Locks

    def acquire_lock(
        self,
        key: str,
        duration_ms: int,
        meta: LockMetaData | None = None,
        *,
        owner: str | None = None,
    ) -> bool:
        with self._writing():
            now, owner = self.now_ms(), owner or self.owner
            held = self._state.held_lock(key, self.now_ms())
            if held is not None and held.owner != owner:
                return False
            lock = LockDefinition(key, now, now + duration_ms, meta, owner)
            self._state.locks.put(Lock(lock, now))
            return True

    def release_lock(self, key: str, *, owner: str | None = None) -> bool:
        with self._writing():
            held = self._state.held_lock(key, self.now_ms())
            if held is None or held.owner != (owner or self.owner):
                return False
            return self._state.locks.remove(key)

    def check_lock(self, key: str) -> LockDefinition | None:
        with self._reading():
            return self._state.held_lock(key, self.now_ms())

    def extend_lock(self, key: str, duration_ms: int, *, owner: str | None = None) -> bool:
        with self._writing():
            now, held = self.now_ms(), self._state.held_lock(key, self.now_ms())
            if held is None or held.owner != (owner or self.owner):
                return False
            self._state.locks.put(Lock(replace(held, expires_at=now + duration_ms), now))
            return True

    def get_all_locks(self) -> list[LockDefinition]:
        with self._reading():
            now = self.now_ms()
            return [each.lock for each in self._state.locks.find() if each.holds(now)]

    # Fleet

    def save_server(self, server: ServerDefinition) -> None:
        self._save(self._state.servers, server)

    def get_server(self, server_id: str) -> ServerDefinition | None:
        return self._get(self._state.servers, server_id)

    def update_server_ping(self, server_id: str, ping_time: int) -> None:
        with self._writing():
            server = self._state.servers.peek(server_id)
            if server is not None:
                self._state.servers.put(replace(server, ping_time=ping_time))

    def get_all_servers(self) -> list[ServerDefinition]:
        return self._find(self._state.servers)

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return self._find(self._state.servers, "state", state)

    def beat_server(self, server: ServerDefinition) -> str:
        with self._writing():
            stored = self._state.servers.peek(server.uuid)
            standing = beaten(stored, server, self.now_ms())
            self._state.servers.put(standing)
            return standing.wanted

    def ask_server(self, server_id: str, wanted: str) -> bool:
        with self._writing():
            server = self._state.servers.peek(server_id)
            if server is None:
                return False
            self._state.servers.put(replace(server, wanted=wanted))
        self._asked.heard((server_id,))
        return True

    def attend_server(self, server_id: str, told: Callable[[], None]) -> Callable[[], None]:
        return self._asked.attend(server_id, told)

    def report_incident(self, server_id: str, incident: Mapping[str, Any]) -> bool:
        with self._writing():
            ended = reported(self._state.servers.peek(server_id), incident)
            if ended is None:
                return False
            self._state.servers.put(ended)
            return True

    def prune_servers(self, keep_ms: int, limit: int = 100) -> int:
        with self._writing():
            heard_before = self.now_ms() - keep_ms
            servers = self._state.servers
            old = [each for each in servers.find() if each.ping_time < heard_before]
            oldest = sorted(old, key=lambda each: each.ping_time)[: max(limit, 0)]
            return sum(servers.remove(each.uuid) for each in oldest)

    # Flows

    def save_flow(self, flow: FlowDefinition) -> None:
        self._save(self._state.flows, flow)

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        return self._get(self._state.flows, flow_id)

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        return self._last(self._state.flows, "path", path)

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        return self._last(self._state.flows, "name", name)

    def get_all_flows(self) -> list[FlowDefinition]:
        return self._find(self._state.flows)

    def delete_flow(self, flow_id: str) -> bool:
        with self._writing():
            if self._state.is_needed(flow_id):
                raise Conflict(f"flow {flow_id} is needed by a run; prune its runs first")
            return self._state.remove_flow(flow_id)

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        self._save(self._state.workflows, workflow)

    def get_workflow(self, workflow_id: str) -> WorkflowDefinition | None:
        return self._get(self._state.workflows, workflow_id)

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        return self._last(self._state.workflows, "name", name)

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        return self._find(self._state.workflows, "flow", flow_id)

    def get_all_workflows(self, limit: int = 100) -> list[WorkflowDefinition]:
        return self._newest(self._state.workflows, limit)

    # Runs

    def save_runner(self, runner: RunnerDefinition) -> None:
        with self._writing():
            self._state.put_run(runner)

    def get_runner(self, runner_id: str) -> RunnerDefinition | None:
        return self._get(self._state.runs, runner_id)

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        return self._last(self._state.runs, "workflow", workflow_id)

    def get_run_by_key(self, key: str) -> RunnerDefinition | None:
        return self._last(self._state.runs, "key", key)

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        return self._find(self._state.runs, "workflow", workflow_id)

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        return self._find(self._state.runs, "state", state)

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        return self._newest(self._state.runs, limit)

    def update_runner_state(self, runner_id: str, state: str) -> bool:
        with self._writing():
            run = self._state.runs.get(runner_id)
            if run is None:
                return False
            run.state = state
            if run.is_over and not run.end_time:
                # Retention counts from the end: without one the run would be as old as time.
                run.end_time = self.now_ms()
                run.duration = run.end_time - run.start_time
            self._state.put_run(run)
            return True

    def wait_for_run(
        self,
        workflow_id: WorkflowId,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        def seconds_left() -> float:
            run = self._state.runs.last("workflow", workflow_id)
            return 0 if run is not None and run.is_over else math.inf

        return self._wait(seconds_left, timeout, stop)

    def prune_runs(self, keep_ms: int, limit: int = 100) -> Pruned:
        with self._writing():
            chosen = self._state.ended_runs(keep_ms, limit, self.now_ms())
            removed = [self._state.remove_run(each) for each in chosen]
        steps, tasks = (sum(each) for each in zip(*removed, strict=True)) if removed else (0, 0)
        return Pruned(len(removed), steps, tasks)

    # Changes

    def changes_seen(self, workflow_id: WorkflowId) -> int:  # noqa: ARG002 - all news are one
        with self._reading():
            return self._news

    def wait_for_change(
        self,
        workflow_id: WorkflowId,
        seen: int,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        def seconds_left() -> float:
            return math.inf if self.changes_seen(workflow_id) == seen else 0

        return self._wait(seconds_left, timeout, stop)

    # Handlers

    def save_handler_registration(self, registration: HandlerRegistration) -> None:
        with self._writing():
            self._state.put_handler(registration)

    def get_handler_registration(self, facet_name: str) -> HandlerRegistration | None:
        return self._get(self._state.handlers, facet_name)

    def list_handler_registrations(self) -> list[HandlerRegistration]:
        return self._find(self._state.handlers)

    def delete_handler_registration(self, facet_name: str) -> bool:
        with self._writing():
            return self._state.remove_handler(facet_name)

    def set_load_error(
        self, registration: HandlerRegistration, error: Mapping[str, Any] | None
    ) -> bool:
        with self._writing():
            stored = self._state.handlers.peek(registration.facet_name)
            changed = judged(stored, registration, error)
            if changed is None:
                return False
            self._state.handlers.put(changed)
            return True

    def registrations_version(self) -> int:
        with self._reading():
            return self._state.handlers_version

    def wait_for_registrations(
        self, seen: int, timeout: float | None = None, *, stop: threading.Event | None = None
    ) -> bool:
        def seconds_left() -> float:
            return math.inf if self._state.handlers_version == seen else 0

        return self._wait(seconds_left, timeout, stop)

    # Logs

    def save_log(self, log: LogDefinition) -> None:
        self._save(self._state.logs, log)

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        return self._find(self._state.logs, "runner", runner_id)

    # Sources

    def save_published_source(self, source: PublishedSource) -> None:
        self._save(self._state.sources, source)

    def get_source_by_namespace(self, name: str, version: str = "latest") -> PublishedSource | None:
        return self._get(self._state.sources, (name, version))

    def get_sources_by_namespaces(
        self, names: Sequence[str], version: str = "latest"
    ) -> dict[str, PublishedSource]:
        with self._reading():
            found = {each: self._state.sources.get((each, version)) for each in names}
        return {name: source for name, source in found.items() if source is not None}

    def delete_published_source(self, name: str, version: str = "latest") -> bool:
        return self._delete(self._state.sources, (name, version))

    def list_published_sources(self) -> list[PublishedSource]:
        return self._find(self._state.sources)

    # Access

    def _read(
        self, query: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        with self._reading():
            return query(self._state, *args, **kwargs)

    def _get(self, table: Table[R], key: Hashable) -> R | None:
        with self._reading():
            return table.get(key)

    def _find(self, table: Table[R], index: str = ALL, value: Hashable = ALL) -> list[R]:
        with self._reading():
            return table.find(index, value)

    def _last(self, table: Table[R], index: str, value: Hashable) -> R | None:
        with self._reading():
            return table.last(index, value)

    def _newest(
        self, table: Table[R], limit: int, index: str = ALL, value: Hashable = ALL
    ) -> list[R]:
        with self._reading():
            return table.newest(limit, index, value)

    def _save(self, table: Table[R], record: R) -> None:
        with self._writing():
            table.put(record)

    def _delete(self, table: Table[R], key: Hashable) -> bool:
        with self._writing():
            return table.remove(key)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise StoreClosed("the memory store was closed; whoever uses it must stop")
            if self._is_deciding:
                raise StoreMisused(
                    "a decision used the store: read from the view that it was given, and return "
                    "what is to be written"
                )
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._reading():
            try:
                yield
            except BaseException:
                self._state.journal.roll_back()
                raise
            self._state.journal.commit()
        self._announce()

    def _announce(self) -> None:
        with self._lock:
            self._news += 1
            waiting = list(self._waiting)
        # A waiter holds its condition from looking at the number until it sleeps. The number
        # changed before we ask for the condition: it has seen that, or it is notified.
        for condition in waiting:
            with condition:
                condition.notify_all()

    def _wait(
        self,
        seconds_left: Callable[[], float],
        timeout: float | None,
        stop: threading.Event | None,
    ) -> bool:
        """Wait until nothing is left to wait for: True. `seconds_left` is asked at all news."""
        stop = threading.Event() if stop is None else stop
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        condition = condition_of(stop)  # wakes for both: the stop and the news
        with self._attending(condition):
            while not stop.is_set():
                seen = self._news  # before looking, or news in between would be lost
                with self._reading():
                    left = seconds_left()
                patience = deadline - self._clock.monotonic()
                if left <= 0 or patience <= 0:
                    return left <= 0
                with condition:
                    self._sleep(condition, stop, seen, min(left, patience))
        return False

    def _sleep(
        self, condition: threading.Condition, stop: threading.Event, seen: int, seconds: float
    ) -> None:
        self._clock.wait_for(condition, lambda: stop.is_set() or self._news != seen, seconds)

    @contextmanager
    def _attending(self, condition: threading.Condition) -> Iterator[None]:
        with self._lock:
            self._waiting.append(condition)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(condition)


def _events_of(tasks: Iterable[TaskDefinition]) -> list[EventDefinition]:
    return [event_of(each) for each in tasks if each.data_type == EVENT_DATA]
