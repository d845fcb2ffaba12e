"""The port to a model: what is asked, what is answered. No service shows through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

#: One that the service still has: it retires models, and the client warns before that.
DEFAULT_MODEL = "claude-sonnet-5-5"

# Messages


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class ToolCall:
    """The model wants a tool to be used."""

    #: Given by the model; the result refers to it.
    id: str
    name: str
    #: As the model wrote them: nothing about them was checked.
    arguments: Any


@dataclass(frozen=True)
class ToolResult:
    """What came of a tool call."""

    call_id: str
    content: str
    is_error: bool = False


@dataclass(frozen=True)
class Opaque:
    """A part that only its service understands; handed back as it came."""

    data: Mapping[str, Any]


Part: TypeAlias = Text | ToolCall | ToolResult | Opaque


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True)
class Message:
    """One turn of the talk. Results of tools are the user's."""

    role: Role
    parts: tuple[Part, ...]

    @classmethod
    def user(cls, *parts: Part | str) -> Message:
        return cls(Role.USER, _parts(parts))

    @classmethod
    def assistant(cls, *parts: Part | str) -> Message:
        return cls(Role.ASSISTANT, _parts(parts))


def _parts(parts: Sequence[Part | str]) -> tuple[Part, ...]:
    return tuple(Text(each) if isinstance(each, str) else each for each in parts)


# What is asked


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it."""

    #: At most 64 letters, digits, `_` and `-`.
    name: str
    description: str
    #: JSON Schema of an object: the arguments.
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class ModelRequest:
    model: str
    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[ToolSpec] = ()
    #: The answer must use a tool: this one, or any if it is `*`.
    must_use: str | None = None
    #: Of the answer.
    max_tokens: int = 4096
    #: Seconds until there must be an answer, with all that is tried; None: as the adapter likes.
    timeout_s: float | None = None


ANY_TOOL = "*"


# What is answered


@dataclass(frozen=True)
class Usage:
    """Tokens, as the service counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    #: Parts of the input that were read from, and written to, the cache of the service.
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    @property
    def total(self) -> int:
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )


class StopReason(StrEnum):
    """Why the model stopped."""

    #: It has said what it had to say.
    END = "end"
    #: It waits for the results of tools.
    TOOL_USE = "tool_use"
    #: The answer was cut: it was longer than it may be.
    MAX_TOKENS = "max_tokens"
    #: It does not want to.
    REFUSAL = "refusal"
    OTHER = "other"


@dataclass(frozen=True)
class ModelAnswer:
    parts: tuple[Part, ...]
    stop: StopReason = StopReason.END
    usage: Usage = field(default_factory=Usage)
    #: As the service calls the model that answered.
    model: str = ""

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.parts if isinstance(each, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(each for each in self.parts if isinstance(each, ToolCall))

    @property
    def message(self) -> Message:
        """The answer as a turn of the talk. Services refuse turns that say nothing."""
        return Message(Role.ASSISTANT, self.parts or (Text("(no answer)"),))


# The port


@runtime_checkable
class ModelAdapter(Protocol):
    """Answers requests, from any thread. What fails for a moment is tried again inside.

    Raises ModelUnavailable, ModelRefused, BudgetExceeded.
    """

    def answer(self, request: ModelRequest) -> ModelAnswer: ...


@runtime_checkable
class AsyncModelAdapter(Protocol):
    """The same for coroutines: thousands may wait for answers on one event loop."""

    async def answer_async(self, request: ModelRequest) -> ModelAnswer: ...
