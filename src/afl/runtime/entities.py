"""The records that a store keeps beside steps. All times are whole milliseconds since 1970.

Field names, order and defaults are a public contract; what came later stands at the end of each
record and has a default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from afl.runtime.names import short_name
from afl.runtime.states import EventState
from afl.runtime.types import EventId, StepId, WorkflowId

# Tasks


class TaskState(StrEnum):
    #: Waiting to be claimed.
    PENDING = "pending"
    #: Claimed under a lease.
    RUNNING = "running"
    COMPLETED = "completed"
    #: The handler failed; waits for an operator or a declared retry.
    FAILED = "failed"
    #: No handler will ever come; said by an operator.
    IGNORED = "ignored"
    #: Ended by its run or by an operator.
    CANCELED = "canceled"
    #: Delivered too often without an end.
    DEAD_LETTER = "dead_letter"


#: What may follow a state. Terminal states are final, except that an operator may try again.
TASK_TRANSITIONS: dict[str, frozenset[str]] = {
    # An operator may end a task that nobody has claimed.
    TaskState.PENDING: frozenset(
        {
            TaskState.RUNNING,
            TaskState.COMPLETED,
            TaskState.FAILED,
            TaskState.IGNORED,
            TaskState.CANCELED,
            TaskState.DEAD_LETTER,
        }
    ),
    TaskState.RUNNING: frozenset(
        {
            TaskState.PENDING,
            TaskState.COMPLETED,
            TaskState.FAILED,
            TaskState.IGNORED,
            TaskState.CANCELED,
            TaskState.DEAD_LETTER,
        }
    ),
    TaskState.COMPLETED: frozenset(),
    # Nobody will try again: an operator has seen it.
    TaskState.FAILED: frozenset({TaskState.PENDING, TaskState.IGNORED}),
    TaskState.IGNORED: frozenset({TaskState.PENDING}),
    TaskState.CANCELED: frozenset(),
    TaskState.DEAD_LETTER: frozenset({TaskState.PENDING, TaskState.IGNORED}),
}


#: Somebody will still work on it.
OPEN_TASK_STATES = frozenset({TaskState.PENDING, TaskState.RUNNING})


#: `data_type` of the task of an event step.
EVENT_DATA = "event"


@dataclass
class TaskDefinition:
    """The claimable work of an event step, or of the runtime itself (`afl:…`)."""

    uuid: str
    #: Qualified facet name.
    name: str
    runner_id: str
    workflow_id: str
    flow_id: str
    step_id: str
    state: str = TaskState.PENDING
    created: int = 0
    updated: int = 0
    error: dict[str, Any] | None = None
    task_list_name: str = "default"
    data_type: str = ""
    #: The payload: the parameters of the step.
    data: dict[str, Any] | None = None
    #: Who holds the lease.
    owner: str = ""
    lease_expires: int = 0
    #: Grows with every claim; a write with an old one is refused.
    fence: int = 0
    #: How often it was claimed. A `release` takes the claim back.
    deliveries: int = 0
    #: How often its handler failed.
    failures: int = 0
    #: Not claimable before this time: the wait of a retry.
    not_before: int = 0
    #: Stays the same over retries and restarts; handlers hand it on.
    idempotency_key: str = ""
    #: How long the lease was given for. Kept beside its end, so that a clock that was set back
    #: makes no lease endless.
    lease_ms: int = 0
    #: Its run is paused: nobody may claim it.
    held: bool = False
    #: How long its handler may take; 0 leaves that to the registration.
    timeout_ms: int = 0
    #: How often its handler may be tried in all; 0: once, and an operator decides.
    max_attempts: int = 0
    #: Wait before the second try; doubled each time.
    backoff_ms: int = 0
    #: Grows with every write.
    version: int = 0

    @property
    def short_name(self) -> str:
        """The name behind the last dot."""
        return short_name(self.name)

    @property
    def is_over(self) -> bool:
        return self.state not in OPEN_TASK_STATES


# Events


@dataclass
class EventDefinition:
    """What is asked of the outside world, and how far that has come. Its task distributes it."""

    id: EventId
    step_id: StepId
    workflow_id: WorkflowId
    state: str = EventState.CREATED
    #: Qualified facet name.
    event_type: str = ""
    payload: dict[str, Any] = field(default_factory=dict)


# Runs


class RunnerState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


#: Nothing more will happen, unless an operator retries a step of a failed run.
ENDED_RUNNER_STATES = frozenset({RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELLED})


@dataclass
class Parameter:
    name: str
    value: Any
    type_hint: str = "Any"


@dataclass
class UserDefinition:
    email: str
    name: str = ""
    avatar: str = ""


@dataclass
class WorkflowMetaData:
    description: str = ""
    author: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class WorkflowDefinition:
    """A workflow of a flow, as it can be started."""

    uuid: str
    name: str
    namespace_id: str
    facet_id: str
    flow_id: str
    starting_step: str
    version: str
    metadata: WorkflowMetaData | None = None
    documentation: dict[str, Any] | None = None
    date: int = 0


@dataclass
class RunnerDefinition:
    """One run of a workflow."""

    uuid: str
    workflow_id: str
    workflow: WorkflowDefinition
    parameters: list[Parameter] = field(default_factory=list)
    step_id: str | None = None
    user: UserDefinition | None = None
    start_time: int = 0
    end_time: int = 0
    duration: int = 0
    #: Milliseconds to keep it after its end; 0: as the store is told, -1: for ever.
    retain: int = 0
    state: str = RunnerState.CREATED
    #: Where the tasks of the run are queued.
    task_list: str = "default"
    #: Submitting the same key again gives the same run.
    key: str | None = None
    #: Why it failed: `message`, `type`, and where in the text.
    error: dict[str, Any] | None = None
    #: Grows with every write.
    version: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in ENDED_RUNNER_STATES


# Flows and sources


@dataclass
class SourceText:
    name: str
    content: str
    language: str = "afl"


@dataclass
class FlowIdentity:
    name: str
    path: str
    uuid: str


@dataclass
class FlowDefinition:
    """A program as it was handed in: its texts, and what it compiles to."""

    uuid: str
    name: FlowIdentity
    compiled_sources: list[SourceText] = field(default_factory=list)
    #: Identity of the compiled program.
    digest: str = ""
    #: The compiled program itself, as JSON: what runs of this flow go on with, anywhere.
    program: str = ""


@dataclass
class PublishedSource:
    """A text that other programs find by its namespace."""

    uuid: str
    namespace_name: str
    source_text: str
    namespaces_defined: list[str] = field(default_factory=list)
    version: str = "latest"
    published_at: int = 0
    origin: str = ""
    checksum: str = ""


# Handlers


class Isolation(StrEnum):
    """Where a handler runs."""

    #: In this process: on a thread, or on the event loop if it is a coroutine function.
    THREAD = "thread"
    #: In a process that can be killed.
    PROCESS = "process"


class OnLost(StrEnum):
    """What becomes of a task whose worker died while it had it."""

    #: Another worker does it; the idempotency key protects what must not happen twice.
    REDELIVER = "redeliver"
    #: A person decides: it becomes a dead letter.
    UNKNOWN = "unknown"


@dataclass
class HandlerRegistration:
    """Where the handler of a facet is. `facet_name` is the key."""

    facet_name: str
    module_uri: str
    entrypoint: str = "handle"
    version: str = "1.0.0"
    checksum: str = ""
    timeout_ms: int = 30000
    requirements: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    created: int = 0
    updated: int = 0
    isolation: str = Isolation.THREAD
    on_lost: str = OnLost.REDELIVER
    is_enabled: bool = True
    #: Why a worker could not load it: `message`, `server`, `time`. None once one could.
    load_error: dict[str, Any] | None = None


# Fleet


class ServerState(StrEnum):
    STARTUP = "startup"
    RUNNING = "running"
    SHUTDOWN = "shutdown"
    ERROR = "error"


@dataclass
class HandledCount:
    handler: str
    handled: int = 0
    not_handled: int = 0


@dataclass
class MinuteCount:
    """What a server finished in one minute."""

    #: Its beginning.
    time: int
    handled: int = 0
    not_handled: int = 0


@dataclass
class ServerDefinition:
    """A worker process as the store sees it."""

    uuid: str
    server_group: str
    service_name: str
    server_name: str
    server_ips: list[str] = field(default_factory=list)
    start_time: int = 0
    ping_time: int = 0
    topics: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    handled: list[HandledCount] = field(default_factory=list)
    state: str = ServerState.STARTUP
    #: Who hands out its process id: the same id of another one is another process.
    manager: str = ""
    error: dict[str, Any] | None = None
    #: Where its status can be read; 0 if it serves none.
    http_port: int = 0
    version: str = ""
    task_list: str = "default"
    host: str = ""
    pid: int = 0
    #: Pieces of work it has in hand.
    in_flight: int = 0
    #: What an operator asked of it: `drain`, or nothing.
    wanted: str = ""
    #: What went wrong with it: `kind`, `message`, `time`.
    incidents: list[dict[str, Any]] = field(default_factory=list)
    #: How often it beats; 0 if it does not say.
    beat_ms: int = 0
    #: What it finished in the last hour, by minutes; counted by the store, from beat to beat.
    finished: list[MinuteCount] = field(default_factory=list)
    #: The phase of its process, as it said with its last beat.
    phase: str = ""


# Locks


@dataclass
class LockMetaData:
    topic: str | None = None
    handler: str | None = None
    step_name: str | None = None
    step_id: str | None = None


@dataclass
class LockDefinition:
    key: str
    acquired_at: int = 0
    expires_at: int = 0
    meta: LockMetaData | None = None
    owner: str = ""


# Logs


class NoteType(StrEnum):
    ERROR = "error"
    INFO = "info"
    WARNING = "warning"


class NoteOriginator(StrEnum):
    WORKFLOW = "workflow"
    AGENT = "agent"


class NoteImportance(IntEnum):
    HIGH = 1
    NORMAL = 5
    LOW = 10


@dataclass
class LogDefinition:
    """A line in the log of a run."""

    uuid: str
    order: int
    runner_id: str
    step_id: str | None = None
    object_id: str = ""
    object_type: str = ""
    note_originator: str = NoteOriginator.WORKFLOW
    note_type: str = NoteType.INFO
    note_importance: int = NoteImportance.NORMAL
    message: str = ""
    state: str = ""
    line: int = 0
    file: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    time: int = 0
