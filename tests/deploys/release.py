"""What is deployed: an agent that refunds and writes mail, in two releases.

The second one has another prompt, and a tool that takes more. What it needs is told by the
environment: the model and the shop, which are processes of their own, and how long things take.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.turns.world import World

import afl
from afl.agents.listening import Listener
from afl.agents.model import ModelAnswer, ModelRequest, Role, StopReason, Text, ToolCall
from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK
from afl.loops import AgentLoop, Experiment, MarkdownSection, Prompt, Session, tool
from afl.turns import ToolClient

RELEASE = os.environ.get("RELEASE", "1")
MODEL_PORT = int(os.environ.get("MODEL_PORT", "0"))
SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:1")
#: Between two words of the model.
PACE_S = float(os.environ.get("PACE_S", "0.02"))
#: The refund is done, and then its tool never returns.
HANGS = os.environ.get("HANGS") == "yes"
#: It is warm when this file is there.
WARM_FILE = os.environ.get("WARM_FILE", "")
#: The model says one word, and the rest when this file is there.
GATE_FILE = os.environ.get("GATE_FILE", "")
WORDS = 8
LEASE_S = 2.0

app = afl.App()
shop = ToolClient(base_url=SHOP_URL, timeout=20.0)


@dataclass
class Complaint:
    order: int


@tool(idempotent=True)
def refund(order: int) -> str:
    """Give the money back."""
    receipt = _receipt("refund", order=order)
    if HANGS:
        threading.Event().wait()
    return receipt


if RELEASE == "1":

    @tool(idempotent=True)
    def send_mail(order: int) -> str:
        """Write to the customer."""
        return _receipt("mail", order=order)

else:

    @tool(idempotent=True)
    def send_mail(order: int, tone: str = "friendly") -> str:
        """Write to the customer, in the right tone."""
        return _receipt("mail", order=order)


def _receipt(effect: str, **arguments: int) -> str:
    response = shop.post(f"/{effect}", json=arguments)
    response.raise_for_status()
    return str(response.json()["receipt"])


class Model:
    """Speaks the words that the model in the other process gives, one after the other."""

    def answer(self, request: ModelRequest) -> ModelAnswer:
        return self.stream(request, lambda _: None)

    def stream(self, request: ModelRequest, on_text: Listener) -> ModelAnswer:
        order = int(str(request.messages[0].parts[0]).partition("order ")[2].split(".")[0])
        with closing(World(MODEL_PORT)) as world:
            fresh = world.ask("answer", turn=str(order))
        pieces = [f"{fresh['words']} {number}, " for number in range(WORDS)]
        for each in pieces:
            SYSTEM_CLOCK.sleep(PACE_S)
            on_text(each)
            while GATE_FILE and not Path(GATE_FILE).exists():
                SYSTEM_CLOCK.sleep(PACE_S)
        said = Text("".join(pieces))
        step = sum(each.role is Role.ASSISTANT for each in request.messages)
        plan = ("refund", "send_mail")
        if step == len(plan):
            return ModelAnswer((said,), StopReason.END)
        call = ToolCall(fresh["id"], plan[step], {"order": order})
        return ModelAnswer((said, call), StopReason.TOOL_USE)


class Support(AgentLoop[Complaint, str]):
    def prepare(
        self, request: Complaint, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        complaint = f"About order {request.order}. Release {RELEASE} helps."
        section = MarkdownSection("", complaint, tools=[refund, send_mail])
        return Prompt(section, system=f"You are release {RELEASE}."), Session()


app.agent_loop("support", Support, adapter=Model(), concurrency=16, lease_s=LEASE_S)
app.dependency("shop", f"{SHOP_URL}/health", retry=Backoff(initial=0.1, maximum=0.5))


@app.warmup
def warm() -> bool:
    return not WARM_FILE or Path(WARM_FILE).exists()
