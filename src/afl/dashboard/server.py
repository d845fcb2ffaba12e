"""The dashboard with a server of its own, as a loop of a group."""

from __future__ import annotations

from collections.abc import Sequence

from afl.clock import SYSTEM_CLOCK, Clock
from afl.dashboard.app import DashboardApp, make_app
from afl.dashboard.desk import Desk
from afl.gateway.access import Token
from afl.gateway.http_loop import STOP_ORDER, HttpLoop


class Dashboard(HttpLoop):
    """Serves pages and the API of `desk` until it is stopped."""

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
        self._desk = desk
        self._own_clock = clock
        self.tokens = tuple(tokens)
        super().__init__(
            name,
            "the dashboard",
            host=host,
            port=port,
            tokens=tokens,
            header_bytes=desk.limits.header_bytes,
            stop_order=stop_order,
            clock=clock,
        )

    def make_app(self) -> DashboardApp:
        return make_app(self._desk, self.tokens, clock=self._own_clock)
