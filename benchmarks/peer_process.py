"""No-op tasks in celery, dramatiq and huey, each in the worker that it ships.

`python -m benchmarks.peer_process PEER URL send N` queues tasks; `… work N` does them and prints
the seconds from the start of the first to the end of the last; `… echo` prints the monotonic time,
which all processes of a machine share, when a task starts. They are told to acknowledge after
their work, where they can.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from afl.clock import SYSTEM_CLOCK

THREADS = 8


class _Counter:
    """Called by each task; ends the process with the last one."""

    def __init__(self, last: int) -> None:
        self._lock = threading.Lock()
        self._last = last
        self._done = 0
        self._started = 0.0

    def __call__(self) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if not self._last:
            print(now, flush=True)
            return
        with self._lock:
            self._started = self._started or now
            self._done += 1
            is_last = self._done == self._last
        if is_last:
            print(SYSTEM_CLOCK.monotonic() - self._started, flush=True)
            os._exit(0)


def _imported(name: str) -> Any:
    """Only here, because they are not installed where nobody measures, and have no types."""
    return importlib.import_module(name)


def celery(url: str, action: str, task: Callable[[], None]) -> Callable[[], object] | None:
    app = _imported("celery").Celery("bench", broker=url)
    app.conf.update(
        task_acks_late=True, worker_prefetch_multiplier=4, task_ignore_result=True,
        broker_connection_retry_on_startup=True, worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )  # fmt: skip
    noop = app.task(name="noop")(task)
    if action == "send":
        return lambda: noop.delay()
    app.Worker(pool="threads", concurrency=THREADS, loglevel="ERROR", quiet=True).start()
    return None


def dramatiq(url: str, action: str, task: Callable[[], None]) -> Callable[[], object] | None:
    dramatiq = _imported("dramatiq")
    broker = _imported("dramatiq.brokers.redis").RedisBroker(url=url)
    dramatiq.set_broker(broker)
    noop = dramatiq.actor(actor_name="noop")(task)
    if action == "send":
        return lambda: noop.send()
    dramatiq.Worker(broker, worker_threads=THREADS).start()
    threading.Event().wait()
    return None


def huey(url: str, action: str, task: Callable[[], None]) -> Callable[[], object] | None:
    app = _imported("huey").RedisHuey("bench", url=url, results=False)
    noop = app.task(name="noop")(task)
    if action == "send":
        return lambda: noop()
    app.create_consumer(workers=THREADS, worker_type="thread").run()
    return None


PEERS = {"celery": celery, "dramatiq": dramatiq, "huey": huey}


def main() -> None:
    name, url, action, *rest = sys.argv[1:]
    count = int(rest[0]) if rest else 0
    counter = _Counter(count)

    def noop() -> None:
        counter()

    send = PEERS[name](url, action, noop)
    for _ in range(count if send is not None else 0):
        assert send is not None
        send()


if __name__ == "__main__":
    main()
