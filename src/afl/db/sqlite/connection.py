"""Connections: how every connection to a database file is set up, and what its errors mean.

A connection that does not have the settings which durability and consistency rest on is refused,
not used: each is read back after it was set.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import cast

from afl.clock import SYSTEM_CLOCK
from afl.errors import AflError, ConfigurationError, Conflict, StoreError, StoreUnavailable

#: The oldest SQLite with everything that adapters may use: RETURNING, STRICT tables, JSON's ->>.
MINIMUM_VERSION = (3, 38, 0)

# Unless it is told, the driver asks in three places how to store a None, and one of them raises:
# 0.5 µs, against 0.1 this way, and the rows of one task have 25. Any function of C does that gives
# None for None.
sqlite3.register_adapter(NoneType, cast("Callable[[None], None]", {}.get))

_STATEMENTS = 512  # kept prepared for each connection
_RETRY_S = 0.005
_NORMAL, _FULL = 1, 2

_SETTINGS = (
    # On macOS, fsync alone leaves data in the cache of the disk. Elsewhere these do nothing.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16000",  # KiB
    # Pages: 16 MB. The same pages change again and again: with 4 MB, twice as much went to the disk
    # (78 KB for each short run, not 38), and there was a third more flushes.
    "PRAGMA wal_autocheckpoint = 4000",
    # After a burst, or a long reader that held checkpoints up, the log shrinks to this again.
    "PRAGMA journal_size_limit = 67108864",
)


def connect(path: str, busy_timeout_s: float, *, query_only: bool = False) -> sqlite3.Connection:
    """A connection with all settings made and checked.

    It starts and ends no transaction by itself, and may move between threads; only one may use
    it at a time. Raises ConfigurationError for a file that can never work, StoreUnavailable for
    one that does not work now.
    """
    _require_version()
    with errors_translated(path):
        # Who only reads must not make an empty database where one was removed.
        address = f"{Path(path).as_uri()}?mode=rw" if query_only else path
        connection = sqlite3.connect(
            address,
            uri=query_only,
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        try:
            _set_up(connection, path, busy_timeout_s, query_only)
        except BaseException:
            connection.close()
            raise
        return connection


def _require_version() -> None:
    if sqlite3.sqlite_version_info < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise ConfigurationError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and {wanted} or newer is needed"
        )


def _set_up(
    connection: sqlite3.Connection, path: str, busy_timeout_s: float, query_only: bool
) -> None:
    _require_wal(connection, path, busy_timeout_s)
    for statement in _SETTINGS:
        connection.execute(statement).close()
    wait_for_disk(connection, path, True)
    _require(connection, path, "foreign_keys", 1)
    if query_only:
        _require(connection, path, "query_only", 1)


def wait_for_disk(connection: sqlite3.Connection, path: str, is_wanted: bool) -> None:
    """Whether each commit is on the disk before it is reported; so it is on a new connection. Else
    the last ones may be undone when the power fails. Never within a transaction."""
    # Said and not left to a default: a build of SQLite may have NORMAL as its own for WAL.
    _require(connection, path, "synchronous", _FULL if is_wanted else _NORMAL)


def _require(connection: sqlite3.Connection, path: str, name: str, value: int) -> None:
    connection.execute(f"PRAGMA {name} = {value}").close()
    (found,) = connection.execute(f"PRAGMA {name}").fetchone() or (None,)
    if found != value:
        raise ConfigurationError(
            f"{path}: SQLite refuses PRAGMA {name} = {value} (it stays {found}); this build of "
            "SQLite cannot keep what afl promises, use another"
        )


def _require_wal(connection: sqlite3.Connection, path: str, busy_timeout_s: float) -> None:
    deadline = SYSTEM_CLOCK.monotonic() + busy_timeout_s
    while (mode := _switch_to_wal(connection)) is None:
        # Turning a new file into WAL needs it alone and, unlike all else, does not wait for that:
        # processes that start together meet here. They hold the lock in real time, so real time
        # it is, whatever clock leases run on.
        if SYSTEM_CLOCK.monotonic() >= deadline:
            raise StoreUnavailable(f"{path}: locked by another process for {busy_timeout_s} s")
        SYSTEM_CLOCK.sleep(_RETRY_S)
    if mode != "wal":
        raise ConfigurationError(
            f"{path}: SQLite cannot keep a write-ahead log here (journal mode stays {mode}); "
            "use a local disk, not a network or read-only file system"
        )


def _switch_to_wal(connection: sqlite3.Connection) -> str | None:
    """The journal mode that the file now has, or None while another process is in the way."""
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        return None
    return str(mode)


#: What an operator can look at, for errors that may pass.
_PASSING = {
    sqlite3.SQLITE_BUSY: "another process holds its lock; is one stuck in a transaction?",
    sqlite3.SQLITE_LOCKED: "another connection of this process holds its lock",
    sqlite3.SQLITE_PROTOCOL: "too many processes open it at this moment",
    sqlite3.SQLITE_NOMEM: "memory is short",
    sqlite3.SQLITE_INTERRUPT: "the operation was interrupted",
    sqlite3.SQLITE_IOERR: "reading or writing fails; look at the disk and the system log",
    sqlite3.SQLITE_FULL: "the disk, or the size allowed to it, is full; make room",
    sqlite3.SQLITE_READONLY: "it cannot be written; look at its permissions and its folder's",
    sqlite3.SQLITE_CANTOPEN: "it, its log or its folder cannot be opened; look at permissions",
    sqlite3.SQLITE_PERM: "access to it is denied; look at its permissions",
}
_UNIQUE = (
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
)


def translated(error: sqlite3.Error, path: str) -> AflError | sqlite3.Error:
    """The error of ours that tells the caller what to do; others, which are bugs, as they are."""
    primary = _primary_code(error)
    if getattr(error, "sqlite_errorcode", None) in _UNIQUE:
        return Conflict(f"already there: {error}")
    if advice := _PASSING.get(primary):
        return StoreUnavailable(f"{path}: {advice} ({error})")
    if primary == sqlite3.SQLITE_NOTADB:
        return ConfigurationError(f"{path} is not a SQLite database; choose another file")
    if primary == sqlite3.SQLITE_CORRUPT:
        return StoreError(f"{path} is damaged ({error}); restore a backup")
    return error


@contextmanager
def errors_translated(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        meaning = translated(error, path)
        if meaning is error:
            raise
        raise meaning from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process is in the way, at this moment."""
    busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
    return _primary_code(error) in busy


def _primary_code(error: sqlite3.Error) -> int:
    # Errors that Python's module raises by itself have no code.
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
