"""Turn stores on servers, each empty at its beginning."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.contracts import mongo_stores, postgres_stores

from afl.clock import FakeClock, now_ms
from afl.testing.contracts.turns import TurnExam
from afl.turns import MongoTurns, PostgresTurns, TurnStore
from afl.turns.mongo_schema import COLLECTIONS
from afl.turns.postgres_schema import COMPONENT, MIGRATIONS

_KINDS = ["turn", "turn_entry", "turn_delta", "turn_value", "turn_taker", "turn_secret"]

#: Opens a store on a clock.
Open = Callable[[FakeClock], TurnStore]


def on_postgres(url: str) -> Open:
    """A place without turns."""
    postgres_stores.empty(url, COMPONENT, MIGRATIONS, _KINDS)
    return lambda clock: PostgresTurns(url, clock=clock, told=lambda: now_ms(clock))


def on_mongo(url: str) -> Open:
    client = mongo_stores.client_of(mongo_stores.emptied(url, COLLECTIONS))
    return lambda clock: MongoTurns(client=client, clock=clock, told=lambda: now_ms(clock))


PLACES = {"postgres": on_postgres, "mongo": on_mongo}
SERVERS = list(PLACES)


def emptied(request: pytest.FixtureRequest) -> str:
    """The URL of the server that a parameter names, without turns."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    PLACES[request.param](url)
    return url


def wait_until_heard(store: TurnStore) -> None:
    """Whoever begins to listen is told once that anything may have happened."""
    told = threading.Event()
    end = store.watch("nobody", told.set)
    assert told.wait(TurnExam.patience_s)
    end()
