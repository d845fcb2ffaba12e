"""Events: those that other code keeps, and those of the engine, which are its tasks."""

from __future__ import annotations

from afl.db.mongo import Reader, Transaction
from afl.errors import Conflict
from afl.runtime.entities import EVENT_DATA, EventDefinition
from afl.runtime.mongo_store import tasks
from afl.runtime.mongo_store.catalog import EVENTS, save_all
from afl.runtime.persistence import event_of
from afl.runtime.types import EventId, WorkflowId


def get(reader: Reader, event_id: EventId) -> EventDefinition | None:
    return EVENTS.one(reader, {"_id": event_id}) or _of_task(reader, event_id)


def of_run(reader: Reader, workflow_id: WorkflowId) -> list[EventDefinition]:
    saved = EVENTS.all(reader, {"workflow_id": workflow_id})
    found = tasks.of_run(reader, workflow_id)
    return saved + [event_of(each) for each in found if each.data_type == EVENT_DATA]


def everything(reader: Reader) -> list[EventDefinition]:
    found = tasks.KIND.all(reader, {"data_type": EVENT_DATA})
    return EVENTS.all(reader, {}) + [event_of(each) for each in found]


def save(tx: Transaction, event: EventDefinition) -> None:
    if _of_task(tx, event.id) is not None:
        raise Conflict(f"event {event.id} is that of a task; it moves with the task")
    save_all(tx, EVENTS, [event])


def _of_task(reader: Reader, event_id: EventId) -> EventDefinition | None:
    task = tasks.get(reader, event_id)
    return event_of(task) if task is not None and task.data_type == EVENT_DATA else None
