"""The databases that are open in this process: one object for each file."""

from __future__ import annotations

import os

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.forks import ForkSafeLock
from afl.db.sqlite.address import database_path
from afl.db.sqlite.database import Database
from afl.errors import ConfigurationError

_lock = ForkSafeLock()
_open: dict[str, tuple[Database, tuple[object, ...]]] = {}


def open_database(
    address: str | os.PathLike[str],
    *,
    clock: Clock = SYSTEM_CLOCK,
    busy_timeout_s: float = 30.0,
    batch_size: int = 256,
    poll_interval_s: float = 0.5,
) -> Database:
    """The database at a URL (`sqlite:///./afl.db`, `sqlite:////abs/path`) or path.

    Whoever opens the same file again, by whatever name, shares the object; each must close it,
    and the last one really does. Raises ConfigurationError for an address that cannot be, and if
    the file is open already with other settings.
    """
    path = database_path(address)
    settings = (clock, busy_timeout_s, batch_size, poll_interval_s)
    with _lock:
        _forget_closed()
        found = _open.get(path)
        if found is not None and found[0].hold():
            if found[1] == settings:
                return found[0]
            found[0].close()
            raise ConfigurationError(
                f"{path} is open already in this process with other settings {found[1]}; open it "
                "everywhere with the same"
            )
        database = Database(
            path,
            clock=clock,
            busy_timeout_s=busy_timeout_s,
            batch_size=batch_size,
            poll_interval_s=poll_interval_s,
        )
        _open[path] = (database, settings)
        return database


def _forget_closed() -> None:
    for path in [path for path, (database, _) in _open.items() if database.is_closed]:
        del _open[path]
