"""A small HTTP server for probes: it answers whatever else the process is doing.

- It has threads of its own, which wait in `accept` together, and lets all threads take short
  turns: while others compute, every hand-over between threads costs a probe time.
- A connection is one request. It has a time limit, and the number of connections has a bound:
  when it is reached, the client that has been slowest to ask makes room for the newest.
- Stopping takes milliseconds, whoever is connected.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any, NamedTuple, cast

from afl.clock import SYSTEM_CLOCK
from afl.errors import ConfigurationError
from afl.log import get_logger
from afl.runtime.short_turns import begin_short_turns, end_short_turns

_log = get_logger(__name__)

#: Threads that stay when there is nothing to do; enough for the probes of one round.
_SPARE_THREADS = 3
_BACKLOG = 128
_LONGEST_BODY = 65536
_PAUSE_S = 0.05


class Answer(NamedTuple):
    """What a path answers."""

    status: int
    body: bytes
    content_type: str = "application/json"

    @classmethod
    def of_json(cls, status: int, content: object) -> Answer:
        return cls(status, json.dumps(content, default=str).encode())


class ProbeServer:
    """Serves GET and HEAD with what `respond` says for a path; None is a 404.

    `respond` runs on several threads at once. `port` 0 lets the system choose; `address` tells
    what it chose. Everything is safe from any thread and may be called again; a stopped server
    can start again.
    """

    def __init__(
        self,
        host: str,
        port: int,
        respond: Callable[[str], Answer | None],
        *,
        max_connections: int = 64,
        timeout_s: float = 2.0,
    ) -> None:
        self._host = host
        self._port = port
        self._respond = respond
        self._max_connections = max_connections
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._serving: _Serving | None = None

    def start(self) -> None:
        """Listen. Raises ConfigurationError if the port cannot be had."""
        with self._lock:
            if self._serving is None:
                self._serving = _Serving(
                    _listen(self._host, self._port),
                    self._respond,
                    self._max_connections,
                    self._timeout_s,
                )

    def stop(self, timeout_s: float = 0.5) -> None:
        """Close every socket, and wait for answers that are being given."""
        with self._lock:
            serving, self._serving = self._serving, None
        if serving is not None:
            serving.stop(timeout_s)

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port while it listens."""
        serving = self._serving
        return serving.address if serving is not None else None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"the health server cannot listen on port {port} of {host}: {error}. "
            "Choose another health_port (0 is any free one) or another health_host"
        ) from error
    # Whatever limit the application sets for all sockets: the next probe may take longer.
    listener.settimeout(None)
    return listener


class _Serving:
    """From listening to stopped: the threads and connections of one start."""

    def __init__(
        self,
        listener: socket.socket,
        respond: Callable[[str], Answer | None],
        max_connections: int,
        timeout_s: float,
    ) -> None:
        self._listener = listener
        host, port = listener.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)
        self._respond = respond
        self._max_connections = max_connections
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        #: Connections whose request has not come yet → since when, oldest first.
        self._asking: dict[socket.socket, float] = {}
        self._stopped = threading.Event()
        begin_short_turns()
        with self._lock:
            for _ in range(_SPARE_THREADS):
                self._add_thread()

    def stop(self, timeout_s: float) -> None:
        self._stopped.set()
        self._wake_all()
        with self._lock:
            threads = self._threads - {threading.current_thread()}
            for connection in self._asking:
                _hang_up(connection)
        deadline = SYSTEM_CLOCK.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
        self._listener.close()
        end_short_turns()

    def _wake_all(self) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            # Only Linux wakes those who wait in accept. Elsewhere, they are called.
            for _ in range(len(self._threads)):
                with suppress(OSError):
                    socket.create_connection(self.address, timeout=_PAUSE_S).close()

    # Threads

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name="afl-health", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no threads left; those we have go on
            _log.warning("health_thread_not_started", reason=str(error))
            return
        self._threads.add(thread)
        self._idle += 1

    def _serve(self) -> None:
        while not self._stopped.is_set():
            connection = self._accept()
            if connection is None:
                continue
            self._enter(connection)
            try:
                _Exchange(connection, self._timeout_s, self._respond, self._heard)
            except Exception as error:  # a client that went away
                _log.debug("health_connection_failed", reason=str(error))
            finally:
                connection.close()
            if not self._leave(connection):
                return

    def _accept(self) -> socket.socket | None:
        try:
            return self._listener.accept()[0]
        except OSError as error:
            if not self._stopped.is_set():
                _log.warning("health_connection_not_accepted", reason=str(error))
                # Out of file descriptors, most likely: trying at once again would spin.
                self._stopped.wait(_PAUSE_S)
            return None

    # Connections

    def _enter(self, connection: socket.socket) -> None:
        with self._lock:
            self._idle -= 1
            now = SYSTEM_CLOCK.monotonic()
            overdue = [each for each, at in self._asking.items() if now - at > self._timeout_s]
            if self._idle == 0:
                if len(self._threads) < self._max_connections:
                    self._add_thread()
                else:
                    overdue = overdue or list(self._asking)[:1]
            for each in overdue:
                _hang_up(each)
            self._asking[connection] = now
            if self._stopped.is_set():  # after `stop` has looked through the connections
                _hang_up(connection)

    def _heard(self, connection: socket.socket) -> None:
        with self._lock:
            self._asking.pop(connection, None)

    def _leave(self, connection: socket.socket) -> bool:
        """Whether the thread goes on."""
        with self._lock:
            self._asking.pop(connection, None)
            if self._idle >= _SPARE_THREADS:
                self._threads.discard(threading.current_thread())
                return False
            self._idle += 1
            return True


def _hang_up(connection: socket.socket) -> None:
    """Let whoever reads from it see its end. Does not close: its thread does."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    def __init__(
        self,
        connection: socket.socket,
        timeout_s: float,
        respond: Callable[[str], Answer | None],
        heard: Callable[[socket.socket], None],
    ) -> None:
        self._respond = respond
        self._heard = heard
        _limit_time(connection, timeout_s)
        super().__init__(connection, None, cast(Any, None))

    def setup(self) -> None:
        super().setup()
        self.wfile = BytesIO()  # so that the whole answer leaves in one piece

    def finish(self) -> None:
        self.rfile.close()
        self.connection.sendall(cast(BytesIO, self.wfile).getvalue())
        self.connection.shutdown(socket.SHUT_WR)

    def do_GET(self) -> None:
        self._heard(self.connection)
        answer = self._respond(self.path.partition("?")[0])
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(answer)

    def do_HEAD(self) -> None:
        self.do_GET()

    def send_error(
        self,
        code: int,
        message: str | None = None,
        explain: str | None = None,  # noqa: ARG002 - its signature there
    ) -> None:
        """Every refusal is JSON. A method that is not implemented is one that is not allowed."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
            self._take_body()
        reasons = [message or status.phrase]
        self._send(Answer.of_json(status, {"status": "error", "reasons": reasons}))

    def _take_body(self) -> None:
        """Closing on unread data would reset the connection, and the answer be lost."""
        with suppress(ValueError):
            length = int(self.headers.get("Content-Length", 0))
            self.rfile.read(max(0, min(length, _LONGEST_BODY)))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        return "afl"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Probes come every few seconds, and say nothing that is worth a line."""


def _limit_time(connection: socket.socket, timeout_s: float) -> None:
    """Let the system end reads and writes that take too long.

    A timeout of Python's own would give the interpreter away twice for each of them, once to wait
    and once to act, and while other threads are busy it takes time to come back.
    """
    if connection.gettimeout() is not None:  # the application has set one for all sockets
        connection.settimeout(None)
    seconds, fraction = divmod(timeout_s, 1)
    limit = struct.pack("ll", int(seconds), int(fraction * 1_000_000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
