"""What tasks do to the world; imported by processes that must start soon."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afl.runtime.entities import TaskDefinition

#: What a handler asked of the outside: facet and payload.
Effect = tuple[str, dict[str, Any]]


def effect_of(task: TaskDefinition) -> Effect:
    return task.name, dict(task.data or {})


def sorted_effects(effects: Iterable[Effect]) -> list[Effect]:
    return sorted(effects, key=repr)
