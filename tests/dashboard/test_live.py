"""Pages that change while somebody looks: what those who look are told."""

from __future__ import annotations

import asyncio

from tests.dashboard.conftest import PATIENCE_S

from afl.clock import FakeClock
from afl.dashboard.live import LiveHub, Parts


class Page:
    """Cannot be made the first time, as while a store is away."""

    def __init__(self) -> None:
        self.made = 0

    def make(self) -> Parts:
        self.made += 1
        if self.made == 1:
            raise ConnectionError("the store is away")
        return {"live_page": f"number {self.made}"}


async def _after_an_outage() -> tuple[Exception | None, Exception | None, Parts]:
    clock, page = FakeClock(), Page()
    hub = LiveHub(clock)
    async with asyncio.timeout(PATIENCE_S):
        # This window does not come back: its connection hangs.
        with hub.watching("page", page.make, None):
            with hub.watching("page", page.make, None) as (topic, news):
                await news.wait()
                during = topic.problem
            clock.advance(10)
            with hub.watching("page", page.make, None) as (topic, news):
                await news.wait()
                return during, topic.problem, topic.parts


def test_a_window_is_live_after_an_outage_while_another_hangs() -> None:
    during, after, parts = asyncio.run(_after_an_outage())
    assert isinstance(during, ConnectionError)
    assert after is None
    assert parts == {"live_page": "number 2"}
