"""An agent with any tools."""

from __future__ import annotations

from typing import Any

from tests.loops.agents import Agent
from tests.loops.office import Office

from afl.loops import Prompt, Session, ToolsSection


class Tooled(Agent):
    """An agent with the tools that it is given."""

    def __init__(self, adapter: Any, office: Office, *tools: Any, **options: Any) -> None:
        super().__init__(adapter, office, name="tooled", **options)
        self._functions = tools

    def prepare(self, request: str, *, experiment: Any = None) -> tuple[Prompt[Any], Session]:
        self.sessions.append(Session())
        return Prompt(request, ToolsSection(*self._functions)), self.sessions[-1]
