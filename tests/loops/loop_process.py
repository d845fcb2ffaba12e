"""A process that answers requests, to be replaced by another one at any moment.

It says what it begins and does as it is asked: a request is how many seconds to take.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.loops import AgentLoopRequest, Turn
from afl.loops.execution import Order
from afl.loops.function_loop import FunctionLoop
from afl.mailbox import Message, open_mailbox
from afl.runtime import LoopGroup

LEASE_S = 2.0
CONCURRENCY = 4
DRAIN_S = 30.0


def say(*words: object) -> None:
    # In one write: others may speak at the same time.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Saying(FunctionLoop):
    """Says which request it begins."""

    async def respond(self, order: Order[Any], *rest: Any, **options: Any) -> Any:
        say("begun", order.context.request_id)
        return await super().respond(order, *rest, **options)


def take_time(seconds: float, turn: Turn) -> int:
    SYSTEM_CLOCK.wait(turn.cancellation, seconds)
    return turn.attempt


def die_instead(*_anything: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, name: str, manner: str) -> None:
    requests = open_mailbox(url, name, body_type=AgentLoopRequest[float])
    loop = Saying(take_time, requests=requests, concurrency=CONCURRENCY, lease_s=LEASE_S)
    if manner == "dies-before-acknowledging":
        Message.acknowledge = die_instead  # type: ignore[method-assign, assignment]
    group = LoopGroup([loop], shutdown_timeout=DRAIN_S, warmup=[])
    say("up")
    group.run()
    say("down")


if __name__ == "__main__":
    main(*sys.argv[1:])
