"""An agent that uses five tools, one after the other, in the outside world.

They differ in what they say about their effects: three are idempotent, of one can be found out
whether it was done, and one says nothing, so that only a person can know.
"""

from __future__ import annotations

from typing import Any

from tests.turns.world import World

from afl.agents.model import ModelAnswer, ModelRequest, Role, StopReason, Text, ToolCall
from afl.loops import AgentLoop, Experiment, Prompt, Session, ToolsSection, tool
from afl.turns import Done, NotDone, current_effect

#: What is asked of the agent, one tool after the other.
PLAN = [
    ("reserve", {"item": "lamp"}),
    ("charge", {"amount": 30}),
    ("fax", {"text": "sold"}),
    ("charge", {"amount": 12}),
    ("ship", {"item": "lamp"}),
]


class RemoteModel:
    """Asks the model in the other process; the plan is in the prompt, so to speak."""

    def __init__(self, world: World, turn: str) -> None:
        self._world = world
        self._turn = turn

    def answer(self, request: ModelRequest) -> ModelAnswer:
        step = sum(each.role is Role.ASSISTANT for each in request.messages)
        fresh = self._world.ask("answer", turn=self._turn)
        words = Text(fresh["words"])
        if step == len(PLAN):
            return ModelAnswer((words,), StopReason.END)
        name, arguments = PLAN[step]
        return ModelAnswer((words, ToolCall(fresh["id"], name, arguments)), StopReason.TOOL_USE)


class Shop:
    """The tools."""

    def __init__(self, world: World, turn: str) -> None:
        self._world = world
        self._turn = turn

    def section(self) -> ToolsSection:
        return ToolsSection(self.reserve(), self.charge(), self.ship(), self.fax())

    def reserve(self) -> Any:
        @tool(idempotent=True)
        def reserve(item: str) -> str:
            return self._do("reserve", item=item)

        return reserve

    def charge(self) -> Any:
        @tool(idempotent=True)
        def charge(amount: int) -> str:
            return self._do("charge", amount=amount)

        return charge

    def ship(self) -> Any:
        def was_shipped(key: str) -> Done | NotDone:
            receipt = self._world.ask("find", key=key)
            return NotDone() if receipt is None else Done(receipt)

        @tool(reconcile=was_shipped)
        def ship(item: str) -> str:
            return self._do("ship", item=item)

        return ship

    def fax(self) -> Any:
        def fax(text: str) -> str:
            facts = {"turn": self._turn, "name": "fax", "arguments": {"text": text}}
            return str(self._world.ask("do", **facts, key=None))

        return fax

    def _do(self, name: str, **arguments: Any) -> str:
        effect = current_effect()
        assert effect is not None
        facts = {"turn": self._turn, "name": name, "arguments": arguments}
        return str(self._world.ask("do", **facts, key=effect.next_key()))


class Agent(AgentLoop[str, str]):
    def __init__(self, shop: Shop, **options: Any) -> None:
        super().__init__(name="shop", **options)
        self._shop = shop

    def prepare(
        self, request: str, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        return Prompt(f"Do this: {request}", self._shop.section()), Session()
