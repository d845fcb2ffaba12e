"""What probes and people are told about this process over HTTP.

| path | answers |
| --- | --- |
| `/health/live`, `/livez` | 200 while the process works, 503 if it must be restarted |
| `/health/ready`, `/readyz` | 200 while it may be given work, else 503 with the reasons |
| `/health/startup`, `/startupz` | 200 once it has started, else 503 with the reasons |
| `/status` | everything about the phase and the loops, for people |
| `/metrics` | the same in numbers, for Prometheus |

A check that raises is a 503 that says so, and one that hangs is a 503 from the next request on: it
costs the server one thread and none of its other answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.log import get_logger, redact
from afl.runtime.probe_server import Answer, ProbeServer

_log = get_logger(__name__)

#: How long a probe waits for the same question of another one to be answered.
_PATIENCE_S = 1.0
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Report:
    """The outcome of a check, and what speaks against it."""

    ok: bool
    reasons: tuple[str, ...] = ()


def _fine() -> Report:
    return Report(ok=True)


def _no_status() -> dict[str, Any]:
    return {}


def _no_metrics() -> str:
    return ""


class HealthServer:
    """Serves the probes of this process; see the module for the paths.

    The checks run on threads of the server, one at a time for each path, so they must neither
    wait nor need a lock that working threads hold. `port` 0 takes any free port; `port` then
    tells which. Raises ConfigurationError from `start` if the port cannot be had.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8080,
        *,
        live: Callable[[], Report] = _fine,
        ready: Callable[[], Report] = _fine,
        startup: Callable[[], Report] = _fine,
        status: Callable[[], dict[str, Any]] = _no_status,
        metrics: Callable[[], str] = _no_metrics,
    ) -> None:
        self._port = port
        self._routes = _routes(
            {
                ("/health/live", "/livez"): _Question("live", lambda: _probe(live())),
                ("/health/ready", "/readyz"): _Question("ready", lambda: _probe(ready())),
                ("/health/startup", "/startupz"): _Question("startup", lambda: _probe(startup())),
                ("/status",): _Question("status", lambda: _status(status())),
                ("/metrics",): _Question("metrics", lambda: _metrics(metrics())),
            }
        )
        self._server = ProbeServer(host, port, self._respond)

    def start(self) -> None:
        """Answer from now on. Does nothing if it does already."""
        self._server.start()

    def stop(self) -> None:
        """Answer no more. Takes milliseconds, unless an answer is just being given: then up to
        half a second."""
        self._server.stop()

    @property
    def port(self) -> int:
        """The port it listens on, or was told to listen on."""
        address = self._server.address
        return address[1] if address is not None else self._port

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port while it listens."""
        return self._server.address

    def _respond(self, path: str) -> Answer | None:
        question = self._routes.get(path.rstrip("/"))
        return question.answer() if question is not None else None


def _routes(questions: Mapping[tuple[str, ...], _Question]) -> dict[str, _Question]:
    return {path: question for paths, question in questions.items() for path in paths}


class _Question:
    """One kind of question, which is answered by one thread at a time.

    So a check that never returns takes one thread with it, not one for each probe.
    """

    def __init__(self, name: str, ask: Callable[[], Answer]) -> None:
        self._name = name
        self._ask = ask
        self._is_asked = threading.Lock()
        self._asked_at = 0.0
        self._has_failed = False

    def answer(self) -> Answer:
        if not (self._is_asked.acquire(blocking=False) or self._wait_for_turn()):
            return self._refusal(f"the {self._name} check hangs: an earlier one has not returned")
        self._asked_at = SYSTEM_CLOCK.monotonic()
        try:
            answer = self._ask()
            self._has_failed = False
            return answer
        except Exception as error:
            self._note_failure()
            return self._refusal(f"the {self._name} check failed: {type(error).__name__}: {error}")
        finally:
            self._is_asked.release()

    def _wait_for_turn(self) -> bool:
        age_s = SYSTEM_CLOCK.monotonic() - self._asked_at
        return self._is_asked.acquire(timeout=max(0.0, _PATIENCE_S - age_s))

    def _note_failure(self) -> None:
        if not self._has_failed:  # once: probes come every few seconds
            self._has_failed = True
            _log.exception("health_check_failed", check=self._name)

    def _refusal(self, reason: str) -> Answer:
        return _probe(Report(ok=False, reasons=(reason,)))


def _probe(report: Report) -> Answer:
    body: dict[str, Any] = {"status": "healthy" if report.ok else "unhealthy"}
    if report.reasons:
        body["reasons"] = redact(list(report.reasons))
    return Answer.of_json(HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE, body)


def _status(content: Mapping[str, Any]) -> Answer:
    return Answer.of_json(HTTPStatus.OK, redact(content))


def _metrics(text: str) -> Answer:
    return Answer(HTTPStatus.OK, text.encode(), _METRICS_TYPE)
