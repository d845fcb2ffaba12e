"""A worker on a database in a process of its own, or a bare loop that stands beside it.

`python -m benchmarks.store_process KIND URL` prints a line when it is ready, begins at a line on
its standard input, and prints the monotonic time, which all processes of a machine share, when
nothing is left to do. KIND is

- `ours`: claim a task, complete it, one by one, as a worker with one slot does: where the store
  can, a result brings the next task along;
- `bare`: the same two commits for each task with the driver alone, in tables or collections of its
  own (`benchmarks.bare_stores`);
- `bare_row`, `bare_rows`: two commits that change a single row each, and those of many at once;
- `worker`: the worker that we ship, which takes what waits together. It never ends by itself, and
  prints the time when its first handler starts.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

from afl.bootstrap import open_store
from afl.clock import SYSTEM_CLOCK
from afl.collector import collector_rare
from afl.ids import new_id
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.claims import NextClaim
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import DEFAULT_TASK_LIST
from afl.runtime.task_source import TaskSource
from benchmarks.bare_stores import BATCH, Loop, bare, bare_rows
from benchmarks.engine import NAME

SLOTS = 100

# What is done until nothing is left


def ours(url: str) -> Loop:
    store = open_store(url)
    evaluator = Evaluator(store)
    source = TaskSource(store, evaluator, lambda: [NAME], lambda _: None)
    further = NextClaim(frozenset([NAME]), new_id(), task_list=DEFAULT_TASK_LIST)

    def loop() -> None:
        # Those who come second may get nothing though something is left.
        while (works := source.claim(1)) or store.wait_for_work([NAME], 0):
            tasks = [each.task for each in works]
            while tasks:
                tasks = evaluator.complete_task(tasks[0], tasks[0].data, claim=further)

    return loop


def worker(url: str) -> Loop:
    store = open_store(url)
    poller = AgentPoller(store, Evaluator(store), AgentPollerConfig(max_concurrent=SLOTS))
    starts: Iterator[Callable[[], None]] = chain([_tell_time], repeat(_tell_nothing))

    def handler(payload: dict[str, Any]) -> dict[str, Any]:
        next(starts)()
        return {"n": payload["n"]}

    poller.register(NAME, handler)
    return poller.start


def _tell_time() -> None:
    print(SYSTEM_CLOCK.monotonic(), flush=True)


def _tell_nothing() -> None:
    """Only the first one is told."""


KINDS: dict[str, Callable[[str], Loop]] = {
    "ours": ours,
    "bare": bare,
    "bare_row": bare_rows,
    "bare_rows": lambda url: bare_rows(url, BATCH),
    "worker": worker,
}


def main() -> None:
    kind, url = sys.argv[1:]
    loop = KINDS[kind](url)
    print("ready", flush=True)
    sys.stdin.readline()
    with collector_rare():  # as `afl worker` does; the others have the same
        loop()
    if kind == "worker":
        threading.Event().wait()
    _tell_time()


if __name__ == "__main__":
    main()
