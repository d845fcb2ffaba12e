"""An agent that answers customers, in processes of its own.

From this folder:

    python support.py serve sqlite:///./support.db &
    python support.py ask sqlite:///./support.db "Where is order 7?"

Start as many servers as you like and stop them with SIGTERM: they finish what they have begun.
Kill one, and the others answer what it had. With a key in ANTHROPIC_API_KEY, Claude answers;
without one, a script does.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass

from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.agents.calling import AnyAdapter
from afl.agents.model import ModelAnswer, ModelRequest, ToolResult
from afl.loops import (
    AgentLoop,
    AgentLoopRequest,
    AgentLoopResult,
    Experiment,
    MarkdownSection,
    Prompt,
    Session,
    TurnBudget,
)
from afl.mailbox import Mailbox, open_mailbox
from afl.runtime import LoopGroup

ORDERS = {7: "on a ship near Norway", 8: "delivered"}


@dataclass
class Question:
    text: str


def find_order(number: int) -> str:
    """Where an order is now."""
    return ORDERS.get(number, "unknown")


class Support(AgentLoop[Question, str]):
    def prepare(
        self, request: Question, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        tone = "one word" if experiment and experiment.has_flag("terse") else "one sentence"
        return (
            Prompt(
                MarkdownSection("Task", f"Answer in {tone}.", tools=[find_order]),
                MarkdownSection("Question", request.text),
                system="You help the customers of a shop.",
            ),
            Session(),
        )


def scripted(request: ModelRequest) -> ModelAnswer:
    """What a model would do: look it up, then answer."""
    last = request.messages[-1].parts[0]
    if isinstance(last, ToolResult):
        return says(f"Your order is {last.content}.")
    return calls("find_order", {"number": 7})


def adapter() -> AnyAdapter:
    if os.environ.get("ANTHROPIC_API_KEY"):
        return AnthropicAdapter()
    return ScriptedAdapter(default=scripted)


def requests_at(url: str) -> Mailbox[AgentLoopRequest[Question], AgentLoopResult[str]]:
    return open_mailbox(url, "support", body_type=AgentLoopRequest[Question])


def serve(url: str) -> None:
    with closing(requests_at(url)) as requests:
        loop = Support(adapter=adapter(), requests=requests, concurrency=4)
        LoopGroup([loop], shutdown_timeout=30.0).run()


def ask(url: str, text: str) -> None:
    request = AgentLoopRequest(Question(text), budget=TurnBudget(max_seconds=60, max_calls=5))
    name = f"answers-{request.request_id}"
    with (
        closing(requests_at(url)) as requests,
        open_mailbox(url, name, body_type=AgentLoopResult[str]) as answers,
    ):
        requests.send(request, reply_to=answers)
        for message in answers.receive(wait_time_seconds=60):
            print(message.body.output or message.body.error)
            message.acknowledge()


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "serve":
        serve(*arguments)
    else:
        ask(*arguments)
