"""`/health` and `/status` of a runner, on the first free port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from afl.errors import ConfigurationError
from afl.log import redact
from afl.runtime.health import Report
from afl.runtime.lifecycle import Runnable
from afl.runtime.probe_server import Answer, ProbeServer

#: How many ports a machine has.
_PORTS = 2**16


@contextmanager
def served_status(
    host: str,
    first_port: int,
    attempts: int,
    *,
    live: Callable[[], Report],
    ready: Callable[[], Report],
    status: Callable[[], Mapping[str, Any]],
) -> Iterator[int]:
    """Answer until the end of the block; the port. Raises ConfigurationError if none is free."""
    routes = {
        "/health": lambda: _health(live()),
        "/health/live": lambda: _health(live()),
        "/health/ready": lambda: _health(ready()),
        "/status": lambda: Answer.of_json(HTTPStatus.OK, redact(status())),
    }

    def respond(path: str) -> Answer | None:
        found = routes.get(path.rstrip("/"))
        return found() if found is not None else None

    server, port = _listening(host, first_port, attempts, respond)
    try:
        yield port
    finally:
        server.stop()


def handled_by(loops: Iterable[Runnable]) -> dict[str, dict[str, int]]:
    """How many tasks of each facet were done, and how many failed, in all of these loops."""
    counts: dict[str, dict[str, int]] = {}
    for loop in loops:
        for name, done, failed in getattr(loop, "handled", ()):
            count = counts.setdefault(name, {"handled": 0, "not_handled": 0})
            count["handled"] += done
            count["not_handled"] += failed
    return counts


def _listening(
    host: str, first_port: int, attempts: int, respond: Callable[[str], Answer | None]
) -> tuple[ProbeServer, int]:
    ports = range(first_port, min(first_port + max(attempts, 1), _PORTS))
    for port in ports:
        server = ProbeServer(host, port, respond)
        try:
            server.start()
        except ConfigurationError:
            continue
        assert server.address is not None, "it listens"
        return server, server.address[1]
    if not ports:
        raise ConfigurationError(
            f"http_port is {first_port}, and there are no ports beyond {_PORTS - 1}; choose a "
            "smaller one (0 is any free one)"
        )
    raise ConfigurationError(
        f"no port from {first_port} to {ports[-1]} of {host} is free for the status of this "
        "runner; choose another http_port (0 is any free one), or a larger http_max_port_attempts"
    )


def _health(report: Report) -> Answer:
    body = {"ok": report.ok, "reasons": redact(list(report.reasons))}
    return Answer.of_json(HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE, body)
