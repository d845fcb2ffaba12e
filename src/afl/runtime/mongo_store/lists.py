"""Lists in pages, counts that end early, and ids by their beginnings: what people look at.

Each question has an index. Where none fits, a page looks at a number of records, and says where it
stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from afl.db.beginnings import bounds
from afl.db.mongo import Document, Filter, Reader
from afl.runtime.entities import (
    LogDefinition,
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.listing import (
    LOOKED_AT,
    Count,
    Page,
    Queue,
    RunQuery,
    TaskQuery,
    cursor_at,
    page_of,
    position_of,
)
from afl.runtime.mongo_store import runs as run_documents
from afl.runtime.mongo_store import steps as step_documents
from afl.runtime.mongo_store import tasks as task_documents
from afl.runtime.mongo_store.catalog import LOGS as LOG_KIND
from afl.runtime.mongo_store.documents import NEWEST_FIRST, OLDEST_FIRST
from afl.runtime.mongo_store.schema import LOGS, QUEUED, RUNS, STEPS, STOPPED_STATES, TASKS
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

T = TypeVar("T")

_NEWEST = 2**63 - 1
_RUN_STATES = [str(each) for each in RunnerState]
_HEAD = {"parameters": 0}
#: The server merges so many ranges of an index in their order; more would make it sort all.
_RANGES = 200
_IDS = 10_000


def _chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    known = list(dict.fromkeys(values))
    return (known[at : at + size] for at in range(0, len(known), size))


def _newest(documents: Iterable[Document], limit: int) -> list[Document]:
    return sorted(documents, key=lambda each: -int(each["seq"]))[:limit]


# Runs


def runs(reader: Reader, query: RunQuery, limit: int, cursor: str | None) -> Page[RunnerDefinition]:
    limit, before = max(limit, 0), position_of(cursor, _NEWEST)
    found: dict[str, Document] = {}
    for where in _fitting_runs(query):
        some = reader.all(
            RUNS,
            {**where, "seq": {"$lt": before}},
            sort=NEWEST_FIRST,
            fields=_HEAD,
            limit=limit + 1,
        )
        found.update((each["_id"], each) for each in some)
    shown = [
        (each["seq"], run_documents.KIND.record({**each, "parameters": "[]"}))
        for each in _newest(found.values(), limit + 1)
    ]
    return page_of(shown, limit, before)


def _fitting_runs(query: RunQuery) -> Iterator[Filter]:
    in_state = {} if query.state is None else {"state": query.state}
    if query.workflows is None and query.ids is None:
        yield in_state
    states = _RUN_STATES if query.state is None else [query.state]
    for names in _chunks(query.workflows or (), _RANGES // len(states)):
        yield {"workflow_name": {"$in": names}, "state": {"$in": states}}
    for ids in _chunks(query.ids or (), _RANGES):
        yield {"workflow_id": {"$in": ids}, **in_state}


def count_runs(reader: Reader, limit: int) -> dict[str, Count]:
    counts = {each: reader.count(RUNS, {"state": each}, limit + 1, "state") for each in _RUN_STATES}
    return {state: Count.up_to(limit, found) for state, found in counts.items() if found}


def run_workflows(reader: Reader) -> list[str]:
    return list(_distinct(reader, RUNS, "workflow_name", {}, ""))


def run_ids(reader: Reader, prefix: str, limit: int) -> list[str]:
    found = _distinct(reader, RUNS, "workflow_id", {}, prefix)
    return [each for each, _ in zip(found, range(max(limit, 0)), strict=False)]


def _distinct(reader: Reader, name: str, field: str, where: Filter, prefix: str) -> Iterator[str]:
    """The values of a field that begin like this, in their order: each costs one look into an
    index, however many documents have it."""
    first, behind = bounds(prefix)
    after: dict[str, str] = {"$gte": first}
    while True:
        fits = {**where, field: {**after, "$lt": behind}}
        found = reader.one(name, fits, sort=((field, 1),), fields={field: 1})
        if found is None:
            return
        yield found[field]
        after = {"$gt": found[field]}


# Tasks


def tasks(reader: Reader, query: TaskQuery, limit: int, cursor: str | None) -> Page[TaskDefinition]:
    limit, before = max(limit, 0), position_of(cursor, _NEWEST)
    fits = _fits(query, before)
    if query.workflow_id is not None:
        found = task_documents.newest_of_run(reader, query.workflow_id, fits, limit + 1)
        return _task_page(found, limit, before)
    if query.state == TaskState.PENDING:
        return _task_page(_pending(reader, query, fits, limit + 1), limit, before)
    if query.state == TaskState.RUNNING:
        # All that run are looked through: they are never many.
        found = reader.all(TASKS, fits, sort=NEWEST_FIRST, limit=limit + 1, hint="lease")
        return _task_page(found, limit, before)
    return _looked_through(reader, query, fits, limit, before)


def _fits(query: TaskQuery, before: int) -> dict[str, Any]:
    fits: dict[str, Any] = {"seq": {"$lt": before}}
    if query.state is not None:
        fits["state"] = query.state
    if query.task_list is not None:
        fits["task_list_name"] = query.task_list
    if query.name is not None:
        fits["$or"] = [{"name": query.name}, {"short_name": query.name}]
    return fits


def _pending(reader: Reader, query: TaskQuery, newest: Filter, limit: int) -> list[Document]:
    """The newest of each queue. What is due at once is in the order of the index; what waits for a
    retry is not, and is little."""
    found: list[Document] = []
    for task_list in _task_lists(reader):
        if query.task_list not in (None, task_list):
            continue
        names = filter(query.names, _names(reader, task_list))
        for some in _chunks(names, _RANGES // 2):
            where = {
                "state": "pending",
                "seq": newest["seq"],
                "task_list_name": task_list,
                "name": {"$in": some},
                "held": {"$in": [False, True]},
            }
            for due in (0, {"$gt": 0}):
                fits = {**where, "not_before": due}
                found += reader.all(TASKS, fits, sort=NEWEST_FIRST, limit=limit, hint="queue")
    return found


def _looked_through(
    reader: Reader, query: TaskQuery, fits: dict[str, Any], limit: int, before: int
) -> Page[TaskDefinition]:
    """Of as many tasks as one page looks at, those that fit."""
    is_stopped = query.state in STOPPED_STATES
    lowest = 0
    if query.name is not None or query.task_list is not None or not is_stopped:
        lowest = _lowest(reader, {"state": query.state} if is_stopped else {}, before)
    fits["seq"] = {"$lt": before, "$gte": lowest}
    hint = "stopped" if is_stopped else "seq"
    found = reader.all(TASKS, fits, sort=NEWEST_FIRST, limit=limit + 1, hint=hint)
    page = _task_page(found, limit, before)
    if page.has_more or not lowest:
        return page
    return Page(page.items, cursor_at(lowest), has_more=True)


def _lowest(reader: Reader, where: Filter, before: int) -> int:
    """How far a page looks; 0: to the end."""
    found = reader.one(
        TASKS,
        {**where, "seq": {"$lt": before}},
        sort=NEWEST_FIRST,
        fields={"seq": 1},
        skip=LOOKED_AT - 1,
        hint="stopped" if where else "seq",
    )
    return 0 if found is None else int(found["seq"])


def _task_page(found: Iterable[Document], limit: int, before: int) -> Page[TaskDefinition]:
    shown = [(each["seq"], task_documents.KIND.record(each)) for each in _newest(found, limit + 1)]
    return page_of(shown, limit, before)


def count_tasks(reader: Reader, limit: int) -> dict[str, Count]:
    indexes = {"running": "lease", **dict.fromkeys(STOPPED_STATES, "stopped")}
    counts = {
        state: reader.count(TASKS, {"state": state}, limit + 1, index)
        for state, index in indexes.items()
    }
    counts["pending"] = reader.count(TASKS, QUEUED, limit + 1, "queue")
    return {state: Count.up_to(limit, found) for state, found in counts.items() if found}


def _task_lists(reader: Reader) -> Iterator[str]:
    return _distinct(reader, TASKS, "task_list_name", QUEUED, "")


def _names(reader: Reader, task_list: str) -> Iterator[str]:
    """Of the queues that have tasks: few, however many those are."""
    return _distinct(reader, TASKS, "name", {**QUEUED, "task_list_name": task_list}, "")


def queues(reader: Reader, limit: int) -> list[Queue]:
    return sorted(
        _queue(reader, task_list, name, limit)
        for task_list in _task_lists(reader)
        for name in _names(reader, task_list)
    )


def _queue(reader: Reader, task_list: str, name: str, limit: int) -> Queue:
    where = {"state": "pending", "task_list_name": task_list, "name": name}
    waiting, held = (
        Count.up_to(limit, reader.count(TASKS, {**where, "held": each}, limit + 1, "queue"))
        for each in (False, True)
    )
    oldest = reader.one(
        TASKS,
        {**where, "held": False},
        sort=(("not_before", 1), ("seq", 1)),
        fields={"created": 1},
        hint="queue",
    )
    return Queue(task_list, name, waiting, held, 0 if oldest is None else oldest["created"])


def task_ids(reader: Reader, prefix: str, limit: int) -> list[str]:
    found = _distinct(reader, TASKS, "_id", {}, prefix)
    return [each for each, _ in zip(found, range(max(limit, 0)), strict=False)]


def changed_tasks(reader: Reader, known: Mapping[str, int]) -> list[TaskDefinition]:
    found = _changed(reader, TASKS, known, "version")
    return [task_documents.KIND.record(each) for each in found]


def _changed(reader: Reader, name: str, known: Mapping[Any, int], field: str) -> list[Document]:
    changed: list[Document] = []
    for ids in _chunks(known, _IDS):
        seen = reader.all(name, {"_id": {"$in": ids}}, fields={field: 1})
        moved = [each["_id"] for each in seen if each[field] != known[each["_id"]]]
        changed += reader.all(name, {"_id": {"$in": moved}}) if moved else []
    return sorted(changed, key=lambda each: int(each["seq"]))


# Steps


def steps(
    reader: Reader, workflow_id: WorkflowId, limit: int, cursor: str | None
) -> Page[StepDefinition]:
    after, limit = position_of(cursor, 0), max(limit, 0)
    where = {"workflow_id": workflow_id, "seq": {"$gt": after}}
    found = reader.all(STEPS, where, sort=OLDEST_FIRST, limit=limit + 1)
    return page_of([(each["seq"], step_documents.of(each)) for each in found], limit, after)


def changed_steps(reader: Reader, known: Mapping[StepId, int]) -> list[StepDefinition]:
    found = _changed(reader, STEPS, known, "sequence")
    return [step_documents.of(each) for each in found]


# Logs


def logs(reader: Reader, runner_id: str, limit: int, cursor: str | None) -> Page[LogDefinition]:
    after, limit = position_of(cursor, 0), max(limit, 0)
    where = {"runner_id": runner_id, "seq": {"$gt": after}}
    found = reader.all(LOGS, where, sort=OLDEST_FIRST, limit=limit + 1)
    return page_of([(each["seq"], LOG_KIND.record(each)) for each in found], limit, after)
