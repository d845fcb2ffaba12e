"""Turn stores on servers keep every promise of the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from tests.contracts.remote_turns import Open, on_mongo, on_postgres, wait_until_heard
from tests.contracts.test_turns_machine import IS_STORM

from afl.clock import FakeClock
from afl.testing.contracts.turns import (
    DueContract,
    JournalContract,
    Stores,
    StreamPlaceContract,
    TurnContract,
)
from afl.turns.api import TurnStore


@contextmanager
def stores_at(place: Open, clock: FakeClock) -> Iterator[Stores]:
    with ExitStack() as opened:

        def open_store() -> TurnStore:
            return opened.enter_context(closing(place(clock)))

        wait_until_heard(open_store())
        yield open_store


class TestPostgres(TurnContract):
    has_late_news = True

    @pytest.fixture
    def stores(self, postgres_url: str, clock: FakeClock) -> Iterator[Stores]:
        with stores_at(on_postgres(postgres_url), clock) as made:
            yield made


class _Slice(JournalContract, StreamPlaceContract, DueContract):
    """Where the database matters most: connecting to MongoDB takes longer than most tests."""


class TestMongo(TurnContract if IS_STORM else _Slice):  # type: ignore[misc]
    has_late_news = True

    @pytest.fixture
    def stores(self, mongo_url: str, clock: FakeClock) -> Iterator[Stores]:
        with stores_at(on_mongo(mongo_url), clock) as made:
            yield made
