"""The health server answers truthfully, whatever clients and checks do.

The hazards each have a mutant that makes the mistake, and is caught by the same scenario.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple, Protocol

import pytest

from afl.clock import SYSTEM_CLOCK
from afl.errors import ConfigurationError
from afl.runtime.health import HealthServer, Report

FINE = Report(ok=True)
Check = Callable[[], Report]


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    port: int, path: str, method: str = "GET", body: str | None = None, timeout: float = 20
) -> Reply:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        connection.request(method, path, body)
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())


def raw(port: int, request: bytes) -> bytes:
    """What the server says to these bytes until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def serving(**checks: Any) -> Iterator[int]:
    server = HealthServer(port=0, **checks)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


# What it answers


@pytest.mark.parametrize(
    ("check", "paths"),
    [
        ("live", ("/health/live", "/livez")),
        ("ready", ("/health/ready", "/readyz")),
        ("startup", ("/health/startup", "/startupz")),
    ],
)
def test_a_probe_answers_what_its_check_says(check: str, paths: tuple[str, ...]) -> None:
    report = FINE
    with serving(**{check: lambda: report}) as port:
        for path in paths:
            report = FINE
            good = ask(port, path)
            assert (good.status, good.body) == (200, b'{"status": "healthy"}')
            report = Report(ok=False)
            bad = ask(port, path)
            assert (bad.status, bad.body) == (503, b'{"status": "unhealthy"}')
            assert bad.headers["Content-Type"] == "application/json"


def test_the_other_probes_do_not_depend_on_a_check_that_fails() -> None:
    with serving(ready=lambda: Report(ok=False)) as port:
        assert ask(port, "/health/ready").status == 503
        assert ask(port, "/health/live").status == 200
        assert ask(port, "/health/startup").status == 200


def test_the_status_is_json_without_secrets() -> None:
    content = {"phase": "ready", "loops": [{"name": "mail", "in_flight": 3}], "api_key": "abc"}
    with serving(status=lambda: content) as port:
        reply = ask(port, "/status")
    assert reply.json == content | {"api_key": "***"}


def test_metrics_are_served_as_prometheus_reads_them() -> None:
    with serving(metrics=lambda: "afl_ready 1\n") as port:
        reply = ask(port, "/metrics")
    assert (reply.status, reply.body) == (200, b"afl_ready 1\n")
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("path", ["/health/ready?verbose=1", "/health/ready/", "/readyz?"])
def test_a_query_or_a_last_slash_changes_nothing(path: str) -> None:
    with serving() as port:
        assert ask(port, path).status == 200


@pytest.mark.parametrize("path", ["/", "/health", "/health/readiness", "/../etc/passwd"])
def test_an_unknown_path_is_a_404_in_json(path: str) -> None:
    with serving() as port:
        reply = ask(port, path)
    assert (reply.status, reply.json) == (404, {"status": "error", "reasons": ["Not Found"]})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_another_method_is_a_405_in_json(method: str) -> None:
    with serving() as port:
        reply = ask(port, "/health/live", method, body="x" * 30_000)
    assert reply.status == 405
    assert reply.headers["Allow"] == "GET, HEAD"
    assert method in reply.json["reasons"][0]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    ],
    ids=["empty", "tls", "short", "version", "long", "headers", "length"],
)
def test_garbage_harms_nobody(request_bytes: bytes) -> None:
    with serving() as port:
        # A server may hang up on garbage before it has read it all.
        with suppress(ConnectionError):
            raw(port, request_bytes)
        assert ask(port, "/health/live").status == 200


# Hazards


class Server(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    @property
    def port(self) -> int: ...


class OneThread:
    """Mutant: the plainest server of the standard library, on one thread and without a limit."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, ready: Check) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = 200 if self.path == "/health/live" or ready().ok else 503
                self.send_response(status)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        class Quiet(HTTPServer):
            def handle_error(self, *args: object) -> None: ...

        self._server = Quiet((host, port), Handler)
        self.port = self._server.server_port

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Leaves the socket open."""

    def close(self) -> None:
        """For the test: as `stop` should be; what hangs is left behind."""
        threading.Thread(target=self._server.server_close, daemon=True).start()


def status_beside(server: Server, path: str, timeout: float) -> int | None:
    try:
        return ask(server.port, path, timeout=timeout).status
    except (OSError, http.client.HTTPException):
        return None


#: How long a mutant has to answer, and ours.
SHORT_S, LONG_S = 1.0, 20.0


@contextmanager
def started(server: Server) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()
        if isinstance(server, OneThread):
            server.close()


def live_beside_slow_clients(server: Server, clients: int, timeout: float) -> int | None:
    with started(server), ExitStack() as stack:
        for _ in range(clients):
            slow = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            stack.enter_context(slow)
            slow.sendall(b"GET /health")  # and no more
        return status_beside(server, "/health/live", timeout)


@pytest.mark.parametrize("clients", [1, 10, 100])
def test_slow_clients_keep_no_probe_from_its_answer(clients: int) -> None:
    """Hazard: one client that connects and says nothing blocks every probe."""
    assert live_beside_slow_clients(HealthServer(port=0), clients, LONG_S) == 200


def test_the_mutant_that_waits_for_slow_clients_is_found() -> None:
    assert live_beside_slow_clients(OneThread(ready=lambda: FINE), 1, SHORT_S) is None


def ready_that_raises() -> Report:
    raise ValueError("no row for password=hunter2")


def test_a_check_that_raises_is_a_503_that_says_so() -> None:
    """Hazard: the connection is dropped without an answer."""
    with serving(ready=ready_that_raises) as port:
        reply = ask(port, "/health/ready")
        assert ask(port, "/health/live").status == 200
    assert reply.status == 503
    reason = "the ready check failed: ValueError: no row for password=***"
    assert reply.json == {"status": "unhealthy", "reasons": [reason]}


def test_the_mutant_that_drops_the_connection_is_found() -> None:
    server = OneThread(ready=ready_that_raises)
    with started(server):
        assert status_beside(server, "/health/ready", SHORT_S) is None


def live_while_ready_hangs(kind: Callable[..., Any], timeout: float) -> int | None:
    release, is_in = threading.Event(), threading.Event()

    def hang() -> Report:
        is_in.set()
        release.wait()
        return FINE

    server = kind(port=0, ready=hang)
    with started(server):
        probe = threading.Thread(target=status_beside, args=(server, "/health/ready", LONG_S))
        probe.start()
        is_in.wait()
        status = status_beside(server, "/health/live", timeout)
        release.set()
        probe.join()
    return status


def test_a_check_that_hangs_stops_no_other_answer() -> None:
    """Hazard: a readiness check that waits for a lock takes liveness with it."""
    assert live_while_ready_hangs(HealthServer, LONG_S) == 200
    assert live_while_ready_hangs(OneThread, SHORT_S) is None


def test_a_check_that_hangs_is_reported_and_asked_again_later() -> None:
    release, is_in = threading.Event(), threading.Event()

    def hang_once() -> Report:
        if not is_in.is_set():
            is_in.set()
            release.wait()
        return FINE

    with serving(ready=hang_once) as port:
        first = threading.Thread(target=ask, args=(port, "/health/ready"))
        first.start()
        is_in.wait()
        # Far more than there are threads: each costs none for good.
        replies = [ask(port, "/health/ready") for _ in range(80)]
        reason = "the ready check hangs: an earlier one has not returned"
        assert {each.status for each in replies} == {503}
        assert replies[0].json["reasons"] == [reason]
        release.set()
        first.join()
        assert ask(port, "/health/ready").status == 200


def can_bind_after_stop(server: Server) -> bool:
    with started(server):
        port = server.port
        assert ask(port, "/health/live").status == 200
        server.stop()
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            return False
        return True


def test_stop_closes_the_socket() -> None:
    """Hazard: the port stays taken after stop, and connections to it hang."""
    assert can_bind_after_stop(HealthServer(port=0))
    assert not can_bind_after_stop(OneThread(ready=lambda: FINE))


def test_an_unhealthy_answer_gives_the_reasons_without_secrets() -> None:
    """Hazard: a 503 without a word, and nobody knows which loop it is about."""
    reasons = ("store: no answer from postgresql://afl:hunter2@db/afl", "mail: last beat 13m ago")
    with serving(ready=lambda: Report(ok=False, reasons=reasons)) as port:
        told = ask(port, "/health/ready").json["reasons"]
    assert told == ["store: no answer from postgresql://afl:***@db/afl", reasons[1]]


def test_the_mutant_that_gives_no_reasons_is_found() -> None:
    server = OneThread(ready=lambda: Report(ok=False, reasons=("warming",)))
    with started(server):
        assert ask(server.port, "/health/ready").body == b""


def test_head_is_get_without_the_body() -> None:
    """Hazard: load balancers that ask with HEAD are told 501."""
    with serving(ready=lambda: Report(ok=False, reasons=("warming",))) as port:
        full, head = ask(port, "/health/ready"), ask(port, "/health/ready", "HEAD")
    assert (head.status, head.body) == (503, b"")
    assert head.headers["Content-Length"] == str(len(full.body))


def test_the_mutant_that_does_not_know_head_is_found() -> None:
    server = OneThread(ready=lambda: FINE)
    with started(server):
        assert ask(server.port, "/health/ready", "HEAD").status == 501


class OpenToTheWorld(HealthServer):
    """Mutant: as convenient as can be."""

    def __init__(self, host: str = "0.0.0.0", port: int = 8080) -> None:
        super().__init__(host, port)


def default_host(kind: type[HealthServer]) -> str:
    server = kind(port=0)
    with started(server):
        assert server.address is not None
        return server.address[0]


def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    """Hazard: status and metrics are open to the world by default."""
    assert default_host(HealthServer) == "127.0.0.1"
    assert default_host(OpenToTheWorld) == "0.0.0.0"


# Starting and stopping


def health_threads() -> int:
    return sum(each.name == "afl-health" for each in threading.enumerate())


def test_a_port_in_use_is_a_configuration_error_and_leaves_nothing_behind() -> None:
    """Hazard: half of it runs on after the error."""
    interval = sys.getswitchinterval()
    with serving() as port:
        during = health_threads()
        with pytest.raises(ConfigurationError, match=f"cannot listen on port {port}.*health_port"):
            HealthServer(port=port).start()
        assert health_threads() == during
    assert sys.getswitchinterval() == interval


def test_starting_and_stopping_again_changes_nothing() -> None:
    server = HealthServer(port=0)
    server.stop()
    server.start()
    address = server.address
    server.start()
    assert server.address == address
    server.stop()
    server.stop()
    assert server.address is None


def test_it_can_start_again_after_a_stop() -> None:
    server = HealthServer(port=0)
    for _ in range(3):
        with started(server):
            assert ask(server.port, "/health/live").status == 200


def test_stop_leaves_no_thread_and_the_interpreter_as_it_was() -> None:
    interval = sys.getswitchinterval()
    server = HealthServer(port=0)
    with started(server), ExitStack() as stack:
        for _ in range(20):
            slow = socket.create_connection(("127.0.0.1", server.port))
            stack.enter_context(slow)
        assert ask(server.port, "/health/live").status == 200
        assert sys.getswitchinterval() < interval
        server.stop()
        assert health_threads() == 0
    assert sys.getswitchinterval() == interval


def test_a_check_may_stop_the_server() -> None:
    server = HealthServer(port=0, ready=lambda: _after(server.stop))
    server.start()
    assert ask(server.port, "/health/ready").status == 200
    assert server.address is None


def _after(action: Callable[[], None]) -> Report:
    action()
    return FINE


@pytest.fixture
def limit_s() -> Iterator[float]:
    """How long an application lets all its sockets wait."""
    limit_s = 0.01
    socket.setdefaulttimeout(limit_s)
    yield limit_s
    socket.setdefaulttimeout(None)


def test_a_limit_for_all_sockets_is_none_for_probes(
    limit_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    """It would end the wait for the next probe, and give a slow client no answer."""
    with serving() as port:
        client = socket.create_connection(("127.0.0.1", port), timeout=20)
        with client:
            client.sendall(b"GET /livez ")
            SYSTEM_CLOCK.sleep(limit_s * 5)
            client.sendall(b"HTTP/1.0\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.0 200 OK\r\n")
    assert "health_connection_not_accepted" not in caplog.text


def test_many_clients_at_once_are_all_answered() -> None:
    with serving() as port, ThreadPoolExecutor(20) as pool:
        replies = pool.map(lambda _: ask(port, "/health/ready").status, range(400))
        assert set(replies) == {200}


def test_ipv6_is_served() -> None:
    server = HealthServer("::1", 0)
    try:
        server.start()
    except ConfigurationError:
        pytest.skip("this machine has no IPv6")
    with started(server), socket.create_connection(("::1", server.port), timeout=20) as client:
        client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.0 200 OK\r\n")
