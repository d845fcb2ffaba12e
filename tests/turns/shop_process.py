"""A process that does turns of the shop until it is told to stop.

It says what happens. With the manner `slow` every tool takes a while; with `patient` one of them
works until the turn is to be left, and there is all the time to drain; with `hangs` the last one
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
from afl.loops import AgentLoopRequest, current_turn
from afl.mailbox import open_mailbox
from afl.runtime import LoopGroup
from afl.runtime.lifecycle import wait_until
from afl.telemetry import TELEMETRY, Event
from afl.turns import open_turns

DRAIN_S = 2.0
_SLOW_S = 1.0
_LONG_S = 60.0


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
        if self._manner == "patient" and name == "charge":
            wait_until(lambda: current_turn().suspend_requested, timeout=_LONG_S)
        if self._manner == "hangs" and name == PLAN[-1][0]:
            threading.Event().wait()
        return receipt


def tell(event: Event) -> None:
    if event.name in ("turn_checkpointed", "turn_handed_over"):
        say(event.name.removeprefix("turn_"), event.facts()["turn"])


def main(url: str, place: str, turn: str, model_port: str, tools_port: str, manner: str) -> None:
    TELEMETRY.subscribe(tell)
    agent = Agent(
        SlowShop(World(int(tools_port)), turn, manner),
        adapter=RemoteModel(World(int(model_port)), turn),
        requests=open_mailbox(url, "requests", body_type=AgentLoopRequest[str]),
        turns=open_turns(place),
        lease_s=2.0,
    )
    drain_s = _LONG_S if manner == "patient" else DRAIN_S
    group = LoopGroup([agent], shutdown_timeout=drain_s, warmup=[])
    say("up")
    group.run()
    say("down")


if __name__ == "__main__":
    main(*sys.argv[1:])
