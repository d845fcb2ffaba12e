"""Putting things together: from settings to the objects that they choose.

The only module that knows concrete stores. Each is imported when it is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from afl.backoff import parse_duration
from afl.errors import ConfigurationError
from afl.log import redact

if TYPE_CHECKING:
    from afl.config import Config
    from afl.runtime.evaluator import Evaluator
    from afl.runtime.persistence import PersistenceAPI

_FORMS = (
    "expected memory: for a store that dies with the process, sqlite:///relative/path.db or "
    "sqlite:////absolute/path.db"
)


def open_store(url: str) -> PersistenceAPI:
    """The store behind a URL. Raises ConfigurationError if there is no such kind."""
    scheme = url.partition(":")[0].lower()
    if url.lower() == "memory:":
        from afl.runtime.memory_store import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from afl.runtime.sql_store import SqliteStore

        return SqliteStore(url)
    raise ConfigurationError(f"{redact(url)!r} is no store that can be opened here; {_FORMS}")


def evaluator(store: PersistenceAPI, config: Config) -> Evaluator:
    """The engine on a store, as the settings want it."""
    from afl.runtime.evaluator import Evaluator
    from afl.runtime.script_executor import ScriptExecutor

    scripts = config.scripts
    executor = ScriptExecutor(parse_duration(scripts.timeout)) if scripts.enabled else None
    return Evaluator(store, scripts=executor)


def group_options(config: Config) -> dict[str, Any]:
    """What the settings say of a group, for `LoopGroup(loops, **group_options(config))`.

    What is unset is left out, so that the group's own default holds.
    """
    from afl.config import UNSET

    given = config.lifecycle
    times = {
        "drain_deadline_seconds": given.drain_deadline,
        "settle_seconds": given.settle,
        "max_processing_seconds": given.max_processing,
        "termination_grace_seconds": given.termination_grace,
        "pre_stop_seconds": given.pre_stop,
    }
    options = {name: parse_duration(time) for name, time in times.items() if time != UNSET}
    return options if given.health_port == UNSET else options | {"health_port": given.health_port}
