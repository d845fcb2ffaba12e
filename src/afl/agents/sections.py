"""Sections: what prompts are made of. Each brings text, and perhaps tools and resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from afl.agents.tools import Tool, tool_of

T = TypeVar("T")
V = TypeVar("V")


class Section(Protocol):
    @property
    def title(self) -> str:
        """Its heading; empty for none."""

    def render(self) -> str:
        """Its text, in Markdown; empty if it only brings tools."""

    def tools(self) -> Sequence[Tool]:
        """What the model may use because of it."""

    def artifacts(self) -> Mapping[str, bytes]:
        """What it made that is worth keeping for debugging, by file name. Before `cleanup`."""

    def cleanup(self) -> None:
        """Let go of what it holds. Called once, when the turn is over."""


class MarkdownSection:
    """Text, and perhaps functions that the model may call."""

    def __init__(self, title: str, text: str, *, tools: Sequence[Callable[..., Any]] = ()) -> None:
        self.title = title
        self._text = text
        self._tools = tools_of(tools)

    def render(self) -> str:
        return self._text

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def artifacts(self) -> Mapping[str, bytes]:
        return {}

    def cleanup(self) -> None: ...


class ToolsSection(MarkdownSection):
    """Functions that the model may call; what they are for is in their docstrings."""

    def __init__(self, *functions: Callable[..., Any], title: str = "", text: str = "") -> None:
        super().__init__(title, text, tools=functions)


class ResourceSection(Generic[T]):
    """Something that is opened for the turn and closed after it: a folder, a connection.

    `resource` is entered when somebody first asks for the text or the tools, and left by
    `cleanup`. The functions get what it gives.
    """

    def __init__(
        self,
        title: str,
        resource: AbstractContextManager[T],
        *,
        text: Callable[[T], str] = lambda _value: "",
        tools: Callable[[T], Sequence[Callable[..., Any]]] = lambda _value: (),
        artifacts: Callable[[T], Mapping[str, bytes]] = lambda _value: {},
    ) -> None:
        self.title = title
        self._resource = resource
        self._text = text
        self._tools = tools
        self._artifacts = artifacts
        self._opened: list[T] = []

    @property
    def value(self) -> T:
        """What the resource gives; it is opened now if it is not yet."""
        if not self._opened:
            self._opened.append(self._resource.__enter__())
        return self._opened[0]

    def render(self) -> str:
        return self._text(self.value)

    def tools(self) -> Sequence[Tool]:
        return tools_of(self._tools(self.value))

    def artifacts(self) -> Mapping[str, bytes]:
        return self._artifacts(self._opened[0]) if self._opened else {}

    def cleanup(self) -> None:
        if self._opened:
            self._opened.clear()
            self._resource.__exit__(None, None, None)


def tools_of(functions: Sequence[Callable[..., Any] | Tool]) -> tuple[Tool, ...]:
    return tuple(each if isinstance(each, Tool) else tool_of(each) for each in functions)
