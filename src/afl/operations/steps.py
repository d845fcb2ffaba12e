"""Steps of a run, by themselves and in pages."""

from __future__ import annotations

from dataclasses import dataclass

from afl.operations.paging import from_cursor
from afl.operations.reading import StepView, step_view
from afl.operations.records import step
from afl.runtime.entities import RunnerDefinition
from afl.runtime.persistence import PersistenceAPI, task_id_of
from afl.runtime.types import WorkflowId


@dataclass(frozen=True)
class StepPage:
    """Some steps of a run, in the order of their creation, each without those inside it."""

    steps: tuple[StepView, ...]
    #: What gives the next page; None if there are no more now.
    cursor: str | None


def step_page(
    store: PersistenceAPI, run: RunnerDefinition, *, limit: int = 100, cursor: str | None = None
) -> StepPage:
    """The steps of a run from a cursor on. Raises UsageError for a cursor that is none."""
    with from_cursor(cursor):
        page = store.list_steps(WorkflowId(run.workflow_id), limit, cursor)
    known = {task_id_of(each.id): -1 for each in page.items}
    tasks = {each.step_id: each for each in store.changed_tasks(known)}
    steps = tuple(step_view(each, tasks.get(each.id)) for each in page.items)
    return StepPage(steps, page.cursor if page.has_more else None)


def find_step(store: PersistenceAPI, step_id: str) -> StepView:
    """Raises StepNotFoundError."""
    found = step(store, step_id)
    return step_view(found, store.get_task(task_id_of(found.id)))
