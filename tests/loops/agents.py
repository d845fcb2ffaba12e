"""An agent with a prompt, whose life can be looked at."""

from __future__ import annotations

from typing import Any

from tests.loops.office import Office

from afl.agents.calling import AnyAdapter
from afl.loops import AgentLoop, AgentLoopRequest, Experiment, Prompt, Session, ToolsSection


class CountingPrompt(Prompt[Any]):
    """Tells each time that it is to be cleaned up, also the second time."""

    def __init__(self, request: str, cleanups: list[str], **options: Any) -> None:
        super().__init__(f"Answer this: {request}", ToolsSection(shout), **options)
        self._request = request
        self._cleanups = cleanups

    def cleanup(self) -> None:
        self._cleanups.append(self._request)
        super().cleanup()


def shout(text: str) -> str:
    """Make a text loud."""
    return text.upper()


class Agent(AgentLoop[str, Any]):
    def __init__(self, adapter: AnyAdapter, office: Office, **options: Any) -> None:
        requests = office.open("requests", AgentLoopRequest[Any])
        super().__init__(**{"adapter": adapter, "requests": requests, **options})
        self.cleanups: list[str] = []
        self.sessions: list[Session] = []
        self.experiments: list[Experiment | None] = []
        self.output_type: Any = None

    def prepare(
        self, request: str, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[Any], Session]:
        self.experiments.append(experiment)
        self.sessions.append(Session())
        prompt = CountingPrompt(request, self.cleanups, output_type=self.output_type)
        return prompt, self.sessions[-1]
