"""Boxes on servers keep every promise of the port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import pytest

from afl.clock import FakeClock
from afl.db.postgres import PostgresDatabase
from afl.db.redis import RedisServer
from afl.mailbox.box import Box
from afl.mailbox.postgres import PostgresBox, prepared
from afl.mailbox.redis import RedisBox
from afl.mailbox.remote import Offset
from afl.testing.contracts.mailbox import MailboxContract

Open = Callable[[str, Offset], Box[bytes]]


@pytest.fixture
def open_redis_box(redis_url: str, clock: FakeClock) -> Open:
    return lambda name, offset: RedisBox(RedisServer(redis_url, clock=clock), name, offset=offset)


@pytest.fixture
def open_postgres_box(postgres_url: str, clock: FakeClock) -> Open:
    def open_box(name: str, offset: Offset) -> Box[bytes]:
        database = prepared(PostgresDatabase(postgres_url, clock=clock, pool_size=4))
        return PostgresBox(database, name, offset=offset)

    return open_box


class TestRemoteBoxes(MailboxContract):
    @pytest.fixture(params=["redis", "postgres"])
    def boxes(
        self, request: pytest.FixtureRequest, clock: FakeClock
    ) -> Iterator[Callable[[str], Box[bytes]]]:
        open_box: Open = request.getfixturevalue(f"open_{request.param}_box")
        opened: dict[str, list[Box[bytes]]] = {}

        def make(name: str) -> Box[bytes]:
            made = open_box(name, lambda: round(clock.monotonic() * 1000))
            if name not in opened:
                empty(made)
            opened.setdefault(name, []).append(made)
            return made

        yield make
        for each in chain(*opened.values()):
            each.close()


def empty(box: Box[bytes]) -> None:
    """All tests share the server."""
    box.purge()
    box.discard_buried()
