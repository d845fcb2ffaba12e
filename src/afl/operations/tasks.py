"""Tasks: list them, see who could do them, try them again, give them up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from afl.operations import fleet
from afl.operations.finding import newest_that_fit
from afl.operations.reading import attempts, moment, require_state
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.names import AmbiguousHandler, handler_for, short_name
from afl.runtime.own_lists import OWN_LIST
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import StepId

#: Tasks of the runtime itself are called so; every worker does them.
_OWN_NAMES = "afl:"


@dataclass(frozen=True)
class TaskView:
    task: str
    #: Qualified facet name.
    facet: str
    state: str
    run: str
    step: str
    task_list: str
    #: How often a handler began with it.
    attempts: int
    created: datetime | None
    updated: datetime | None
    #: Who has it now.
    owner: str
    lease_expires: datetime | None
    #: When a retry is due.
    not_before: datetime | None
    #: Its run is paused.
    is_held: bool
    #: It waits, and nobody is there who could do it.
    is_unserved: bool
    idempotency_key: str
    inputs: dict[str, Any]
    error: dict[str, Any] | None


# Who can do what


@dataclass(frozen=True)
class Serving:
    """The names that somebody serves: registered and enabled, or of a server that is alive."""

    registered: frozenset[str]
    #: Names by task list.
    by_servers: dict[str, frozenset[str]]
    _known: dict[tuple[str, str], bool] = field(default_factory=dict)

    def serves(self, task: TaskDefinition) -> bool:
        """Whether the task need not wait for ever. Registrations serve every task list, because a
        worker for it can be started at any time."""
        # Who runs a list of its own does all of its tasks; the store knows no server of it.
        if task.task_list_name.startswith(OWN_LIST) or task.name.startswith(_OWN_NAMES):
            return True
        key = (task.name, task.task_list_name)
        if key not in self._known:
            names = self.registered | self.by_servers.get(task.task_list_name, frozenset())
            self._known[key] = _is_served(task.name, names)
        return self._known[key]


def _is_served(name: str, names: frozenset[str]) -> bool:
    try:
        return handler_for(name, names) is not None
    except AmbiguousHandler:  # nobody knows which one is meant, so nobody takes it
        return False


def serving(store: PersistenceAPI) -> Serving:
    """Who could do tasks now."""
    registered = {each.facet_name for each in store.list_handler_registrations() if each.is_enabled}
    by_servers: dict[str, frozenset[str]] = {}
    now = store.now_ms()
    for each in store.get_all_servers():
        if fleet.is_alive(each, now):
            known = by_servers.get(each.task_list, frozenset())
            by_servers[each.task_list] = known | set(each.handlers)
    return Serving(frozenset(registered), by_servers)


def unserved(store: PersistenceAPI, limit: int = 100) -> list[TaskDefinition]:
    """Pending tasks that nobody can do: no enabled registration has their name, and no server
    that is alive. They wait until one comes; nothing fails them."""
    who = serving(store)
    return newest_that_fit(_in_state(store, TaskState.PENDING), lambda t: not who.serves(t), limit)


# Looking


def view(task: TaskDefinition, who: Serving) -> TaskView:
    return TaskView(
        task.uuid,
        task.name,
        str(task.state),
        task.workflow_id,
        task.step_id,
        task.task_list_name,
        attempts(task),
        moment(task.created),
        moment(task.updated),
        task.owner,
        moment(task.lease_expires),
        moment(task.not_before),
        task.held,
        task.state == TaskState.PENDING and not who.serves(task),
        task.idempotency_key,
        task.data or {},
        task.error,
    )


def list_tasks(
    store: PersistenceAPI,
    *,
    state: str | None = None,
    facet: str | None = None,
    task_list: str | None = None,
    only_unserved: bool = False,
    limit: int = 50,
) -> list[TaskView]:
    """The newest tasks, newest first. `facet` is a qualified or a short name.

    Raises UsageError for a state that no task can have.
    """
    if state is not None:
        require_state(state, TaskState)
    who = serving(store)

    def fits(task: TaskDefinition) -> bool:
        return (
            (facet is None or facet in (task.name, short_name(task.name)))
            and (task_list is None or task_list == task.task_list_name)
            and not (only_unserved and who.serves(task))
        )

    wanted = TaskState.PENDING if only_unserved else state
    found = newest_that_fit(_in_state(store, wanted), fits, limit)
    return [view(each, who) for each in found]


def _in_state(store: PersistenceAPI, state: str | None) -> Callable[[int], list[TaskDefinition]]:
    if state is None:
        return store.get_all_tasks
    return lambda limit: store.get_tasks_by_state(state, limit)


# Acting


def retry(evaluator: Evaluator, task: TaskDefinition) -> None:
    """Try a failed task or a dead letter again, and all that failed because of it.

    Raises InvalidStepStateError or InvalidRunStateError if that cannot be.
    """
    evaluator.retry_step(StepId(task.step_id))


def discard(evaluator: Evaluator, task: TaskDefinition, reason: str) -> bool:
    """Give a task up: no handler will ever come, or its failure was seen. A step that waited for
    it fails with this reason. False if it was given up before."""
    return evaluator.discard_task(task.uuid, reason)
