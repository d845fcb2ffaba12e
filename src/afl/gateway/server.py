"""The turn API as a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from afl.clock import SYSTEM_CLOCK, Clock
from afl.gateway.access import Token
from afl.gateway.app import TurnApp, make_app
from afl.gateway.desk import LoopInfo, always_ready
from afl.gateway.http_loop import STOP_ORDER, HttpLoop
from afl.gateway.requests import Limits
from afl.runtime.health import Report
from afl.turns.api import TurnStore
from afl.turns.tokens import Tokens


class TurnApi(HttpLoop):
    """Serves turns of `store` over HTTP; see `make_app` for the arguments that it shares.

    `ready` says whether turns are taken: give it the group's, so that new ones are refused as soon
    as the drain begins. Reads and streams go on until the loops with a lower `stop_order` have
    ended.
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
        limits = limits or Limits()
        self._make_app: Callable[[], TurnApp] = lambda: make_app(
            store,
            loops=loops,
            tokens=tokens,
            ready=ready,
            limits=limits,
            origins=origins,
            resume_tokens=resume_tokens,
            clock=clock,
        )
        super().__init__(
            name,
            "the turn API",
            host=host,
            port=port,
            tokens=tokens,
            header_bytes=limits.header_bytes,
            stop_order=stop_order,
            clock=clock,
        )

    def make_app(self) -> TurnApp:
        return self._make_app()
