"""Small shared values of the runtime: ids, attribute values, object types."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

from afl.ids import new_id

StepId = NewType("StepId", str)
BlockId = NewType("BlockId", str)
EventId = NewType("EventId", str)
WorkflowId = NewType("WorkflowId", str)
StatementId = NewType("StatementId", str)


def generate_id() -> str:
    return new_id()


def step_id() -> StepId:
    return StepId(new_id())


def block_id() -> BlockId:
    return BlockId(new_id())


def event_id() -> EventId:
    return EventId(new_id())


def workflow_id() -> WorkflowId:
    return WorkflowId(new_id())


@dataclass(frozen=True)
class VersionInfo:
    """Which formats a step was written in."""

    workflow_version: str = "1.0"
    step_schema_version: str = "1.0"
    runtime_version: str = "0.1.0"


_HINTS: dict[type, str] = {
    bool: "Boolean",
    int: "Long",
    float: "Double",
    str: "String",
    list: "List",
    dict: "Map",
}


@dataclass
class AttributeValue:
    """A named value with a hint of its AFL type, made from the value unless it is given."""

    name: str
    value: Any
    type_hint: str = "Any"

    def __post_init__(self) -> None:
        if self.type_hint == "Any":
            self.type_hint = _HINTS.get(type(self.value), "Any")

    def __getitem__(self, key: str) -> Any:
        """Readable as a mapping, too: `returns["total"]["value"]`."""
        if key not in ("name", "value", "type_hint"):
            raise KeyError(key)
        return getattr(self, key)

    def keys(self) -> Iterator[str]:
        return iter(("name", "value", "type_hint"))


@dataclass
class FacetAttributes:
    """What went into a step and what came out of it."""

    params: dict[str, AttributeValue] = field(default_factory=dict)
    returns: dict[str, AttributeValue] = field(default_factory=dict)

    def get_param(self, name: str) -> Any:
        """A parameter; where there is none of that name, a return. None if there is neither."""
        found = self.params.get(name) or self.returns.get(name)
        return found.value if found else None

    def get_return(self, name: str) -> Any:
        found = self.returns.get(name)
        return found.value if found else None

    def set_param(self, name: str, value: Any, type_hint: str = "Any") -> None:
        self.params[name] = AttributeValue(name, value, type_hint)

    def set_return(self, name: str, value: Any, type_hint: str = "Any") -> None:
        self.returns[name] = AttributeValue(name, value, type_hint)

    def values(self) -> dict[str, Any]:
        """What can be read of the step: its returns, and its parameters behind them."""
        return {
            **{name: each.value for name, each in self.params.items()},
            **{name: each.value for name, each in self.returns.items()},
        }

    def clone(self) -> FacetAttributes:
        return FacetAttributes(_copied(self.params), _copied(self.returns))

    def merge(self, other: FacetAttributes) -> None:
        """Take over the other's values: its returns win, its params only fill gaps."""
        self.params = {**other.params, **self.params}
        self.returns.update(other.returns)


def _copied(attributes: dict[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {
        name: AttributeValue(each.name, copied(each.value), each.type_hint)
        for name, each in attributes.items()
    }


_SCALARS = (str, int, float, bool)


def copied(value: Any) -> Any:
    """A copy of a JSON value that shares nothing; other values are copied in depth."""
    if value is None or isinstance(value, _SCALARS):
        return value
    if type(value) is list:
        return [copied(each) for each in value]
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    return copy.deepcopy(value)


class ObjectType(StrEnum):
    """What a step stands for."""

    #: `name = Facet(…)`
    VARIABLE_ASSIGNMENT = "VariableAssignment"
    #: `yield Facet(…)`
    YIELD_ASSIGNMENT = "YieldAssignment"
    #: The root of a run.
    WORKFLOW = "Workflow"
    FACET = "Facet"
    #: `name = Schema(…)`
    SCHEMA_INSTANTIATION = "SchemaInstantiation"
    #: One `andThen` block, or one round of a foreach.
    AND_THEN = "AndThen"
    AND_MAP = "AndMap"
    AND_MATCH = "AndMatch"
    BLOCK = "Block"
    BEFORE = "Before"
    AFTER = "After"

    @classmethod
    def is_block(cls, object_type: str) -> bool:
        return object_type in BLOCK_TYPES

    @classmethod
    def is_statement(cls, object_type: str) -> bool:
        return object_type in _STATEMENTS


BLOCK_TYPES = frozenset(
    {ObjectType.AND_THEN, ObjectType.AND_MAP, ObjectType.AND_MATCH, ObjectType.BLOCK}
)
_STATEMENTS = frozenset({ObjectType.VARIABLE_ASSIGNMENT, ObjectType.YIELD_ASSIGNMENT})
