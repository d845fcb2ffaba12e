"""From a URL to the turns that are kept there. Drivers are imported when they are wanted."""

from __future__ import annotations

from afl.db.drivers import driver_wanted
from afl.errors import ConfigurationError
from afl.log import redact
from afl.turns.api import TurnStore


def open_turns(url: str) -> TurnStore:
    """The turn store at a URL. Raises ConfigurationError for one that names no place, or if its
    driver is not installed; StoreUnavailable if the place cannot be reached."""
    with driver_wanted(url):
        return _opened(url)


def _opened(url: str) -> TurnStore:
    scheme = url.partition(":")[0].lower()
    if scheme == "memory":
        from afl.turns.memory import MemoryTurns

        return MemoryTurns()
    if scheme == "sqlite":
        from afl.turns.sqlite import SqliteTurns

        return SqliteTurns(url)
    if scheme in ("postgresql", "postgres"):
        from afl.turns.postgres import PostgresTurns

        return PostgresTurns(url)
    if scheme in ("mongodb", "mongodb+srv"):
        from afl.turns.mongo import MongoTurns

        return MongoTurns(url)
    raise ConfigurationError(
        f"{redact(url)!r} is no place for turns; expected memory: for turns that die with the "
        "process, sqlite:///relative/path.db, sqlite:////absolute/path.db, "
        "postgresql://user:password@host:5432/database or "
        "mongodb://user:password@host:27017/database"
    )
