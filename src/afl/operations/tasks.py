"""Tasks: list them, see who could do them, try them again, give them up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from afl.operations import fleet
from afl.operations.paging import from_cursor
from afl.operations.reading import attempts, moment, require_state
from afl.runtime.claims import revived
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.errors import InvalidTaskStateError, TaskNotFoundError
from afl.runtime.evaluator import Evaluator
from afl.runtime.listing import Count, Page, TaskQuery
from afl.runtime.names import handler_for
from afl.runtime.own_lists import OWN_LIST
from afl.runtime.persistence import IterationChanges, PersistenceAPI, View
from afl.runtime.types import StepId, WorkflowId

#: Pages of pending tasks that are looked through for one page of those that nobody serves.
_PAGES = 20
#: Ends of a task after which it may be tried again.
_RETRIED = (TaskState.FAILED, TaskState.DEAD_LETTER)


@dataclass(frozen=True)
class TaskView:
    task: str
    #: Qualified facet name.
    facet: str
    state: str
    run: str
    step: str
    task_list: str
    #: How often it was handed out, and not given back.
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
        return self.serves_name(task.name, task.task_list_name)

    def serves_name(self, name: str, task_list: str) -> bool:
        """The same of all tasks of a name in a list."""
        # Who runs a list of its own does all of its tasks; the store knows no server of it.
        if task_list.startswith(OWN_LIST):
            return True
        key = (name, task_list)
        if key not in self._known:
            names = self.registered | self.by_servers.get(task_list, frozenset())
            self._known[key] = handler_for(name, names) is not None
        return self._known[key]


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


# Queues


@dataclass(frozen=True)
class QueueView:
    """Pending tasks of one facet in one task list."""

    task_list: str
    #: Qualified facet name.
    facet: str
    waiting: Count
    #: Those of paused runs.
    held: Count
    #: How long the next one has waited; 0 if none does.
    oldest_age_s: float
    #: Nobody is there who could do them.
    is_unserved: bool


def queues(store: PersistenceAPI) -> list[QueueView]:
    """What waits, by list and facet."""
    who, now = serving(store), store.now_ms()
    return [
        QueueView(
            each.task_list,
            each.name,
            each.waiting,
            each.held,
            max(now - each.oldest, 0) / 1000 if each.oldest else 0.0,
            not who.serves_name(each.name, each.task_list),
        )
        for each in store.list_queues()
    ]


def unserved(store: PersistenceAPI, limit: int = 100) -> list[TaskDefinition]:
    """Pending tasks that nobody can do: no enabled registration has their name, and no server
    that is alive. They wait until one comes; nothing fails them."""
    return _unserved(store, TaskQuery(), limit, None, serving(store)).items


def _unserved(
    store: PersistenceAPI, query: TaskQuery, limit: int, cursor: str | None, who: Serving
) -> Page[TaskDefinition]:
    """Pages of pending tasks are looked through, but only if some queue has such tasks."""
    names = [
        (each.task_list, each.name)
        for each in store.list_queues(0)
        if not who.serves_name(each.name, each.task_list)
    ]
    query = replace(query, state=TaskState.PENDING)
    if len(names) == 1:
        [(task_list, name)] = names
        fits = query.names(name) and query.task_list in (None, task_list)
        names = names if fits else []
        query = replace(query, name=name, task_list=task_list)
    page = Page[TaskDefinition]([], cursor or "", bool(names))
    found: list[TaskDefinition] = []
    for _ in range(_PAGES):
        if not page.has_more or len(found) >= limit:
            break
        # No more than are still wanted: the cursor must not pass over any.
        page = store.list_tasks(query, limit - len(found), page.cursor or None)
        found += [each for each in page.items if not who.serves(each)]
    return replace(page, items=found)


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


@dataclass(frozen=True)
class TaskPage:
    """Some tasks of a list, newest first."""

    tasks: tuple[TaskView, ...]
    #: What gives the next page; None if this is the last one. A page may be short and not the
    #: last: the store looks at a number of tasks for each.
    cursor: str | None


def task_page(
    store: PersistenceAPI,
    *,
    state: str | None = None,
    facet: str | None = None,
    task_list: str | None = None,
    run: str | None = None,
    only_unserved: bool = False,
    limit: int = 50,
    cursor: str | None = None,
) -> TaskPage:
    """The newest tasks that fit, from a cursor on. `facet` is a qualified or a short name, `run`
    the id of a run.

    Raises UsageError for a state that no task can have, and for a cursor that is none.
    """
    if state is not None:
        require_state(state, TaskState)
    who, query = serving(store), TaskQuery(state, facet, task_list, run)
    with from_cursor(cursor):
        if only_unserved:
            page = _unserved(store, query, limit, cursor, who)
        else:
            page = store.list_tasks(query, limit, cursor)
    return TaskPage(
        tuple(view(each, who) for each in page.items), page.cursor if page.has_more else None
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
    """The first `limit` tasks that fit, newest first. Asks for pages until there are enough."""
    found: list[TaskView] = []
    cursor: str | None = None
    while True:
        page = task_page(
            store,
            state=state,
            facet=facet,
            task_list=task_list,
            only_unserved=only_unserved,
            limit=limit - len(found),
            cursor=cursor,
        )
        found += page.tasks
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return found


# Acting


def retry(evaluator: Evaluator, task: TaskDefinition) -> None:
    """Try a failed task or a dead letter again, and all that failed because of it.

    Raises InvalidStepStateError, InvalidRunStateError or InvalidTaskStateError if that cannot be.
    """
    if task.step_id:
        evaluator.retry_step(StepId(task.step_id))
    else:
        _retry_alone(evaluator.persistence, task.uuid)


def _retry_alone(store: PersistenceAPI, task_id: str) -> None:
    """A task of no step, such as one that asks to start a run: nothing else failed because of
    it."""

    def decision(view: View) -> tuple[IterationChanges, None]:
        task = view.get_task(task_id)
        if task is None:
            raise TaskNotFoundError(task_id)
        if task.state not in _RETRIED:
            advice = f"only one that is {' or '.join(_RETRIED)} can be tried again"
            raise InvalidTaskStateError(task_id, task.state, advice)
        run = view.get_run(WorkflowId(task.workflow_id)) if task.workflow_id else None
        is_held = run is not None and run.state == RunnerState.PAUSED
        again = revived(task, view.now_ms(), held=is_held)
        return IterationChanges(updated_tasks=[again]), None

    store.decide(decision)


def discard(evaluator: Evaluator, task: TaskDefinition, reason: str) -> bool:
    """Give a task up: no handler will ever come, or its failure was seen. A step that waited for
    it fails with this reason. False if it was given up before."""
    return evaluator.discard_task(task.uuid, reason)
