"""An agent that helps the customers of a shop, as a service.

    afl serve agent.py --drain-deadline 2m

It needs the shop (`shop.py`) at SHOP_URL, and a model. With a key in ANTHROPIC_API_KEY, Claude
answers; ANTHROPIC_BASE_URL may name the script of `model.py` instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import afl
from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.loops import AgentLoop, Experiment, MarkdownSection, Prompt, Session, tool
from afl.turns import ToolClient

SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:8100")
#: The next release has another one: turns that are under way go on with it.
PROMPT = os.environ.get("SUPPORT_PROMPT", "You help the customers of a shop. Be brief.")

app = afl.App()
shop = ToolClient(base_url=SHOP_URL, timeout=10.0)


@dataclass
class Complaint:
    order: int
    text: str


# Both send the key of their call, and the shop acts once for each key: so they may be repeated.


@tool(idempotent=True)
def refund(order: int, cents: int) -> str:
    """Give the money of an order back."""
    return _receipt("refund", order=order, cents=cents)


@tool(idempotent=True)
def send_mail(order: int, text: str) -> str:
    """Write to the customer of an order."""
    return _receipt("mail", order=order, text=text)


def _receipt(effect: str, **arguments: int | str) -> str:
    response = shop.post(f"/{effect}", json=arguments)
    response.raise_for_status()
    return str(response.json()["receipt"])


class Support(AgentLoop[Complaint, str]):
    def prepare(
        self,
        request: Complaint,
        *,
        experiment: Experiment | None = None,  # noqa: ARG002 - one prompt for all
    ) -> tuple[Prompt[str], Session]:
        complaint = f"About order {request.order}: {request.text}"
        section = MarkdownSection("Complaint", complaint, tools=[refund, send_mail])
        return Prompt(section, system=PROMPT), Session()


app.agent_loop("support", Support, adapter=AnthropicAdapter(), concurrency=16)
app.dependency("shop", f"{SHOP_URL}/health")
