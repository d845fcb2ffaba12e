"""A worker in a process of its own, for measurements from outside.

`python -m benchmarks.worker_process STORE LEASE_MS KIND` prints a line when it is ready, and one
with the monotonic time, which all processes of a machine share, when a handler starts. KIND is
`quick`, or `endless` for handlers that never end.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from afl.bootstrap import open_store
from afl.clock import SYSTEM_CLOCK
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.evaluator import Evaluator
from benchmarks.engine import NAME


def main() -> None:
    url, lease_ms, kind = sys.argv[1:]

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        _say(str(SYSTEM_CLOCK.monotonic()))
        if kind == "endless":
            threading.Event().wait()
        return {"n": payload["n"]}

    store = open_store(url)
    poller = AgentPoller(store, Evaluator(store), AgentPollerConfig(lease_ms=int(lease_ms)))
    poller.register(NAME, work)
    signal.signal(signal.SIGTERM, lambda *_: poller.request_stop())
    threading.Thread(target=_tell_when_ready, args=(poller,), daemon=True).start()
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
