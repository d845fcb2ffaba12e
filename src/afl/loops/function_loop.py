"""Loops for people who have no prompts: a function does each request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from afl.agents.calling import Calling
from afl.agents.evaluation import PromptResponse
from afl.agents.experiment import Experiment
from afl.agents.prompt import Prompt
from afl.agents.session import Session
from afl.loops.agent_loop import AgentLoop
from afl.loops.execution import Order
from afl.runtime.callables import is_async, takes_context


class FunctionLoop(AgentLoop[Any, Any]):
    """What `AgentLoop.from_function` makes."""

    def __init__(self, function: Callable[..., Any], *, name: str | None = None, **options: Any):
        called = str(getattr(function, "__name__", type(function).__name__))
        super().__init__(adapter=None, name=name or called, **options)
        self._function = function
        self._wants_turn = takes_context(function)

    @property
    def function(self) -> Callable[..., Any]:
        """What does each request."""
        return self._function

    @property
    def is_async(self) -> bool:
        return is_async(self._function)

    def prepare(
        self,
        request: Any,  # noqa: ARG002 - the function gets it
        *,
        experiment: Experiment | None = None,  # noqa: ARG002
    ) -> tuple[Prompt[Any], Session]:
        return Prompt(name=self.name), Session()

    async def respond(
        self,
        order: Order[Any],
        prompt: Prompt[Any],
        session: Session,  # noqa: ARG002 - as the loop says
        calling: Calling,
    ) -> PromptResponse[Any]:
        arguments = [order.request.request, order.turn][: 1 + self._wants_turn]
        output = await calling.function(partial(self._function, *arguments))
        return PromptResponse(prompt.name, output)
