"""A model that says what it is told to: offline, and the same every time.

For tests, examples and dry runs. Each entry of the script answers one request: an answer, an error
to raise, words that come one after the other, or a function of the request that gives either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from afl.agents.budget import Budget
from afl.agents.errors import ModelRefused
from afl.agents.listening import Listener
from afl.agents.model import ModelAnswer, ModelRequest, StopReason, Text, ToolCall, Usage


@dataclass(frozen=True)
class Speaks:
    """An answer in words that come one after the other; an error among them is raised."""

    pieces: Iterable[str | BaseException]
    usage: Usage = field(default_factory=Usage)


Line: TypeAlias = ModelAnswer | Speaks | BaseException
Entry: TypeAlias = Line | Callable[[ModelRequest], Line]


def says(text: str, usage: Usage | None = None) -> ModelAnswer:
    """An answer in words."""
    return ModelAnswer((Text(text),), StopReason.END, usage or Usage(), "scripted")


def speaks(*pieces: str | BaseException, usage: Usage | None = None) -> Speaks:
    """An answer in words, for those who listen piece by piece."""
    return Speaks(pieces, usage or Usage())


def calls(
    name: str, arguments: Any, *, call_id: str = "call", usage: Usage | None = None
) -> ModelAnswer:
    """An answer that uses a tool."""
    part = ToolCall(call_id, name, arguments)
    return ModelAnswer((part,), StopReason.TOOL_USE, usage or Usage(), "scripted")


class ScriptedAdapter:
    """Answers from a script, entry by entry; with `default`, for ever after it. Safe from any
    thread. `requests` are all that came."""

    def __init__(
        self,
        script: Iterable[Entry] = (),
        *,
        default: Entry | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._script = list(script)
        self._default = default
        self._budget = budget or Budget()
        self.requests: list[ModelRequest] = []

    def answer(self, request: ModelRequest) -> ModelAnswer:
        """The next line. Raises ModelRefused when there is none left."""
        return self.stream(request, lambda _: None)

    def stream(self, request: ModelRequest, on_text: Listener) -> ModelAnswer:
        """Like `answer`; words that come one after the other are handed on."""
        self._budget.begin(request.model)
        entry = self._next(request)
        line = entry(request) if callable(entry) else entry
        if isinstance(line, Speaks):
            line = _spoken(line, on_text)
        if isinstance(line, BaseException):
            raise line
        self._budget.record(request.model, line.usage)
        return line

    async def answer_async(self, request: ModelRequest) -> ModelAnswer:
        return self.answer(request)

    async def stream_async(self, request: ModelRequest, on_text: Listener) -> ModelAnswer:
        return self.stream(request, on_text)

    def _next(self, request: ModelRequest) -> Entry:
        with self._lock:
            self.requests.append(request)
            if self._script:
                return self._script.pop(0)
        if self._default is None:
            raise ModelRefused(f"the script has no answer to request {len(self.requests)}")
        return self._default


def _spoken(line: Speaks, on_text: Listener) -> ModelAnswer | BaseException:
    heard: list[str] = []
    for each in line.pieces:
        if isinstance(each, BaseException):
            return each
        heard.append(each)
        on_text(each)
    return says("".join(heard), line.usage)
