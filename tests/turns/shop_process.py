"""A process that does turns of the shop until it is told to stop.

It says what happens. With the manner `slow` every tool takes a while; with `hangs` the last one
never comes back, after it did what it is for.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from tests.turns.agent import PLAN, Agent, RemoteModel, Shop
from tests.turns.world import World

from afl.clock import SYSTEM_CLOCK
from afl.loops import AgentLoopRequest
from afl.mailbox import open_mailbox
from afl.runtime import LoopGroup
from afl.telemetry import TELEMETRY, Event
from afl.turns import open_turns

DRAIN_S = 2.0
_SLOW_S = 1.0


def say(*words: object) -> None:
    # In one write: others may speak at the same time.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class SlowShop(Shop):
    def __init__(self, world: World, turn: str, manner: str) -> None:
        super().__init__(world, turn)
        self._manner = manner

    def _do(self, name: str, **arguments: Any) -> str:
        receipt = super()._do(name, **arguments)
        say("did", name)
        if self._manner == "slow":
            SYSTEM_CLOCK.sleep(_SLOW_S)
        if self._manner == "hangs" and name == PLAN[-1][0]:
            threading.Event().wait()
        return receipt


def tell(event: Event) -> None:
    if event.name == "turn_checkpointed":
        say("checkpointed", event.facts()["turn"])


def main(url: str, turn: str, model_port: str, tools_port: str, manner: str) -> None:
    TELEMETRY.subscribe(tell)
    agent = Agent(
        SlowShop(World(int(tools_port)), turn, manner),
        adapter=RemoteModel(World(int(model_port)), turn),
        requests=open_mailbox(url, "requests", body_type=AgentLoopRequest[str]),
        turns=open_turns(url),
        lease_s=2.0,
    )
    group = LoopGroup([agent], shutdown_timeout=DRAIN_S, warmup=[])
    say("up")
    group.run()
    say("down")


if __name__ == "__main__":
    main(*sys.argv[1:])
