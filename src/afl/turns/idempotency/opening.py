"""From a URL to the keys that are kept there. Drivers are imported when they are wanted."""

from __future__ import annotations

from typing import Any

from afl.db.drivers import driver_wanted
from afl.errors import ConfigurationError
from afl.log import redact
from afl.turns.idempotency.api import Cells, IdempotencyStore


def open_idempotency(url: str, **options: Any) -> IdempotencyStore:
    """Keys at a URL; `options` are those of `IdempotencyStore`. Raises ConfigurationError for one
    that names no place, or if its driver is not installed; StoreUnavailable."""
    with driver_wanted(url):
        return IdempotencyStore(_cells(url), **options)


def _cells(url: str) -> Cells:
    scheme = url.partition(":")[0].lower()
    if scheme == "memory":
        from afl.turns.idempotency.memory import MemoryCells

        return MemoryCells()
    if scheme == "sqlite":
        from afl.turns.idempotency.sqlite import SqliteCells

        return SqliteCells(url)
    if scheme in ("postgresql", "postgres"):
        from afl.turns.idempotency.postgres import PostgresCells

        return PostgresCells(url)
    if scheme in ("redis", "rediss"):
        from afl.turns.idempotency.redis import RedisCells

        return RedisCells(url)
    raise ConfigurationError(
        f"{redact(url)!r} is no place for keys; expected memory:, sqlite:///path.db, "
        "postgresql://user@host/database or redis://host:6379/0"
    )
