"""A worker as people deploy it: a process with signals and a drain, whose handlers have effects.

`python -m tests.workers.effects_process PLACE PORT OPTIONS` works on the store at PLACE, a file of
SQLite or a URL, and tells the ledger at PORT of each start of a handler. It prints a line when
signals are handled. OPTIONS are those of the worker, and `drain_s`; `health_port` for probes; and
`ahead_s`, by which the clock on the wall of this process is wrong.
"""

from __future__ import annotations

import json
import sys
import threading
from datetime import datetime, timedelta
from typing import Any

from tests.engine.ledger import Ledger
from tests.engine.opening import open_at

from afl.clock import SYSTEM_CLOCK, SystemClock
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.dispatch import HandlerContext
from afl.runtime.evaluator import Evaluator
from afl.runtime.lifecycle import LoopGroup

FACET = "effects.Happen"


class Handlers:
    """Does effects. Each thread has its own line to the ledger."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._mine = threading.local()

    def happen(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        if not hasattr(self._mine, "ledger"):
            self._mine.ledger = Ledger(self._port)
        self._mine.ledger.deliver(context.task)
        spread = payload["longest_ms"] - payload["shortest_ms"]
        # Not left to chance, so that a number takes the same time wherever it is done.
        share = payload["number"] * 37 % 101 / 100
        SYSTEM_CLOCK.sleep((payload["shortest_ms"] + spread * share) / 1000)
        return {"number": payload["number"]}


def _set_clock(ahead_s: float) -> None:
    """Only there does the package ask for the time of day."""
    right = SystemClock.now

    def wrong(self: SystemClock) -> datetime:
        return right(self) + timedelta(seconds=ahead_s)

    SystemClock.now = wrong  # type: ignore[method-assign]


def _ready() -> None:
    print("ready", flush=True)  # noqa: T201


def main() -> None:
    place, port, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    given = {"drain_deadline_seconds": options.pop("drain_s")}
    if "health_port" in options:
        given["health_port"] = options.pop("health_port")
    _set_clock(options.pop("ahead_s", 0))
    with open_at(place) as store:
        poller = AgentPoller(store, Evaluator(store), AgentPollerConfig(**options))
        poller.register(FACET, Handlers(port).happen)
        LoopGroup([poller], warmup=[_ready], **given).run()


if __name__ == "__main__":
    main()
