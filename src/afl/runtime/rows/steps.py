"""Steps and their rows."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from afl.runtime.errors import StepFailure
from afl.runtime.persistence import Yielded, child_id
from afl.runtime.rows.codec import from_json, reader_of, to_json
from afl.runtime.rows.table import Row
from afl.runtime.step import StepDefinition, StepTransition
from afl.runtime.types import AttributeValue, FacetAttributes, VersionInfo

#: A column for each field, and behind them what does not fit into the column of its field.
_FIELDS = tuple(each.name for each in fields(StepDefinition))
_IN_PARTS = {"transition": "flags", "attributes": "params"}
COLUMNS = (
    *(_IN_PARTS.get(each, each) for each in _FIELDS),
    "original_state",
    "current_state",
    "error",
    "returns",
    "is_stray",
)
#: How a step stands: what changes as it runs. What it is stays, and the indexes on it.
CHANGING = (
    "state",
    "original_state",
    "current_state",
    "flags",
    "error",
    "params",
    "returns",
    "foreach_value",
    "position",
    "pending",
    "failed",
    "caught",
    "update_order",
    "sequence",
)

_STATE = _FIELDS.index("state")
_TRANSITION = _FIELDS.index("transition")
_ATTRIBUTES = _FIELDS.index("attributes")
_VERSION = _FIELDS.index("version")
_FOREACH_VALUE = _FIELDS.index("foreach_value")
_SEQUENCE = _FIELDS.index("sequence")
_ENUMS = tuple(map(_FIELDS.index, ("object_type", "container_type", "state")))
_values = attrgetter(*_FIELDS)

_CHANGED, _REQUESTED, _PUSHED = 1, 2, 4

_read_attributes = reader_of(dict[str, tuple[Any, str]])


def row_of(step: StepDefinition) -> list[Any]:
    row = list(_values(step))
    for index in _ENUMS:
        # Drivers ask long for how to store what is not plain text.
        if row[index] is not None:
            row[index] = str(row[index])
    row[_TRANSITION] = _flags(step.transition)
    row[_ATTRIBUTES] = _packed(step.attributes.params)
    row[_VERSION] = _version_text(step.version)
    if step.foreach_value is not None:
        row[_FOREACH_VALUE] = to_json(step.foreach_value)
    row += (
        *_past(step),
        _error(step.transition),
        _packed(step.attributes.returns),
        is_stray(step),
    )
    return row


def standing(step: StepDefinition) -> tuple[Any, ...]:
    """How it stands, as it is written over an earlier one: by hand, because every step that goes
    on comes here."""
    state, transition, attributes = str(step.state), step.transition, step.attributes
    return (
        state,
        None if transition.original_state == state else transition.original_state,
        None if transition.current_state == state else transition.current_state,
        _flags(transition),
        None if transition.error is None else _error(transition),
        _packed(attributes.params) if attributes.params else None,
        _packed(attributes.returns) if attributes.returns else None,
        None if step.foreach_value is None else to_json(step.foreach_value),
        step.position,
        step.pending,
        step.failed,
        step.caught,
        step.update_order,
        step.sequence + 1,
    )


def _past(step: StepDefinition) -> tuple[str | None, str | None]:
    """Where its transition began and stands: nearly always at its state."""
    state, transition = step.state, step.transition
    return (
        None if transition.original_state == state else str(transition.original_state),
        None if transition.current_state == state else str(transition.current_state),
    )


def _flags(transition: StepTransition) -> int:
    return (
        transition.changed * _CHANGED
        + transition.request_transition * _REQUESTED
        + transition.push_me * _PUSHED
    )


def _error(transition: StepTransition) -> str | None:
    if transition.error is None:
        return None
    return to_json(StepFailure.of(transition.error).to_dict())


def is_stray(step: StepDefinition) -> int:
    """Whether it is in a block without the id that its place there gives it."""
    if step.block_id is None:
        return 0
    return int(step.statement_id is None or step.id != child_id(step.block_id, step.statement_id))


def next_row(step: StepDefinition) -> list[Any]:
    """As it is written over an earlier one."""
    row = row_of(step)
    row[_SEQUENCE] += 1
    return row


def step_of(row: Row) -> StepDefinition:
    *values, original_state, current_state, error, returns = row
    state, flags, params = values[_STATE], values[_TRANSITION], values[_ATTRIBUTES]
    values[_TRANSITION] = StepTransition(
        state if original_state is None else original_state,
        state if current_state is None else current_state,
        flags & _CHANGED != 0,
        flags & _REQUESTED != 0,
        flags & _PUSHED != 0,
        None if error is None else StepFailure.from_dict(from_json(error)),
    )
    values[_ATTRIBUTES] = FacetAttributes(
        {} if params is None else _unpacked(params), {} if returns is None else _unpacked(returns)
    )
    values[_VERSION] = _version_info(values[_VERSION])
    if values[_FOREACH_VALUE] is not None:
        values[_FOREACH_VALUE] = from_json(values[_FOREACH_VALUE])
    return StepDefinition(*values)


def _packed(attributes: dict[str, AttributeValue]) -> str | None:
    if not attributes:
        return None
    return to_json({name: (each.value, each.type_hint) for name, each in attributes.items()})


def _unpacked(text: str) -> dict[str, AttributeValue]:
    return {
        name: AttributeValue(name, value, hint)
        for name, (value, hint) in _read_attributes(text).items()
    }


def _bare(text: str | None) -> dict[str, Any]:
    """The values alone."""
    if text is None:
        return {}
    return {name: value for name, (value, _) in _read_attributes(text).items()}


def yielded_of(row: Row) -> Yielded:
    """Of its statement, its position and its values."""
    statement, position, params = row
    return Yielded(statement, position, _bare(params))


# All steps of a release have the same version, and the record cannot be changed.
@lru_cache(maxsize=64)
def _version_text(version: VersionInfo) -> str:
    return to_json((version.workflow_version, version.step_schema_version, version.runtime_version))


@lru_cache(maxsize=64)
def _version_info(text: str) -> VersionInfo:
    return VersionInfo(*from_json(text))
