"""Events: those that other code keeps, and those of the engine, which are its tasks."""

from __future__ import annotations

from afl.db.postgres import Reader, Transaction
from afl.errors import Conflict
from afl.runtime.entities import EVENT_DATA, EventDefinition
from afl.runtime.persistence import event_of
from afl.runtime.postgres_store import tasks
from afl.runtime.postgres_store.catalog import EVENTS
from afl.runtime.postgres_store.tasks import TASKS
from afl.runtime.types import EventId, WorkflowId

OF_TASKS = f"WHERE data_type = '{EVENT_DATA}' ORDER BY seq"


def get(reader: Reader, event_id: EventId) -> EventDefinition | None:
    return EVENTS.one(reader, "WHERE id = %s", event_id) or _of_task(reader, event_id)


def of_run(reader: Reader, workflow_id: WorkflowId) -> list[EventDefinition]:
    saved = EVENTS.all(reader, "WHERE workflow_id = %s ORDER BY seq", workflow_id)
    found = tasks.of_run(reader, workflow_id)
    return saved + [event_of(each) for each in found if each.data_type == EVENT_DATA]


def everything(reader: Reader) -> list[EventDefinition]:
    saved = EVENTS.all(reader, "ORDER BY seq")
    return saved + [event_of(each) for each in TASKS.all(reader, OF_TASKS)]


def save(tx: Transaction, event: EventDefinition) -> None:
    if _of_task(tx, event.id) is not None:
        raise Conflict(f"event {event.id} is that of a task; it moves with the task")
    EVENTS.save(tx, event)


def _of_task(reader: Reader, event_id: EventId) -> EventDefinition | None:
    task = tasks.get(reader, event_id)
    return event_of(task) if task is not None and task.data_type == EVENT_DATA else None
