"""The dashboard with a server of its own, as a loop of a group."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any, cast

import uvicorn

from afl.clock import SYSTEM_CLOCK, Clock
from afl.dashboard.app import DashboardApp, make_app
from afl.dashboard.desk import Desk
from afl.errors import ConfigurationError
from afl.gateway.access import Token, is_loopback
from afl.gateway.server import STOP_ORDER, _bound, _Server
from afl.log import get_logger
from afl.runtime.lifecycle import BaseLoop

_log = get_logger(__name__)

#: What has not been answered so long after the stop is not.
_LAST_ANSWERS_S = 2


class Dashboard(BaseLoop):
    """Serves pages and the API of `desk` until it is stopped. Port 0 takes any free one; `url`
    tells which. Raises ConfigurationError, also from `run` if the port cannot be had."""

    def __init__(
        self,
        desk: Desk,
        *,
        tokens: Sequence[Token],
        host: str = "127.0.0.1",
        port: int = 0,
        name: str = "dashboard",
        stop_order: float = STOP_ORDER,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name, clock=clock)
        if not tokens and not is_loopback(host):
            raise ConfigurationError(
                f"the dashboard would be open to everybody who reaches {host}; give it tokens, or "
                "bind it to 127.0.0.1"
            )
        self.stop_order = stop_order
        self._place = (host, port)
        self._desk = desk
        self._own_clock = clock
        self.tokens = tuple(tokens)
        # Now, so that what is wrong with the arguments is said here.
        self._app = self._made()
        self._listening = threading.Event()
        self._address: tuple[str, int] | None = None

    def _made(self) -> DashboardApp:
        return make_app(self._desk, self.tokens, clock=self._own_clock)

    # How it stands

    @property
    def url(self) -> str | None:
        """While it listens."""
        address = self._address
        if address is None:
            return None
        host, port = address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def wait_until_listening(self, timeout: float | None = None) -> bool:
        return SYSTEM_CLOCK.wait(self._listening, timeout)

    @property
    def in_flight(self) -> int:
        """Live pages that are open."""
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
        self._app = self._made()  # that of the last run has ended its streams
        with closing(_bound(*self._place)) as bound:
            server = _Server(self._config(), cast(Any, self._app), stop, self._tick)
            self._address = bound.getsockname()[:2]
            _log.info("dashboard_listens", url=self.url)
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
            h11_max_incomplete_event_size=self._desk.limits.header_bytes,
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
        )
