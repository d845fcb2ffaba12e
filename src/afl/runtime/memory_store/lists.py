"""Lists in pages, counts, and ids by their beginnings, over tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

from afl.runtime.entities import (
    LogDefinition,
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.listing import Count, Page, Queue, RunQuery, TaskQuery, page_of, position_of
from afl.runtime.memory_store.state import State
from afl.runtime.memory_store.table import copied_record
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

R = TypeVar("R")

_NEWEST = 2**63 - 1


def _page(
    found: Iterable[tuple[int, R]],
    limit: int,
    start: int,
    copied: Callable[[R], R] = copied_record,
) -> Page[R]:
    limit = max(limit, 0)
    page = page_of(list(islice(found, limit + 1)), limit, start)
    return replace(page, items=[copied(each) for each in page.items])


# Runs


def runs(state: State, query: RunQuery, limit: int, cursor: str | None) -> Page[RunnerDefinition]:
    before = position_of(cursor, _NEWEST)
    fitting = (
        (number, run)
        for number, run in _candidates(state, query, before)
        if query.state in (None, run.state)
    )
    return _page(fitting, limit, before, _head)


def _candidates(
    state: State, query: RunQuery, before: int
) -> Iterable[tuple[int, RunnerDefinition]]:
    table = state.runs
    if query.workflows is None and query.ids is None:
        return (
            table.page(before) if query.state is None else table.page(before, "state", query.state)
        )
    names = set(query.workflows or ())
    by_name = [table.page(before, "name", each) for each in names]
    by_id = [
        (
            (number, run)
            for number, run in table.page(before, "workflow", each)
            if _name(run) not in names
        )
        for each in set(query.ids or ())
    ]
    return merge(*by_name, *by_id, key=_number, reverse=True)


def _number(found: tuple[int, Any]) -> int:
    return found[0]


def _name(run: RunnerDefinition) -> str:
    return run.workflow.name


def _head(run: RunnerDefinition) -> RunnerDefinition:
    return copied_record(replace(run, parameters=[]))


def count_runs(state: State, limit: int) -> dict[str, Count]:
    return _counts(state.runs.count, RunnerState, limit)


def _counts(
    count: Callable[[str, str], int], states: Iterable[str], limit: int
) -> dict[str, Count]:
    found = {str(each): count("state", each) for each in states}
    return {each: Count.up_to(limit, number) for each, number in found.items() if number}


def run_workflows(state: State) -> list[str]:
    return sorted(map(str, state.runs.values("name")))


def run_ids(state: State, prefix: str, limit: int) -> list[str]:
    return _beginning(map(str, state.runs.values("workflow")), prefix, limit)


def _beginning(ids: Iterable[str], prefix: str, limit: int) -> list[str]:
    return sorted(each for each in ids if each.startswith(prefix))[: max(limit, 0)]


# Tasks


def tasks(state: State, query: TaskQuery, limit: int, cursor: str | None) -> Page[TaskDefinition]:
    before, table = position_of(cursor, _NEWEST), state.tasks
    if query.workflow_id is not None:
        candidates = table.page(before, "workflow", query.workflow_id)
    elif query.state is not None:
        candidates = table.page(before, "state", query.state)
    else:
        candidates = table.page(before)
    return _page((each for each in candidates if query.fits(each[1])), limit, before)


def count_tasks(state: State, limit: int) -> dict[str, Count]:
    counted = [each for each in TaskState if each != TaskState.COMPLETED]
    return _counts(state.tasks.count, counted, limit)


def queues(state: State, limit: int) -> list[Queue]:
    return sorted(_queue(state, each, limit) for each in state.tasks.values("queue"))


def _queue(state: State, place: Any, limit: int) -> Queue:
    pending = list(state.tasks.scan("queue", place))
    waiting = [each for each in pending if not each.held]
    first = min(waiting, key=lambda task: task.not_before, default=None)
    task_list, name = place
    return Queue(
        task_list,
        name,
        Count.up_to(limit, len(waiting)),
        Count.up_to(limit, len(pending) - len(waiting)),
        0 if first is None else first.created,
    )


def task_ids(state: State, prefix: str, limit: int) -> list[str]:
    return _beginning((each.uuid for _, each in state.tasks.page()), prefix, limit)


def changed_tasks(state: State, known: Mapping[str, int]) -> list[TaskDefinition]:
    found = (state.tasks.peek(each) for each in known)
    changed = [each for each in found if each is not None and each.version != known[each.uuid]]
    return [copied_record(each) for each in sorted(changed, key=state.tasks.number)]


# Steps and logs


def steps(
    state: State, workflow_id: WorkflowId, limit: int, cursor: str | None
) -> Page[StepDefinition]:
    after = position_of(cursor, 0)
    return _page(state.steps.page_up(after, "workflow", workflow_id), limit, after)


def changed_steps(state: State, known: Mapping[StepId, int]) -> list[StepDefinition]:
    found = (state.steps.peek(each) for each in known)
    changed = [each for each in found if each is not None and each.sequence != known[each.id]]
    return [copied_record(each) for each in sorted(changed, key=state.steps.number)]


def logs(state: State, runner_id: str, limit: int, cursor: str | None) -> Page[LogDefinition]:
    after = position_of(cursor, 0)
    return _page(state.logs.page_up(after, "arrived", runner_id), limit, after)
