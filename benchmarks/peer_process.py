"""No-op tasks in celery, dramatiq and huey on Valkey, and in procrastinate and DBOS on PostgreSQL,
each in the worker that it ships.

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
from functools import partial
from typing import Any

from afl.clock import SYSTEM_CLOCK

THREADS = 8
#: At once, where tasks need no thread each.
SLOTS = 50


class _Counter:
    """Called by each task; ends the process with the last one, or when `are_done` says that all
    are: some tell their database long after the function has returned."""

    def __init__(self, last: int, are_done: Callable[[], bool] | None = None) -> None:
        self._lock = threading.Lock()
        self._last = last
        self._are_done = are_done
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
            is_first, is_last = self._done == 1, self._done == self._last
        if self._are_done is None:
            if is_last:
                self._end()
        elif is_first:
            threading.Thread(target=self._watch, args=(self._are_done,), daemon=True).start()

    def _watch(self, are_done: Callable[[], bool]) -> None:
        while not are_done():
            SYSTEM_CLOCK.sleep(0.01)
        self._end()

    def _end(self) -> None:
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


def procrastinate(
    url: str, action: str, task: Callable[[], None], slots: int = 1
) -> Callable[[], object] | None:
    """As it comes, its worker does one task at a time."""
    system = _imported("procrastinate")
    if action == "send":
        app = system.App(connector=system.SyncPsycopgConnector(conninfo=url))
        app.open()
        app.schema_manager.apply_schema()
    else:
        app = system.App(connector=system.PsycopgConnector(conninfo=url, max_size=SLOTS))

    async def body() -> None:
        task()

    noop = app.task(name="noop")(body)
    if action == "send":
        return lambda: noop.defer()
    app.run_worker(concurrency=slots)
    return None


def dbos(url: str, action: str, task: Callable[[], None]) -> Callable[[], object] | None:
    system = _imported("dbos")
    config = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
    if action == "send":
        system.run_dbos_database_migrations(system_database_url=url)
        client = system.DBOSClient(system_database_url=url)
        options = {"queue_name": "bench", "workflow_name": "noop"}
        return lambda: client.enqueue(options)
    system.DBOS(config=config)
    # A run of one step, as ours are.
    step = system.DBOS.step(name="step")(task)
    system.DBOS.workflow(name="noop")(lambda: step())
    system.DBOS.launch()
    system.DBOS.register_queue("bench", polling_interval_sec=0.05)
    threading.Event().wait()
    return None


#: Takes a URL, an action and a task; gives a way to send the task, if that is the action.
Peer = Callable[[str, str, Callable[[], None]], Callable[[], object] | None]
PEERS: dict[str, Peer] = {
    "celery": celery,
    "dramatiq": dramatiq,
    "huey": huey,
    "procrastinate": procrastinate,
    "procrastinate_at_once": partial(procrastinate, slots=SLOTS),
    "dbos": dbos,
}


_SUCCEEDED = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
#: How many tasks each has durably done, as its tables say.
DONE = {
    "procrastinate": _SUCCEEDED,
    "procrastinate_at_once": _SUCCEEDED,
    "dbos": "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'",
}


def _asking(name: str, url: str, count: int) -> Callable[[], bool]:
    connection = _imported("psycopg").connect(url, autocommit=True)
    return lambda: connection.execute(DONE[name]).fetchone() == (count,)


def main() -> None:
    name, url, action, *rest = sys.argv[1:]
    count = int(rest[0]) if rest else 0
    asks = action == "work" and name in DONE
    counter = _Counter(count, _asking(name, url, count) if asks else None)

    def noop() -> None:
        counter()

    send = PEERS[name](url, action, noop)
    for _ in range(count if send is not None else 0):
        assert send is not None
        send()


if __name__ == "__main__":
    main()
