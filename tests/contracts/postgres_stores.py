"""Stores on one PostgreSQL server, each empty at its beginning."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import lru_cache

from afl.clock import FakeClock, now_ms
from afl.db.migrations import Migration
from afl.db.postgres import PostgresDatabase, Transaction, migrate
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.postgres_store.schema import COMPONENT, MIGRATIONS

KINDS = [
    "step",
    "task",
    "event",
    "run",
    "removal",
    "flow",
    "workflow",
    "log",
    "server",
    "lock",
    "handler",
    "source",
]


@lru_cache
def database_of(url: str) -> PostgresDatabase:
    """One for all tests of a process: connecting takes longer than to empty it."""
    database = PostgresDatabase(url, pool_size=1)
    atexit.register(database.close)
    return database


def emptied(url: str) -> str:
    """The same, without anything that others have left there."""
    empty(url, COMPONENT, MIGRATIONS, KINDS)
    return url


def empty(url: str, component: str, migrations: Sequence[Migration], kinds: Sequence[str]) -> None:
    def delete(tx: Transaction) -> None:
        for each in kinds:
            tx.put(f"DELETE FROM afl_{each}", [()])

    database = database_of(url)
    migrate(database, component, migrations)
    database.write(delete)


def postgres_store(url: str, clock: FakeClock) -> PostgresStore:
    """An empty one, on the time of a clock."""
    return PostgresStore(emptied(url), clock=clock, told=lambda: now_ms(clock))
