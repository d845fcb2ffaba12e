"""A process that does turns and serves them over HTTP.

Its model streams fresh words at each call. At one of them, if it is told so, it waits until the
words of this call can be read, says so, and says nothing more.
"""

from __future__ import annotations

import os
import sys
import threading

from afl.agents.listening import Listener
from afl.agents.model import ModelAnswer, ModelRequest, Role, StopReason, Text, ToolCall
from afl.gateway import TurnApi
from afl.ids import new_id
from afl.loops import AgentLoop, Experiment, Prompt, Session, ToolsSection, tool
from afl.mailbox import open_mailbox
from afl.runtime import LoopGroup
from afl.turns import TurnStore, open_turns

#: Words of an answer, and answers of a turn: all but the last one use a tool.
WORDS, ANSWERS = 4, 3


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Model:
    """Hangs at the word with this number, counted over the whole turn from 1."""

    def __init__(self, store: TurnStore, hangs_at: int) -> None:
        self._store = store
        self._hangs_at = hangs_at

    def answer(self, request: ModelRequest) -> ModelAnswer:
        return self.stream(request, lambda _: None)

    def stream(self, request: ModelRequest, on_text: Listener) -> ModelAnswer:
        step = sum(each.role is Role.ASSISTANT for each in request.messages)
        before = self._store.list()[0].streamed
        words = [f"{new_id()[-8:]} " for _ in range(WORDS)]
        for number, word in enumerate(words, start=step * WORDS + 1):
            on_text(word)
            if number == self._hangs_at:
                self._hang(before)
        text = Text("".join(words))
        if step == ANSWERS - 1:
            return ModelAnswer((text,), StopReason.END)
        return ModelAnswer((text, ToolCall(new_id(), "look", {"at": step})), StopReason.TOOL_USE)

    def _hang(self, before: int) -> None:
        never = threading.Event()
        while (turn := self._store.list()[0]).streamed <= before:
            self._store.wait_news(turn, 1.0, never)
        say("hangs")
        never.wait()


@tool(idempotent=True)
def look(at: int) -> str:
    """Look at something."""
    return f"seen {at}"


class Agent(AgentLoop[str, str]):
    def prepare(
        self, request: str, *, experiment: Experiment | None = None
    ) -> tuple[Prompt[str], Session]:
        return Prompt(request, ToolsSection(look)), Session()


def main(path: str, port: str, hangs_at: str) -> None:
    store = open_turns(f"sqlite:///{path}")
    agent = Agent(
        adapter=Model(store, int(hangs_at)),
        requests=open_mailbox(f"sqlite:///{path}", "requests"),
        name="support",
        turns=store,
        lease_s=1.0,
    )
    api = TurnApi(store, loops=["support"], port=int(port))
    say("up")
    sys.stdin.readline()
    LoopGroup([agent, api], shutdown_timeout=5.0).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
