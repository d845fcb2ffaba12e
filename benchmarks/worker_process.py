"""A worker in a process of its own, for measurements from outside.

`python -m benchmarks.worker_process STORE LEASE_MS KIND` prints a line when it is ready, and one
with the monotonic time, which all processes of a machine share, when a handler starts. KIND is
`quick`, or `endless` for handlers that never end, or `crowd`: one of several that begin together,
when they are sent a line, and tell only when their first handler starts.
"""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import replace
from typing import Any

from afl.bootstrap import open_store
from afl.clock import SYSTEM_CLOCK
from afl.collector import collector_rare
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.evaluator import Evaluator
from benchmarks.engine import NAME

#: Tasks at once, in each worker of a crowd.
SLOTS = 200


def main() -> None:
    url, lease_ms, kind = sys.argv[1:]

    is_crowd, started = kind == "crowd", list[float]()

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        if not is_crowd or not started:
            started[:] = [SYSTEM_CLOCK.monotonic()]
            _say(str(started[0]))
        if kind == "endless":
            threading.Event().wait()
        return {"n": payload["n"]}

    store = open_store(url)
    config = AgentPollerConfig(lease_ms=int(lease_ms))
    if is_crowd:
        config = replace(config, max_concurrent=SLOTS)
    poller = AgentPoller(store, Evaluator(store), config)
    poller.register(NAME, work)
    signal.signal(signal.SIGTERM, lambda *_: poller.request_stop())
    if is_crowd:
        _say("ready")
        sys.stdin.readline()
    else:
        threading.Thread(target=_tell_when_ready, args=(poller,), daemon=True).start()
    with collector_rare():  # as `afl worker` does
        poller.start()
    store.close()


def _tell_when_ready(poller: AgentPoller) -> None:
    while not poller.is_running:
        SYSTEM_CLOCK.sleep(0.005)
    _say("ready")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
