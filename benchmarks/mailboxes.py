"""Mailboxes on each backend, beside celery and dramatiq on the same Valkey.

Messages are sent and received one at a time, as a receiver that does one turn after the other
does. SQLite and PostgreSQL have every message on the disk before `send` returns; so has Valkey with
`appendfsync always`, while its default, `everysec`, may lose a second of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from queue import SimpleQueue
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.loops import AgentLoop, AgentLoopRequest
from afl.mailbox import InMemoryMailbox, open_mailbox
from afl.testing.servers import PostgresServer, ValkeyServer
from benchmarks.mailbox_process import LOOP_NAME, NAME
from benchmarks.measure import best_of, judged, judged_at_least, percentile
from benchmarks.peer_process import PEERS as PEER_SENDERS

ROUNDS = 3
COUNT = {"memory": 20_000, "sqlite": 1_000, "redis": 2_000, "postgres": 1_000}
LATENCIES, PAUSE_S = 200, 0.005
PEERS = ("celery", "dramatiq")
PEER_MESSAGES = 2_000
BODY: dict[str, Any] = {"request": "What is the weather like in Paris?", "number": 7}

#: At least: sends, and receives with their acknowledgements, per second.
PER_SECOND = {"memory": (114_000, 82_000), "redis": (5_400, 2_680)}
#: At most, of half of the messages, in milliseconds.
LATENCY_MS = {"memory": 2.0, "sqlite": 2.0, "redis": 5.0, "postgres": 5.0}


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        sqlite = _measured("sqlite", f"sqlite:///{folder}/bench.db")
    with PostgresServer(is_durable=True) as server:
        postgres = _measured("postgres", server.url)
    with ValkeyServer(appendfsync="everysec") as valkey:
        redis = {**_measured("redis", valkey.url), "bare_set": _bare(valkey.url)}
        peers = {name: _peer(name, valkey.url) for name in PEERS}
    with ValkeyServer(appendfsync="always") as valkey:
        # One at a time waits for one flush of the disk after the other: no aim, but the limit.
        durable = {**_measured("redis", valkey.url, has_aims=False), "bare_set": _bare(valkey.url)}
        durable_peers = {name: _peer(name, valkey.url) for name in PEERS}
    return {
        "memory": {
            **_throughput("memory", InMemoryMailbox()),
            "idle_receiver": _thread_latency(),
            "idle_loop": _thread_loop_latency(),
        },
        "sqlite": sqlite,
        "postgres": postgres,
        "redis_everysec": redis,
        "peers_on_valkey_everysec": peers,
        "redis_always": durable,
        "peers_on_valkey_always": durable_peers,
    }


def _measured(kind: str, url: str, *, has_aims: bool = True) -> dict[str, Any]:
    with closing(open_mailbox(url, NAME)) as mailbox:
        return {
            **_throughput(kind, mailbox, has_aims=has_aims),
            "idle_receiver": _process_latency(kind, url, "bare", lambda: mailbox.send(BODY)),
            "idle_loop": _loop_latency(kind, url),
        }


# How many


def _throughput(kind: str, mailbox: Any, *, has_aims: bool = True) -> dict[str, Any]:
    count = COUNT[kind]

    def send() -> None:
        for _ in range(count):
            mailbox.send(BODY)

    def receive() -> None:
        for _ in range(count):
            (message,) = mailbox.receive()
            message.acknowledge()

    seconds = best_of(ROUNDS, send, receive)
    rates = dict(zip(("send", "receive_and_acknowledge"), seconds, strict=True))
    aims = PER_SECOND.get(kind, (None, None)) if has_aims else (None, None)
    return {
        name: _rated(count / each, aim)
        for (name, each), aim in zip(rates.items(), aims, strict=True)
    }


def _bare(url: str) -> dict[str, Any]:
    import redis

    with closing(redis.Redis.from_url(url)) as client:
        count = COUNT["redis"]
        (seconds,) = best_of(ROUNDS, lambda: [client.set("bare", n) for n in range(count)])
    return _rated(count / seconds, None)


def _rated(per_second: float, aim: int | None) -> dict[str, Any]:
    per_second = round(per_second)
    if aim is None:
        return {"value": per_second, "unit": "per second"}
    return judged_at_least(per_second, aim, unit="per second")


# How soon


def _latency(kind: str, once: Callable[[], float]) -> dict[str, Any]:
    delays_ms = sorted(once() * 1000 for _ in range(LATENCIES))
    p50, p99 = percentile(delays_ms, 50), percentile(delays_ms, 99)
    return judged(p50, LATENCY_MS[kind], unit="ms from send to receive, p50", p99=round(p99, 3))


def _process_latency(
    kind: str, url: str, receiver: str, send: Callable[[], object]
) -> dict[str, Any]:
    with _process("benchmarks.mailbox_process", url, receiver) as process:
        assert process.stdout.readline() == "ready\n"
        return _latency(kind, lambda: _delay(send, process))


def _loop_latency(kind: str, url: str) -> dict[str, Any]:
    """To the first line of what does the request, in an agent loop."""
    request: AgentLoopRequest[str] = AgentLoopRequest(BODY["request"])
    with closing(open_mailbox(url, LOOP_NAME, body_type=AgentLoopRequest[str])) as mailbox:
        return _process_latency(kind, url, "loop", lambda: mailbox.send(request))


def _delay(send: Callable[[], object], process: Any) -> float:
    SYSTEM_CLOCK.sleep(PAUSE_S)  # until it is idle again
    started = SYSTEM_CLOCK.monotonic()
    send()
    return float(process.stdout.readline()) - started


def _thread_latency() -> dict[str, Any]:
    mailbox: InMemoryMailbox[Any, Any] = InMemoryMailbox()
    received: list[float] = []
    has_received = threading.Semaphore(0)

    def receive() -> None:
        while messages := mailbox.receive(wait_time_seconds=20):
            received.append(SYSTEM_CLOCK.monotonic())
            messages[0].acknowledge()
            has_received.release()

    def once() -> float:
        SYSTEM_CLOCK.sleep(PAUSE_S)
        started = SYSTEM_CLOCK.monotonic()
        mailbox.send(BODY)
        has_received.acquire()
        return received[-1] - started

    thread = threading.Thread(target=receive)
    thread.start()
    result = _latency("memory", once)
    mailbox.close()
    thread.join()
    return result


def _thread_loop_latency() -> dict[str, Any]:
    mailbox: InMemoryMailbox[Any, Any] = InMemoryMailbox()
    began: SimpleQueue[float] = SimpleQueue()

    def answer(request: str) -> str:
        began.put(SYSTEM_CLOCK.monotonic())
        return request

    def once() -> float:
        SYSTEM_CLOCK.sleep(PAUSE_S)
        started = SYSTEM_CLOCK.monotonic()
        mailbox.send(AgentLoopRequest(BODY["request"]))
        return began.get() - started

    with AgentLoop.from_function(answer, requests=mailbox) as loop:
        thread = threading.Thread(target=loop.run)
        thread.start()
        result = _latency("memory", once)
    thread.join()
    return result


# Peers


def _peer(name: str, url: str) -> dict[str, Any]:
    """Their tasks do nothing; they take many at once from the server, and so save round trips."""
    send = PEER_SENDERS[name](url, "send", _noop)
    assert send is not None

    def send_all() -> None:
        for _ in range(PEER_MESSAGES):
            send()

    (seconds,) = best_of(1, send_all)
    with _process("benchmarks.peer_process", name, url, "work", str(PEER_MESSAGES)) as process:
        worked_s = float(process.stdout.readline())
    with _process("benchmarks.peer_process", name, url, "echo") as process:
        send()
        process.stdout.readline()  # it is up
        delays_ms = sorted(_delay(send, process) * 1000 for _ in range(LATENCIES // 4))
    return {
        "send_per_second": round(PEER_MESSAGES / seconds),
        "done_per_second": round(PEER_MESSAGES / worked_s),
        "idle_worker_ms": {
            "p50": round(percentile(delays_ms, 50), 3),
            "p99": round(percentile(delays_ms, 99), 3),
        },
    }


def _noop() -> None:
    """Done elsewhere."""


@contextmanager
def _process(*command: str) -> Iterator[Any]:
    full = [sys.executable, "-m", *command]
    with subprocess.Popen(full, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=2))
