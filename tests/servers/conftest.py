"""Servers that a test may harm, and boxes on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from tests.engine.ledger import Ledger, LedgerProcess
from tests.servers.proxy import Proxy

from afl.clock import SYSTEM_CLOCK
from afl.db.postgres import PostgresDatabase, open_postgres
from afl.db.redis import RedisServer, open_redis
from afl.mailbox import postgres, redis
from afl.mailbox.box import Box
from afl.testing.servers import PostgresServer, Server, ValkeyServer

PATIENCE_S = 20.0


@dataclass
class Place:
    """A server of the test's own, and the module of its boxes."""

    server: Server
    module: ModuleType
    connect: Callable[[str], RedisServer | PostgresDatabase]

    def open_box(self, name: str = "requests") -> Box[bytes]:
        box: Box[bytes] = self.module.open_box(self.server.url, name)
        return box

    def waiters(self, url: str | None = None) -> int:
        """How many threads of this process wait for news of the server."""
        shared = self.connect(url or self.server.url)
        try:
            return shared.bell.waiters
        finally:
            shared.close()

    def url_through(self, proxy: Proxy) -> str:
        return self.server.url.replace(f":{self.server.port}", f":{proxy.port}")


@pytest.fixture(params=["redis", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "redis":
        with ValkeyServer() as server:
            yield Place(server, redis, open_redis)
    else:
        with PostgresServer() as other:
            yield Place(other, postgres, open_postgres)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """The outside world: it keeps what was done under each idempotency key."""
    with LedgerProcess() as process:
        client = Ledger(process.port)
        yield client
        client.close()


@pytest.fixture
def opened() -> Iterator[Callable[[Any], Any]]:
    """Close it in the end, whatever happens."""
    with ExitStack() as stack:

        def keep(each: Any) -> Any:
            stack.callback(each.close)
            return each

        yield keep


@pytest.fixture
def start() -> Iterator[Callable[..., threading.Thread]]:
    """Run a function on a thread that the test waits for in the end."""
    threads = []

    def run(fn: Callable[..., object], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=fn, args=arguments, daemon=True)
        threads.append(thread)
        thread.start()
        return thread

    yield run
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def until(holds: Callable[[], bool]) -> None:
    """Wait, in real time, for what another process does."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while not holds():
        assert SYSTEM_CLOCK.monotonic() < deadline, "it does not come to pass"
        SYSTEM_CLOCK.sleep(0.005)
