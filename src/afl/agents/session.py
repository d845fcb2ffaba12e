"""What happened in a turn, in order: a log of typed entries that only grows."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from afl.agents.model import ModelAnswer, ModelRequest, ToolCall, ToolResult, Usage
from afl.ids import new_id

E = TypeVar("E")


@dataclass(frozen=True)
class ModelAnswered:
    """A model was asked and answered."""

    request: ModelRequest
    answer: ModelAnswer
    duration_s: float = 0.0


@dataclass(frozen=True)
class ToolUsed:
    """The model used a tool."""

    call: ToolCall
    result: ToolResult
    duration_s: float = 0.0

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def is_error(self) -> bool:
        return self.result.is_error


@dataclass
class Session:
    """Entries may be of any type; each is kept, and found by it. Safe from any thread."""

    session_id: str = field(default_factory=new_id)
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Any] = []

    def append(self, entry: Any) -> None:
        with self._lock:
            self._entries.append(entry)

    @property
    def entries(self) -> tuple[Any, ...]:
        """All, as they are now."""
        with self._lock:
            return tuple(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, kind: type[E]) -> tuple[E, ...]:
        """The entries of one type, oldest first."""
        return tuple(each for each in self.entries if isinstance(each, kind))

    def latest(self, kind: type[E]) -> E | None:
        """The last entry of a type; None if there is none."""
        return next((each for each in reversed(self.entries) if isinstance(each, kind)), None)

    @property
    def tool_uses(self) -> tuple[ToolUsed, ...]:
        return self[ToolUsed]

    @property
    def usage(self) -> Usage:
        """Tokens of all models that answered."""
        total = Usage()
        for each in self[ModelAnswered]:
            total += each.answer.usage
        return total
