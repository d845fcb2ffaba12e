"""A web application as a loop: it starts, is watched and stops with the other loops of a group."""

from __future__ import annotations

import asyncio
import socket
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

import uvicorn

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError
from afl.gateway.access import Token, is_loopback
from afl.log import get_logger
from afl.runtime.lifecycle import BaseLoop

_log = get_logger(__name__)

#: Later than all loops: what they do until their end can be followed here.
STOP_ORDER = 100
#: What has not been answered so long after the stop is not.
_LAST_ANSWERS_S = 5
_BACKLOG = 2048


class StreamingApp(Protocol):
    """An ASGI application with streams that are told when to end."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    @property
    def open_streams(self) -> int: ...

    def end_streams(self) -> None:
        """Let open streams send what there is, and end. From any thread."""


class HttpLoop(BaseLoop):
    """Serves an application; say in `make_app` which. Each run has one of its own.

    Port 0 takes any free one; `address` tells which. Raises ConfigurationError, also from `run` if
    the port cannot be had. `label` is what messages call it.
    """

    def __init__(
        self,
        name: str,
        label: str,
        *,
        host: str,
        port: int,
        tokens: Sequence[Token],
        header_bytes: int,
        stop_order: float = STOP_ORDER,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name, clock=clock)
        if not tokens and not is_loopback(host):
            raise ConfigurationError(
                f"{label} would be open to everybody who reaches {host}; give it tokens, or "
                "bind it to 127.0.0.1"
            )
        self.stop_order = stop_order
        self._label = label
        self._place = (host, port)
        self._header_bytes = header_bytes
        # Now, so that what is wrong with the arguments is said here.
        self._app = self.make_app()
        self._listening = threading.Event()
        self._address: tuple[str, int] | None = None

    @abstractmethod
    def make_app(self) -> StreamingApp:
        """What one run serves. Called while this object is made, too. Raises
        ConfigurationError."""

    # How it stands

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port while it listens."""
        return self._address

    @property
    def url(self) -> str | None:
        address = self._address
        if address is None:
            return None
        host, port = address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def wait_until_listening(self, timeout: float | None = None) -> bool:
        return SYSTEM_CLOCK.wait(self._listening, timeout)

    @property
    def in_flight(self) -> int:
        """Open streams."""
        return self._app.open_streams

    @property
    def unready_reason(self) -> str | None:
        return None if self._listening.is_set() else "it does not listen yet"

    # Running

    def work(
        self,
        stop: threading.Event,
        *,
        max_iterations: int | None,  # noqa: ARG002 - there are none
        visibility_timeout: int,  # noqa: ARG002
        wait_time_seconds: int,  # noqa: ARG002
    ) -> None:
        self._app = self.make_app()  # that of the last run has ended its streams
        with closing(_bound(self._label, *self._place)) as bound:
            server = _Server(self._config(), self._app, stop, self._tick)
            self._address = bound.getsockname()[:2]
            _log.info("http_listens", loop=self.name, url=self.url)
            try:
                with asyncio.Runner() as runner:
                    runner.run(server.serve(sockets=[bound]))
            finally:
                self._address = None
                self._listening.clear()

    def _tick(self) -> None:
        self.heartbeat.beat()
        self._listening.set()

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            h11_max_incomplete_event_size=self._header_bytes,
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
        )


class _Server(uvicorn.Server):
    """Leaves signals to their owner, and ends its streams before it ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: StreamingApp,
        stop: threading.Event,
        on_beat: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._app = app
        self._stop = stop
        self._on_beat = on_beat

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self._on_beat()
        if self._stop.is_set():
            self._app.end_streams()
            self.should_exit = True
        return await super().on_tick(counter)


def _bound(label: str, host: str, port: int) -> socket.socket:
    """Raises ConfigurationError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"{label} cannot use {host}: {error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        raise ConfigurationError(
            f"{label} cannot listen on {host}:{port}: {error.strerror}; free the port, or "
            "choose another one"
        ) from None
    return found
