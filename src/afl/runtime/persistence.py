"""The port between the runtime and a store: what is kept, and what a store promises about it.

`PersistenceAPI` is the sum of small ports. All that a store must do is on this page; the contract
suite in `afl.testing.contracts` examines it.

- **One commit.** Every write applies as a whole or not at all, and is durable when it returns.
- **Decisions see the truth.** `decide` runs a function on a `View` and applies the changes it
  returns in the same transaction: nothing that it read can have changed in between. The function
  may be run again, so it does nothing but read and compute.
- **Copies.** What a store takes or gives is never shared with it.
- **The store's clock.** Leases, locks and waits end by `now_ms()` of the store, never by a
  worker's clock. A lease holds while `now < lease_expires <= now + lease_ms`.
- **Announcements.** A committed task wakes `wait_for_work`, a run that ended wakes
  `wait_for_run`, what changes in a run wakes `wait_for_change`, and who is asked for something
  hears of it by `attend_server`, within milliseconds, in all processes on the store.
- **Pages.** Lists that may be long are given in pages (`afl.runtime.listing`), by an index: the
  first page of a million records costs what the first page of a hundred does.

Who is refused gets an error of `afl.errors.StoreError`; nothing is ever applied in part.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from afl.ids import stable_id_beside
from afl.runtime.claims import DEFAULT_LEASE_MS as DEFAULT_LEASE_MS
from afl.runtime.entities import (
    EventDefinition,
    FlowDefinition,
    HandlerRegistration,
    Isolation,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    OnLost,
    PublishedSource,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.listing import COUNTED, Count, Page, Queue, RunQuery, TaskQuery
from afl.runtime.states import EventState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId

T = TypeVar("T")

DEFAULT_TASK_LIST = "default"


# Ids that follow from what a thing is: it can exist only once, on any store.


@lru_cache(maxsize=16384)  # made where a step is, and asked again where it is stored
def child_id(parent: str, name: str) -> StepId:
    """The step that `name` is below `parent`: a statement of a block, a block of a container."""
    return StepId(stable_id_beside(parent, "step", parent, name))


def task_id_of(step: str) -> str:
    """The task that the engine makes for a step has the id of the step."""
    return step


def event_id_of(step: str) -> EventId:
    """The event of a step is its task, seen from the outside."""
    return EventId(task_id_of(step))


def event_of(task: TaskDefinition) -> EventDefinition:
    """What the task of an event says about it."""
    return EventDefinition(
        EventId(task.uuid),
        StepId(task.step_id),
        WorkflowId(task.workflow_id),
        _EVENT_STATES.get(task.state, EventState.ERROR),
        task.name,
        dict(task.data or {}),
    )


_EVENT_STATES: dict[str, EventState] = {
    TaskState.PENDING: EventState.CREATED,
    TaskState.RUNNING: EventState.PROCESSING,
    TaskState.COMPLETED: EventState.COMPLETED,
}


# What is written


@dataclass(eq=False, slots=True)
class Claiming:
    """Tasks that wait, to be claimed in the same commit, behind all else that it does.

    Those of abandoned claims are left to `claim_tasks`: after an outage, the end of such a claim
    may stand right behind this commit. The store fills `tasks`, and may leave it empty: who asked
    claims by itself then.
    """

    names: Collection[str]
    task_list: str
    owner: str
    lease_ms: int
    limit: int = 0
    tasks: deque[TaskDefinition] = field(default_factory=deque)

    def fill(self, tasks: Iterable[TaskDefinition]) -> None:
        """What was claimed, in place of what an attempt before this one might have."""
        self.tasks = deque(tasks)


@dataclass
class IterationChanges:
    """What one decision writes: committed together or not at all.

    What is created must not exist (`Conflict`); a step, task or run that is updated must be
    there and must not have been written since it was read (`Conflict`; `sequence` and `version`
    tell). Only how things stand is updated, not what they are: of a step its state, transition,
    values and counters; of a task its state, claim, error and times; of a run its state, times,
    error and retention. A task moves only as `TASK_TRANSITIONS` allows. Updated events are
    replaced.
    """

    created_steps: list[StepDefinition] = field(default_factory=list)
    updated_steps: list[StepDefinition] = field(default_factory=list)
    created_events: list[EventDefinition] = field(default_factory=list)
    updated_events: list[EventDefinition] = field(default_factory=list)
    created_tasks: list[TaskDefinition] = field(default_factory=list)
    updated_tasks: list[TaskDefinition] = field(default_factory=list)
    created_runs: list[RunnerDefinition] = field(default_factory=list)
    updated_runs: list[RunnerDefinition] = field(default_factory=list)
    #: Programs that runs need; one that is there already stays as it is.
    flows: list[FlowDefinition] = field(default_factory=list)
    workflows: list[WorkflowDefinition] = field(default_factory=list)
    logs: list[LogDefinition] = field(default_factory=list)
    claimings: list[Claiming] = field(default_factory=list)

    def add_created_step(self, step: StepDefinition) -> None:
        """Once for each id: adding it again replaces it."""
        _put(self.created_steps, step)

    def add_updated_step(self, step: StepDefinition) -> None:
        """The last one of an id counts; a step that is created here stays created."""
        if not _replace(self.created_steps, step):
            _put(self.updated_steps, step)

    def add_created_event(self, event: EventDefinition) -> None:
        self.created_events.append(event)

    def add_updated_event(self, event: EventDefinition) -> None:
        self.updated_events.append(event)

    def add_created_task(self, task: TaskDefinition) -> None:
        self.created_tasks.append(task)

    def add_updated_task(self, task: TaskDefinition) -> None:
        self.updated_tasks.append(task)

    def extend(self, more: IterationChanges) -> None:
        """Take along what was decided about something else: no step, task or run is in both."""
        for name, each in vars(more).items():
            getattr(self, name).extend(each)

    def touched_runs(self) -> set[str]:
        """Ids of the runs that this changes something of, and of their records."""
        touched: set[str] = {each.workflow_id for each in self.created_steps}
        touched.update([each.workflow_id for each in self.updated_steps])
        for tasks in (self.created_tasks, self.updated_tasks):
            touched.update([each.workflow_id for each in tasks])
            touched.update([each.runner_id for each in tasks])
        for runs in (self.created_runs, self.updated_runs):
            touched.update([each.workflow_id for each in runs])
            touched.update([each.uuid for each in runs])
        touched.update([each.runner_id for each in self.logs])
        return touched

    @property
    def has_changes(self) -> bool:
        return any(vars(self).values())

    def clear(self) -> None:
        for each in vars(self).values():
            each.clear()


def _put(steps: list[StepDefinition], step: StepDefinition) -> None:
    if not _replace(steps, step):
        steps.append(step)


def _replace(steps: list[StepDefinition], step: StepDefinition) -> bool:
    for index, each in enumerate(steps):
        if each.id == step.id:
            steps[index] = step
            return True
    return False


class Wake(Enum):
    """What ended a wait for work."""

    NOTHING = "nothing"
    #: Something was announced; perhaps it can be claimed.
    NEWS = "news"
    #: Something can be claimed.
    WORK = "work"


class Claim(NamedTuple):
    """The right to work on a task: good while nobody has claimed it since."""

    task_id: str
    fence: int


class Yielded(NamedTuple):
    """What a yield gave."""

    statement_id: StatementId | None
    #: The number of the round that it was in.
    position: int
    values: dict[str, Any]


class Pruned(NamedTuple):
    """What `prune_runs` removed."""

    runs: int
    steps: int
    tasks: int


# What a decision reads


class View(Protocol):
    """One consistent state of the store, as long as the decision runs.

    What it gives are copies: a decision may change them, and hand them back in its changes.
    """

    def now_ms(self) -> int: ...

    def get_step(self, step_id: StepId) -> StepDefinition | None: ...

    def get_steps(self, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
        """Those that exist."""

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]: ...

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]: ...

    def get_yielded(self, container_id: StepId) -> list[Yielded]:
        """What all complete yields into this container gave. There may be very many."""

    def get_task(self, task_id: str) -> TaskDefinition | None: ...

    def get_open_tasks(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        """Pending and running tasks of a run."""

    def get_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
        """Those that exist."""

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        """Without its parameters: they may be large, and its root has them."""

    def get_run_and_task(
        self, workflow_id: WorkflowId, task_id: str
    ) -> tuple[RunnerDefinition | None, TaskDefinition | None]:
        """What a result begins with, as `get_run` and `get_task` give it: where each question
        takes a journey, both take one."""

    def get_runs(self, workflow_ids: Sequence[WorkflowId]) -> dict[WorkflowId, RunnerDefinition]:
        """Those that exist, each as `get_run` gives it."""

    def get_run_by_key(self, key: str) -> RunnerDefinition | None: ...

    def get_flow(self, flow_id: str) -> FlowDefinition | None: ...


#: Reads, computes, and says what to write and what to answer.
Decision = Callable[[View], tuple[IterationChanges, T]]


# The port, part by part


class Transactions(Protocol):
    def decide(self, decision: Decision[T]) -> T:
        """Run a decision and commit its changes; what it raises comes out, nothing is written."""

    def decide_later(self, decision: Decision[T]) -> Future[T]:
        """Like `decide`, but do not wait: decisions that wait together are committed together."""

    def commit(self, changes: IterationChanges) -> None:
        """Write what was decided elsewhere; `Conflict` if something was written since."""

    def now_ms(self) -> int:
        """The store's time in milliseconds since 1970."""

    def close(self) -> None: ...


class StepStore(Protocol):
    def get_step(self, step_id: StepId) -> StepDefinition | None: ...

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]: ...

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        """In the order of their creation, as all lists of steps."""

    def get_steps_by_state(self, state: str) -> list[StepDefinition]: ...

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]: ...

    def get_blocks_by_step(self, step_id: StepId) -> list[StepDefinition]:
        """The blocks whose container is this step."""

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None: ...

    def step_exists(self, statement_id: StatementId, block_id: BlockId | None) -> bool: ...

    def list_steps(
        self, workflow_id: WorkflowId, limit: int = 1000, cursor: str | None = None
    ) -> Page[StepDefinition]:
        """Steps of a run in the order of their creation. The cursor of the last page gives those
        that are created later."""

    def changed_steps(self, known: Mapping[StepId, int]) -> list[StepDefinition]:
        """Those of these steps whose `sequence` is not the given one any more."""

    def save_step(self, step: StepDefinition) -> None:
        """Insert or replace; raises `Conflict` if it was written since it was read, or if its
        statement has another step in that block. Afterwards `step.sequence` is the stored one."""


class EventStore(Protocol):
    """Events that were saved, and those of the engine, which are its tasks (`event_of`, for tasks
    whose `data_type` is EVENT_DATA)."""

    def get_event(self, event_id: EventId) -> EventDefinition | None: ...

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]: ...

    def get_all_events(self) -> list[EventDefinition]: ...

    def save_event(self, event: EventDefinition) -> None:
        """Insert or replace. Raises `Conflict` for the event of a task: move that instead."""


class TaskStore(Protocol):
    def get_task(self, task_id: str) -> TaskDefinition | None: ...

    def get_pending_tasks(self, task_list: str = DEFAULT_TASK_LIST) -> list[TaskDefinition]:
        """Oldest first."""

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        """Newest first."""

    def get_tasks_by_runner(self, runner_id: str) -> list[TaskDefinition]: ...

    def get_tasks_by_state(self, state: str, limit: int = 100) -> list[TaskDefinition]: ...

    def list_tasks(
        self, query: TaskQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[TaskDefinition]:
        """The newest tasks that fit, newest first."""

    def count_tasks(self, limit: int = COUNTED) -> dict[str, Count]:
        """How many there are in each state, counting no further than the limit. Not of those
        that are completed: they are kept without an index, and nobody waits for them."""

    def list_queues(self, limit: int = COUNTED) -> list[Queue]:
        """The pending tasks of each list and name, counting no further than the limit; by list
        and name. Costs what there are names, and what is counted."""

    def find_task_ids(self, prefix: str, limit: int = 10) -> list[str]:
        """Ids of tasks that begin like this, in their order."""

    def changed_tasks(self, known: Mapping[str, int]) -> list[TaskDefinition]:
        """Those of these tasks whose `version` is not the given one any more."""

    def save_task(self, task: TaskDefinition) -> None:
        """Insert or replace. Raises `Conflict` if a step would have two running tasks, if the
        task is over and would not stay as it is, or if somebody claimed it since it was read;
        saving the state that it has already changes nothing. An operator's way back from a
        terminal state is `Evaluator.retry_step`."""

    def update_task_state(self, task_id: str, state: str) -> bool:
        """Whether it was allowed (`TASK_TRANSITIONS`). Ending a claimed task raises its fence."""

    def claim_task(
        self, task_names: list[str], task_list: str = DEFAULT_TASK_LIST
    ) -> TaskDefinition | None:
        """At most one caller gets a task. See `claim_tasks`; owner is this store object."""

    def claim_tasks(
        self,
        task_names: Sequence[str],
        limit: int,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        owner: str | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        is_told: bool = False,
        is_durable: bool = False,
    ) -> list[TaskDefinition]:
        """Up to `limit` tasks, in one commit: RUNNING, with owner, lease, a grown fence and one
        more delivery.

        Claimable is what is pending, not held, and due (`not_before`), and what is running under
        a lease that has lapsed. A qualified name matches tasks of exactly this name; a name
        without a dot also those that end in it (`F` takes `a.F`). Retries that have become due
        come first, then exact names, then short ones, each oldest first. A step that has a
        running task lends no second one.

        Who `is_told` of something new (`Wake.NEWS`) wants that, and soon: a store may leave all
        else to the next claim, and gives nothing of abandoned claims.

        A claim outlasts whatever its holder may outlast. A store whose loss of power ends all
        holders may undo a claim by one, so that the task waits again, until its lease is extended;
        but never one that is to be `is_durable`.
        """

    def extend_leases(
        self, claims: Sequence[Claim], lease_ms: int = DEFAULT_LEASE_MS
    ) -> list[bool]:
        """Let each lease end `lease_ms` from now; False for a claim that is lost. A lease that
        has lapsed is renewed as long as nobody has claimed that task. Never makes one shorter.
        Durable, as all that is written, and the claims with it."""

    def release_task(self, claim: Claim, *, not_before: int = 0) -> bool:
        """Give unstarted or interrupted work back, to its place in the queue; the delivery does
        not count. False if the claim is lost."""

    def wait_for_work(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        stop: threading.Event | None = None,
    ) -> bool:
        """Wait until a task with one of these names can be claimed: True. False at the timeout
        and when `stop` is set. Wakes for new tasks, for leases that lapse and for retries that
        become due."""

    def wait_for_news(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        stop: threading.Event | None = None,
    ) -> Wake:
        """Like `wait_for_work`; but where looking takes as long as claiming, it may end at any news
        of the list, unlooked."""


class LockStore(Protocol):
    """Locks belong to an owner: this store object, unless `owner` says otherwise."""

    def acquire_lock(
        self,
        key: str,
        duration_ms: int,
        meta: LockMetaData | None = None,
        *,
        owner: str | None = None,
    ) -> bool:
        """False while somebody else holds it; the holder itself gets it again."""

    def release_lock(self, key: str, *, owner: str | None = None) -> bool: ...

    def check_lock(self, key: str) -> LockDefinition | None:
        """None if nobody holds it now."""

    def extend_lock(self, key: str, duration_ms: int, *, owner: str | None = None) -> bool:
        """Let it end `duration_ms` from now; False if it is not held, or by somebody else."""

    def get_all_locks(self) -> list[LockDefinition]:
        """Those that somebody holds now."""


class FleetStore(Protocol):
    def save_server(self, server: ServerDefinition) -> None: ...

    def get_server(self, server_id: str) -> ServerDefinition | None: ...

    def update_server_ping(self, server_id: str, ping_time: int) -> None: ...

    def get_all_servers(self) -> list[ServerDefinition]: ...

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]: ...

    def beat_server(self, server: ServerDefinition) -> str:
        """Save how a server stands, with the store's time as its ping; what is `wanted` of it,
        which this leaves as it is. Incidents that others reported are kept."""

    def ask_server(self, server_id: str, wanted: str) -> bool:
        """Say what an operator wants of a server; whether it is there."""

    def attend_server(self, server_id: str, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called whenever something is asked of a server, now and then also for
        nothing. It is called on any thread, and must wait for nobody. Call what this gives to end
        it."""

    def report_incident(self, server_id: str, incident: Mapping[str, Any]) -> bool:
        """Declare a server that ended without saying so: ERROR, with this incident. False if it
        is not there, or is SHUTDOWN or ERROR already: each end is reported once."""

    def prune_servers(self, keep_ms: int, limit: int = 100) -> int:
        """Remove up to `limit` servers that were not heard of for more than `keep_ms`, whatever
        they said last; how many there were."""


class FlowStore(Protocol):
    def save_flow(self, flow: FlowDefinition) -> None: ...

    def get_flow(self, flow_id: str) -> FlowDefinition | None: ...

    def get_flow_by_path(self, path: str) -> FlowDefinition | None: ...

    def get_flow_by_name(self, name: str) -> FlowDefinition | None: ...

    def get_all_flows(self) -> list[FlowDefinition]: ...

    def delete_flow(self, flow_id: str) -> bool:
        """Raises `Conflict` while a run needs it."""

    def save_workflow(self, workflow: WorkflowDefinition) -> None: ...

    def get_workflow(self, workflow_id: str) -> WorkflowDefinition | None: ...

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None: ...

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]: ...

    def get_all_workflows(self, limit: int = 100) -> list[WorkflowDefinition]: ...


class RunStore(Protocol):
    """Runs are `RunnerDefinition`s: `workflow_id` is the id of the run, `uuid` that of its
    record. They are the same unless the caller of `execute` gave a `runner_id`. A key belongs to
    one run: another one with it is a `Conflict`."""

    def save_runner(self, runner: RunnerDefinition) -> None: ...

    def get_runner(self, runner_id: str) -> RunnerDefinition | None: ...

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None: ...

    def get_run_by_key(self, key: str) -> RunnerDefinition | None: ...

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]: ...

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]: ...

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        """Newest first."""

    def list_runs(
        self, query: RunQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[RunnerDefinition]:
        """The newest runs that fit, newest first, without their parameters."""

    def count_runs(self, limit: int = COUNTED) -> dict[str, Count]:
        """How many there are in each state that some are in, counting no further than the
        limit."""

    def list_run_workflows(self) -> list[str]:
        """The qualified names of workflows that there are runs of, in their order."""

    def find_run_ids(self, prefix: str, limit: int = 10) -> list[str]:
        """Ids of runs (`workflow_id`) that begin like this, in their order."""

    def update_runner_state(self, runner_id: str, state: str) -> bool:
        """Whether the run is there. An end sets its end time, which its retention counts from."""

    def wait_for_run(
        self,
        workflow_id: WorkflowId,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        """Wait until the run is over: True. False at the timeout and when `stop` is set."""

    def changes_seen(self, workflow_id: WorkflowId) -> int:
        """A number, good for this store object only, that changes when something of the run may
        have: its steps, tasks, logs, or the run itself. Take it before you look at them.

        A claim of a task alone need not change it: who shows claims looks again by himself.
        """

    def wait_for_change(
        self,
        workflow_id: WorkflowId,
        seen: int,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        """Wait until `changes_seen` is not `seen`: True, now and then also for nothing. False at
        the timeout and when `stop` is set.

        Where a run has a record of another id (`runner_id`), logs are announced by that one, and
        tasks and the run itself by both.
        """

    def prune_runs(self, keep_ms: int, limit: int = 100) -> Pruned:
        """Remove up to `limit` runs that ended more than `keep_ms` ago (or as long ago as their
        own `retain` says), with their steps, tasks, events and logs, and flows that no run
        needs any more and that have no name."""


class HandlerStore(Protocol):
    def register_handler(
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = "handle",
        *,
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int = 30000,
        requirements: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        isolation: str = Isolation.THREAD,
        on_lost: str = OnLost.REDELIVER,
    ) -> HandlerRegistration:
        """Make a registration and save it."""

    def save_handler_registration(self, registration: HandlerRegistration) -> None:
        """Insert or replace by facet name."""

    def get_handler_registration(self, facet_name: str) -> HandlerRegistration | None: ...

    def list_handler_registrations(self) -> list[HandlerRegistration]: ...

    def delete_handler_registration(self, facet_name: str) -> bool: ...

    def set_load_error(
        self, registration: HandlerRegistration, error: Mapping[str, Any] | None
    ) -> bool:
        """Say how loading a registration went; False if it was changed or removed since it was
        read. Not a change of the registration: nobody is woken."""

    def registrations_version(self) -> int:
        """A number that changes with every registration that is saved or removed."""

    def wait_for_registrations(
        self, seen: int, timeout: float | None = None, *, stop: threading.Event | None = None
    ) -> bool:
        """Wait until `registrations_version` is not `seen`: True. False at the timeout and when
        `stop` is set."""


class LogStore(Protocol):
    def save_log(self, log: LogDefinition) -> None: ...

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        """In their order."""

    def list_logs(
        self, runner_id: str, limit: int = 1000, cursor: str | None = None
    ) -> Page[LogDefinition]:
        """Lines in the order of their arrival. The cursor of the last page gives those that
        arrive later, each once."""


class SourceStore(Protocol):
    def save_published_source(self, source: PublishedSource) -> None: ...

    def get_source_by_namespace(
        self, name: str, version: str = "latest"
    ) -> PublishedSource | None: ...

    def get_sources_by_namespaces(
        self, names: Sequence[str], version: str = "latest"
    ) -> dict[str, PublishedSource]: ...

    def delete_published_source(self, name: str, version: str = "latest") -> bool: ...

    def list_published_sources(self) -> list[PublishedSource]: ...


@runtime_checkable
class PersistenceAPI(
    Transactions,
    StepStore,
    EventStore,
    TaskStore,
    LockStore,
    FleetStore,
    FlowStore,
    RunStore,
    HandlerStore,
    LogStore,
    SourceStore,
    Protocol,
):
    """All of it: what the runtime asks of a store."""
