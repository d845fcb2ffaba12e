"""Every state of a step and an event, and which state follows which. Data, no code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType

from afl.runtime.types import ObjectType


class StepState(StrEnum):
    CREATED = "state.statement.Created"
    FACET_INIT_BEGIN = "state.facet.initialization.Begin"
    FACET_INIT_END = "state.facet.initialization.End"
    FACET_SCRIPTS_BEGIN = "state.facet.scripts.Begin"
    FACET_SCRIPTS_END = "state.facet.scripts.End"
    STATEMENT_SCRIPTS_BEGIN = "state.statement.scripts.Begin"
    STATEMENT_SCRIPTS_END = "state.statement.scripts.End"
    MIXIN_BLOCKS_BEGIN = "state.mixin.blocks.Begin"
    MIXIN_BLOCKS_CONTINUE = "state.mixin.blocks.Continue"
    MIXIN_BLOCKS_END = "state.mixin.blocks.End"
    MIXIN_CAPTURE_BEGIN = "state.mixin.capture.Begin"
    MIXIN_CAPTURE_END = "state.mixin.capture.End"
    #: Waiting for an answer from outside; a task carries the question.
    EVENT_TRANSMIT = "state.EventTransmit"
    STATEMENT_BLOCKS_BEGIN = "state.statement.blocks.Begin"
    STATEMENT_BLOCKS_CONTINUE = "state.statement.blocks.Continue"
    STATEMENT_BLOCKS_END = "state.statement.blocks.End"
    BLOCK_EXECUTION_BEGIN = "state.block.execution.Begin"
    BLOCK_EXECUTION_CONTINUE = "state.block.execution.Continue"
    BLOCK_EXECUTION_END = "state.block.execution.End"
    STATEMENT_CAPTURE_BEGIN = "state.statement.capture.Begin"
    STATEMENT_CAPTURE_END = "state.statement.capture.End"
    STATEMENT_END = "state.statement.End"
    STATEMENT_COMPLETE = "state.statement.Complete"
    STATEMENT_ERROR = "state.statement.Error"

    @classmethod
    def is_complete(cls, state: str) -> bool:
        return state == cls.STATEMENT_COMPLETE

    @classmethod
    def is_error(cls, state: str) -> bool:
        return state == cls.STATEMENT_ERROR

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        return state in TERMINAL_STATES


#: Where a chain ends.
TERMINAL_STATES = frozenset({StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR})


class EventState(StrEnum):
    CREATED = "event.Created"
    DISPATCHED = "event.Dispatched"
    PROCESSING = "event.Processing"
    COMPLETED = "event.Completed"
    ERROR = "event.Error"


def _chain(*states: str) -> Mapping[str, str]:
    return MappingProxyType(dict(pairwise(states)))


STEP_TRANSITIONS = _chain(
    StepState.CREATED,
    StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_END,
    StepState.FACET_SCRIPTS_BEGIN,
    StepState.FACET_SCRIPTS_END,
    StepState.MIXIN_BLOCKS_BEGIN,
    StepState.MIXIN_BLOCKS_CONTINUE,
    StepState.MIXIN_BLOCKS_END,
    StepState.MIXIN_CAPTURE_BEGIN,
    StepState.MIXIN_CAPTURE_END,
    StepState.EVENT_TRANSMIT,
    StepState.STATEMENT_BLOCKS_BEGIN,
    StepState.STATEMENT_BLOCKS_CONTINUE,
    StepState.STATEMENT_BLOCKS_END,
    StepState.STATEMENT_CAPTURE_BEGIN,
    StepState.STATEMENT_CAPTURE_END,
    StepState.STATEMENT_END,
    StepState.STATEMENT_COMPLETE,
)

BLOCK_TRANSITIONS = _chain(
    StepState.CREATED,
    StepState.BLOCK_EXECUTION_BEGIN,
    StepState.BLOCK_EXECUTION_CONTINUE,
    StepState.BLOCK_EXECUTION_END,
    StepState.STATEMENT_END,
    StepState.STATEMENT_COMPLETE,
)

YIELD_TRANSITIONS = _chain(
    StepState.CREATED,
    StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_END,
    StepState.FACET_SCRIPTS_BEGIN,
    StepState.FACET_SCRIPTS_END,
    StepState.STATEMENT_END,
    StepState.STATEMENT_COMPLETE,
)

SCHEMA_TRANSITIONS = _chain(
    StepState.CREATED,
    StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_END,
    StepState.STATEMENT_END,
    StepState.STATEMENT_COMPLETE,
)

EVENT_TRANSITIONS = _chain(
    EventState.CREATED, EventState.DISPATCHED, EventState.PROCESSING, EventState.COMPLETED
)


def get_next_state(state: str, transitions: Mapping[str, str]) -> str | None:
    """The state after `state`; None at the end of the chain."""
    return transitions.get(state)


def select_transitions(object_type: str) -> Mapping[str, str]:
    """The chain that steps of this object type walk."""
    if ObjectType.is_block(object_type):
        return BLOCK_TRANSITIONS
    if object_type == ObjectType.YIELD_ASSIGNMENT:
        return YIELD_TRANSITIONS
    if object_type == ObjectType.SCHEMA_INSTANTIATION:
        return SCHEMA_TRANSITIONS
    return STEP_TRANSITIONS
