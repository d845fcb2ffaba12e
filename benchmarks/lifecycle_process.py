"""The processes that the lifecycle benchmark starts, probes and stops.

`python -m benchmarks.lifecycle_process KIND SETTLE_SECONDS` prints the port of its probes when they
are answered, and ends with SIGTERM. Kinds are groups of eight loops, `idle` or `busy`, and what one
would write without them: eight threads beside the server of the standard library, `bare-idle` or
`bare-busy`.
"""

from __future__ import annotations

import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from afl.runtime.lifecycle import BaseLoop, LoopGroup

LOOPS = 8


def compute() -> None:
    sum(number * number for number in range(10_000))


class IdleLoop(BaseLoop):
    """Waits for messages that never come, as long as a receive does."""

    def work(self, stop: threading.Event, *, wait_time_seconds: int, **_options: Any) -> None:
        while not stop.wait(wait_time_seconds):
            self.heartbeat.beat()


class BusyLoop(BaseLoop):
    """Computes, without ever waiting for anything."""

    def work(self, stop: threading.Event, **_options: Any) -> None:
        while not stop.is_set():
            compute()
            self.heartbeat.beat()


class Announcer(IdleLoop):
    """Idle, and tells the port: loops run only when the group is ready."""

    group: LoopGroup

    def work(self, stop: threading.Event, **options: Any) -> None:
        address = self.group.health_address
        assert address is not None
        print(address[1], flush=True)
        super().work(stop, **options)


def run_group(kind: type[IdleLoop | BusyLoop], settle_s: float) -> None:
    announcer = Announcer("announcer")
    # Beside eight busy loops there is one more, which is idle.
    count = LOOPS - 1 if kind is IdleLoop else LOOPS
    group = LoopGroup(
        [announcer, *(kind(f"loop-{number}") for number in range(count))],
        health_port=0,
        health_host="127.0.0.1",
        settle_seconds=settle_s,
    )
    announcer.group = group
    group.run()


class BareProbe(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "healthy"}')

    def log_message(self, *_arguments: object) -> None:
        pass


def run_bare(is_busy: bool) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def work() -> None:
        while is_busy and not stop.is_set():
            compute()
        stop.wait()

    threads = [threading.Thread(target=work) for _ in range(LOOPS)]
    with ThreadingHTTPServer(("127.0.0.1", 0), BareProbe) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for each in threads:
            each.start()
        print(server.server_port, flush=True)
        while not stop.wait(0.1):  # in turns, since a signal may come just before it sleeps
            pass
        for each in threads:
            each.join()


def main() -> None:
    kind, settle_s = sys.argv[1], float(sys.argv[2])
    if kind.startswith("bare-"):
        run_bare(is_busy=kind == "bare-busy")
    else:
        run_group(BusyLoop if kind == "busy" else IdleLoop, settle_s)


if __name__ == "__main__":
    main()
