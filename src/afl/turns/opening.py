"""From a URL to the turns that are kept there."""

from __future__ import annotations

from afl.errors import ConfigurationError
from afl.log import redact
from afl.turns.api import TurnStore


def open_turns(url: str) -> TurnStore:
    """The turn store at a URL. Raises ConfigurationError for one that names no place;
    StoreUnavailable if the place cannot be reached."""
    scheme = url.partition(":")[0].lower()
    if scheme == "memory":
        from afl.turns.memory import MemoryTurns

        return MemoryTurns()
    if scheme == "sqlite":
        from afl.turns.sqlite import SqliteTurns

        return SqliteTurns(url)
    raise ConfigurationError(
        f"{redact(url)!r} is no place for turns; expected memory: for turns that die with the "
        "process, sqlite:///relative/path.db or sqlite:////absolute/path.db"
    )
