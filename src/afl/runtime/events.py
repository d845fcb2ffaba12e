"""Events: the life of what is asked of the outside world.

An event says what was asked and how it went; its task says who does it. The engine creates both
together and moves both in the same commits: a claim makes the event Processing, a result Completed
or Error, a retry Created again. `EventManager` is for code that keeps events of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from afl.errors import NotFound
from afl.runtime.entities import EventDefinition as EventDefinition
from afl.runtime.errors import InvalidStepStateError
from afl.runtime.names import handler_for
from afl.runtime.persistence import EventStore
from afl.runtime.states import EVENT_TRANSITIONS, EventState
from afl.runtime.types import EventId, StepId, WorkflowId, event_id

EventHandler = Callable[[dict[str, Any]], dict[str, Any]]


class EventManager:
    """Moves events along their table; nothing else may follow."""

    def __init__(self, persistence: EventStore) -> None:
        self._store = persistence

    def create_event(
        self,
        step_id: StepId,
        workflow_id: WorkflowId,
        event_type: str,
        payload: Mapping[str, Any] | None = None,
    ) -> EventDefinition:
        event = EventDefinition(
            event_id(), step_id, workflow_id, event_type=event_type, payload=dict(payload or {})
        )
        self._store.save_event(event)
        return event

    def dispatch(self, event: EventDefinition | EventId) -> EventDefinition:
        return self._move(event, EventState.DISPATCHED)

    def start_processing(self, event: EventDefinition | EventId) -> EventDefinition:
        return self._move(event, EventState.PROCESSING)

    def complete(
        self, event: EventDefinition | EventId, result: Mapping[str, Any] | None = None
    ) -> EventDefinition:
        return self._move(event, EventState.COMPLETED, result=dict(result or {}))

    def error(self, event: EventDefinition | EventId, error: str) -> EventDefinition:
        return self._move(event, EventState.ERROR, error=error)

    def get_pending_events(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        """Events of a run that are not over."""
        found = self._store.get_events_by_workflow(workflow_id)
        return [each for each in found if each.state not in _OVER]

    def _move(
        self, event: EventDefinition | EventId, state: EventState, **facts: Any
    ) -> EventDefinition:
        key = event.id if isinstance(event, EventDefinition) else event
        stored = self._store.get_event(key)
        if stored is None:
            raise NotFound(f"event {key} is not in the store")
        if not _may_follow(stored.state, state):
            raise InvalidStepStateError(stored.id, stored.state, _before(state))
        moved = replace(stored, state=state, payload={**stored.payload, **facts})
        self._store.save_event(moved)
        return moved


_OVER = frozenset({EventState.COMPLETED, EventState.ERROR})


def _may_follow(state: str, following: str) -> bool:
    """The next state of the table, or an error at any time before the end."""
    return EVENT_TRANSITIONS.get(state) == following or (
        following == EventState.ERROR and state not in _OVER
    )


def _before(state: str) -> str:
    return next(
        (each for each, after in EVENT_TRANSITIONS.items() if after == state), "an open one"
    )


class EventDispatcher:
    """Hands events to handlers in this process, by the names that tasks are matched by."""

    def __init__(self) -> None:
        self._handlers: dict[str, EventHandler] = {}

    def register(self, event_type: str, handler: EventHandler) -> None:
        self._handlers[event_type] = handler

    def can_dispatch(self, event: EventDefinition) -> bool:
        return handler_for(event.event_type, self._handlers) is not None

    def dispatch(self, event: EventDefinition) -> dict[str, Any]:
        """What the handler of this event returns. Raises NotFound if there is none."""
        name = handler_for(event.event_type, self._handlers)
        if name is None:
            raise NotFound(f"no handler is registered for {event.event_type}")
        return self._handlers[name](dict(event.payload))
