"""The turn API as a loop: it starts, is watched and stops with the other loops of a group."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import uvicorn

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError
from afl.gateway.access import Token, is_loopback
from afl.gateway.app import TurnApp, make_app
from afl.gateway.desk import LoopInfo, always_ready
from afl.gateway.requests import Limits
from afl.log import get_logger
from afl.runtime.health import Report
from afl.runtime.lifecycle import BaseLoop
from afl.turns.api import TurnStore
from afl.turns.tokens import Tokens

_log = get_logger(__name__)

#: Later than all loops: what they do until their end can be followed here.
STOP_ORDER = 100
#: What has not been answered so long after the stop is not.
_LAST_ANSWERS_S = 5
_BACKLOG = 2048


class TurnApi(BaseLoop):
    """Serves turns of `store` over HTTP; see `make_app` for the arguments that it shares.

    `ready` says whether turns are taken: give it the group's, so that new ones are refused as soon
    as the drain begins. Reads and streams go on until the loops with a lower `stop_order` have
    ended. Port 0 takes any free one; `address` tells which. Raises ConfigurationError, also from
    `run` if the port cannot be had.
    """

    def __init__(
        self,
        store: TurnStore,
        *,
        loops: Sequence[LoopInfo | str] | Mapping[str, Any],
        host: str = "127.0.0.1",
        port: int = 0,
        tokens: Sequence[Token] = (),
        ready: Callable[[], Report] = always_ready,
        limits: Limits | None = None,
        origins: Sequence[str] = (),
        resume_tokens: Tokens | None = None,
        name: str = "turn-api",
        stop_order: float = STOP_ORDER,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name, clock=clock)
        if not tokens and not is_loopback(host):
            raise ConfigurationError(
                f"the turn API would be open to everybody who reaches {host}; give it tokens, or "
                "bind it to 127.0.0.1"
            )
        self.stop_order = stop_order
        self._place = (host, port)
        self._limits = limits or Limits()
        self._make_app: Callable[[], TurnApp] = lambda: make_app(
            store,
            loops=loops,
            tokens=tokens,
            ready=ready,
            limits=self._limits,
            origins=origins,
            resume_tokens=resume_tokens,
            clock=clock,
        )
        # Now, so that what is wrong with the arguments is said here.
        self._app = self._make_app()
        self._listening = threading.Event()
        self._address: tuple[str, int] | None = None

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
        self._app = self._make_app()  # that of the last run has ended its streams
        with closing(_bound(*self._place)) as bound:
            server = _Server(self._config(), self._app, stop, self._tick)
            self._address = bound.getsockname()[:2]
            _log.info("turn_api_listens", url=self.url)
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
            h11_max_incomplete_event_size=self._limits.header_bytes,
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
        )


class _Server(uvicorn.Server):
    """Leaves signals to their owner, and ends its streams before it ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: TurnApp,
        stop: threading.Event,
        on_beat: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._turn_app = app
        self._stop = stop
        self._on_beat = on_beat

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self._on_beat()
        if self._stop.is_set():
            self._turn_app.end_streams()
            self.should_exit = True
        return await super().on_tick(counter)


def _bound(host: str, port: int) -> socket.socket:
    """Raises ConfigurationError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"the turn API cannot use {host}: {error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        raise ConfigurationError(
            f"the turn API cannot listen on {host}:{port}: {error.strerror}; free the port, or "
            "choose another one"
        ) from None
    return found
