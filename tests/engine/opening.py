"""Opening a store by its place, with the modules of its own kind alone: processes start sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.clock import SYSTEM_CLOCK, Clock, now_ms

if TYPE_CHECKING:
    from tests.engine.places import Store


def open_at(place: str, clock: Clock = SYSTEM_CLOCK) -> Store:
    """The store at a place; on a server by the server's clock, unless another one is given."""
    told = None if clock is SYSTEM_CLOCK else lambda: now_ms(clock)
    if place.startswith("postgresql:"):
        from afl.runtime.postgres_store import PostgresStore

        return PostgresStore(place, told=told)
    if place.startswith("mongodb:"):
        from afl.runtime.mongo_store import MongoStore

        return MongoStore(place, told=told)
    from afl.runtime.sql_store import SqliteStore

    return SqliteStore(place, clock=clock)
