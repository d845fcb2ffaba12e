"""What a claim does to a task. Pure: stores and the evaluator read, ask here, and write.

`claimed`, `extended` and `released` are writes of the store and count the version up; the others
go into a commit, which does that.

A lease holds while `now < lease_expires <= now + lease_ms`, by the store's clock. An end further
ahead than the lease is long can only come from a clock that was set back, and counts as over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.errors import Conflict
from afl.runtime.entities import (
    OPEN_TASK_STATES,
    TASK_TRANSITIONS,
    TaskDefinition,
    TaskState,
)
from afl.runtime.errors import InvalidTaskStateError
from afl.runtime.names import short_name

#: A lease lasts this long unless it is renewed; renewal comes at every third of it.
DEFAULT_LEASE_MS = 15_000


def _changed(task: TaskDefinition, **changes: Any) -> TaskDefinition:
    # `dataclasses.replace` takes ten times as long, and every claim and result comes here.
    twin = TaskDefinition.__new__(TaskDefinition)
    vars(twin).update(vars(task), **changes)
    return twin


@dataclass(frozen=True, slots=True)
class NextClaim:
    """What a worker would go on with: tasks that its result makes possible, claimed in the same
    commit. They come before others that wait, so that a run goes on where it is."""

    names: frozenset[str]
    owner: str
    limit: int = 1
    lease_ms: int = DEFAULT_LEASE_MS
    #: If the result makes fewer possible, then others that wait in this list.
    task_list: str | None = None

    def wants(self, name: str) -> bool:
        return name in self.names or short_name(name) in self.names


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a handler may be tried, and how long to wait in between."""

    #: In all; 0 asks for nothing.
    max_attempts: int = 0
    #: Wait before the second try; doubled each time.
    backoff_ms: int = 0

    def may_follow(self, failures: int) -> bool:
        """Whether there may be another try after so many failures."""
        return failures < self.max_attempts

    def delay_ms(self, failures: int) -> int:
        """The wait after so many failures."""
        return self.backoff_ms << min(failures - 1, 30)


NO_RETRY = RetryPolicy()


def retry_of(task: TaskDefinition, of_handler: RetryPolicy | None) -> RetryPolicy:
    """What the program asks for goes before what the registration of the handler does."""
    if task.max_attempts:
        return RetryPolicy(task.max_attempts, task.backoff_ms)
    return of_handler or NO_RETRY


def lease_holds(task: TaskDefinition, now: int) -> bool:
    return task.state == TaskState.RUNNING and now < task.lease_expires <= now + task.lease_ms


def is_claimable(task: TaskDefinition, now: int) -> bool:
    """Whether somebody may have it now: waiting and due, or abandoned."""
    if task.held:
        return False
    if task.state == TaskState.RUNNING:
        return not lease_holds(task, now)
    return task.state == TaskState.PENDING and task.not_before <= now


def claimable_at(task: TaskDefinition, now: int) -> int | None:
    """When a task that is not claimable now becomes so by itself; None: never."""
    if task.held or task.state not in OPEN_TASK_STATES:
        return None
    return task.lease_expires if task.state == TaskState.RUNNING else max(task.not_before, now)


def claimed(task: TaskDefinition, owner: str, now: int, lease_ms: int) -> TaskDefinition:
    return _changed(
        task,
        state=TaskState.RUNNING,
        owner=owner,
        fence=task.fence + 1,
        deliveries=task.deliveries + 1,
        lease_ms=lease_ms,
        lease_expires=now + lease_ms,
        not_before=0,
        updated=now,
        version=task.version + 1,
    )


def extended(task: TaskDefinition, now: int, lease_ms: int) -> TaskDefinition:
    """A longer lease, never a shorter one."""
    ends = max(now + lease_ms, task.lease_expires if lease_holds(task, now) else 0)
    return _changed(task, lease_expires=ends, lease_ms=ends - now, version=task.version + 1)


def released(task: TaskDefinition, now: int, not_before: int = 0) -> TaskDefinition:
    """Back in its place, as if it had not been claimed; only the fence remembers."""
    return _changed(
        task,
        state=TaskState.PENDING,
        owner="",
        lease_expires=0,
        lease_ms=0,
        deliveries=max(task.deliveries - 1, 0),
        not_before=not_before,
        updated=now,
        version=task.version + 1,
    )


def ended(
    task: TaskDefinition, state: str, now: int, error: dict[str, Any] | None = None
) -> TaskDefinition:
    """In a terminal state. Whoever held a claim has lost it: the fence grows."""
    return _changed(
        task,
        state=state,
        owner="",
        lease_expires=0,
        lease_ms=0,
        fence=task.fence + 1,
        error=error,
        updated=now,
    )


def to_be_retried(
    task: TaskDefinition, now: int, error: dict[str, Any], *, not_before: int
) -> TaskDefinition:
    """Its handler failed and may try again. Its deliveries came to an end, so they count anew."""
    return _changed(
        released(task, now, not_before),
        deliveries=0,
        failures=task.failures + 1,
        error=error,
        version=task.version,
    )


def revived(task: TaskDefinition, now: int, *, held: bool) -> TaskDefinition:
    """Back in the queue by an operator's will, as if it were new; only the fence remembers."""
    return _changed(
        released(task, now),
        deliveries=0,
        failures=0,
        error=None,
        held=held,
        version=task.version,
    )


def discarded(task: TaskDefinition, now: int, reason: str) -> TaskDefinition | None:
    """Given up by an operator; None if it was, or is over in another way.

    One that failed keeps its error. Raises InvalidTaskStateError while somebody works on it.
    """
    if lease_holds(task, now):
        advice = (
            f"'{task.owner}' works on it: wait for its end, or drain that worker, or cancel the run"
        )
        raise InvalidTaskStateError(task.uuid, task.state, advice)
    if not may_follow(task.state, TaskState.IGNORED):
        return None
    error = task.error if task.is_over else {"message": reason, "type": "Discarded"}
    return ended(task, TaskState.IGNORED, now, {**(error or {}), "discarded": reason})


def was_never_over(task: TaskDefinition) -> bool:
    """Whether this is its first life: claims and ends both count the fence up."""
    return task.fence == (1 if task.state == TaskState.RUNNING else 0)


def holds(task: TaskDefinition | None, fence: int) -> bool:
    """Whether a claim with this fence is still the last one."""
    return task is not None and task.state == TaskState.RUNNING and task.fence == fence


def may_follow(state: str, following: str) -> bool:
    return following in TASK_TRANSITIONS.get(state, frozenset())


def check_save(stored: TaskDefinition | None, task: TaskDefinition) -> bool:
    """Whether saving `task` over `stored` changes anything. Raises Conflict if it must not.

    A record that was read before somebody claimed or ended the task says nothing about it now.
    """
    if stored is None:
        return True
    if stored.state == task.state and stored.state not in OPEN_TASK_STATES:
        return False
    if stored.state != task.state and not may_follow(stored.state, task.state):
        raise Conflict(f"task {task.uuid} is {stored.state} and cannot become {task.state}")
    if stored.state not in OPEN_TASK_STATES:
        raise Conflict(f"task {task.uuid} is {stored.state}; only a retry of its step revives it")
    if stored.fence != task.fence:
        raise Conflict(f"task {task.uuid} was claimed since it was read; read it again")
    return True
