"""How quickly processes stop and answer, measured from another process, and what a beat costs.

The aims are times of those who wait: deployments, load balancers, kubelets. `bare` is the same
measured with plain threads and the server of the standard library.
"""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.runtime.heartbeat import Heartbeat
from benchmarks.measure import best_of, judged, percentile

#: Processes that are started and stopped for each of the first three numbers, and for `bare`.
PROCESSES, BARE_PROCESSES = 100, 5
#: Probes of each busy process.
PROBES = 20
BEATS = 100_000
#: Longest times: the first three in milliseconds, the last in microseconds.
EXIT_MS, UNREADY_MS, PROBE_MS, BEAT_US = 300.0, 50.0, 100.0, 2.0
#: How long a process goes on answering while its readiness is looked at.
SETTLE_S = 0.3


def run() -> dict[str, Any]:
    return {
        "idle_exit_after_sigterm": _judged_p99(
            _repeated(PROCESSES, lambda: _exits_ms("idle")),
            EXIT_MS,
            bare=_repeated(BARE_PROCESSES, lambda: _exits_ms("bare-idle")),
        ),
        "unready_after_sigterm": _judged_p99(_repeated(PROCESSES, _unready_ms), UNREADY_MS),
        "probe_beside_eight_busy_loops": _judged_p99(
            _repeated(PROCESSES, lambda: _probes_ms("busy")),
            PROBE_MS,
            bare=_repeated(BARE_PROCESSES, lambda: _probes_ms("bare-busy")),
        ),
        "heartbeat": judged(_beat_us(), BEAT_US, unit="microseconds"),
    }


def _repeated(times: int, measure: Callable[[], list[float]]) -> list[float]:
    return sorted(each for _ in range(times) for each in measure())


def _judged_p99(
    ours: list[float], aim_ms: float, bare: list[float] | None = None
) -> dict[str, Any]:
    facts = {"p50": round(percentile(ours, 50), 3), "longest": round(ours[-1], 3)}
    if bare:
        facts["bare"] = round(percentile(bare, 99), 3)
    return judged(percentile(ours, 99), aim_ms, unit="ms, p99", count=len(ours), **facts)


# Measures


def _exits_ms(kind: str) -> list[float]:
    """From SIGTERM to the end of an idle process."""
    with _process(kind) as (process, _):
        started = SYSTEM_CLOCK.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        return [_ms_since(started)]


def _unready_ms() -> list[float]:
    """From SIGTERM to the first answer that is a 503."""
    with _process("idle", SETTLE_S) as (process, port):
        started = SYSTEM_CLOCK.monotonic()
        process.send_signal(signal.SIGTERM)
        while _status(port) != http.client.SERVICE_UNAVAILABLE:
            pass
        return [_ms_since(started)]


def _probes_ms(kind: str) -> list[float]:
    with _process(kind) as (_, port):
        return [_probe_ms(port) for _ in range(PROBES)]


def _probe_ms(port: int) -> float:
    started = SYSTEM_CLOCK.monotonic()
    assert _status(port) == http.client.OK
    return _ms_since(started)


def _beat_us() -> float:
    heartbeat = Heartbeat()

    def beat() -> None:
        for _ in range(BEATS):
            heartbeat.beat()

    (seconds,) = best_of(5, beat)
    return seconds / BEATS * 1_000_000


# Processes


@contextmanager
def _process(kind: str, settle_s: float = 0.0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that is ready, and the port of its probes."""
    command = [sys.executable, "-m", "benchmarks.lifecycle_process", kind, str(settle_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            while _status(port) != http.client.OK:
                pass
            yield process, port
            process.terminate()
            code = process.wait(timeout=60)
            assert code == 0, f"the process ended with {code}"
        finally:
            process.kill()


def _status(port: int) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/health/ready")
        response = connection.getresponse()
        response.read()
        return response.status


def _ms_since(started: float) -> float:
    return (SYSTEM_CLOCK.monotonic() - started) * 1000
