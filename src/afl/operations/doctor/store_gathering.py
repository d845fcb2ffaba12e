"""Facts about a store, found without making or migrating anything."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afl.clock import SYSTEM_CLOCK, Clock, now_ms
from afl.db.sqlite.address import database_path
from afl.db.sqlite.connection import errors_translated
from afl.errors import AflError
from afl.log import redact
from afl.operations import components
from afl.operations.doctor import gathering
from afl.operations.doctor.facts import FileFacts, StoreFacts, TablesFacts

if TYPE_CHECKING:
    from afl.runtime.persistence import PersistenceAPI

_PATIENCE_S = 5.0
_SCHEMA = "SELECT component, version, {oldest} FROM afl_schema ORDER BY component"


def store_facts(
    url: str,
    open_store: Callable[[str], PersistenceAPI],
    *,
    clock: Clock = SYSTEM_CLOCK,
    proc: Path | None = None,
) -> StoreFacts:
    """How the store at a URL is. `open_store` opens those that are not looked into here."""
    place, scheme = str(redact(url)), url.partition(":")[0].lower()
    try:
        if scheme == "memory":
            return StoreFacts(place=place)
        if scheme == "sqlite":
            return _sqlite(url, place, gathering.PROC if proc is None else proc)
        if scheme in ("postgresql", "postgres"):
            return _postgres(url, place, clock)
        return _other(url, place, open_store, clock)
    except (AflError, ModuleNotFoundError) as error:
        return StoreFacts(place=place, problem=str(redact(str(error))))


# SQLite


def _sqlite(url: str, place: str, proc: Path) -> StoreFacts:
    path = Path(database_path(url))
    file = FileFacts(
        path=path,
        is_there=path.exists(),
        is_writable=_is_writable(path),
        file_system=file_system_of(path.parent, proc),
    )
    if not file.is_there:
        return StoreFacts(place=place, file=file)
    try:
        tables = _sqlite_tables(str(path))
    except AflError as error:
        return StoreFacts(place=place, file=file, problem=str(error))
    return StoreFacts(place=place, file=file, tables=tables)


def _is_writable(path: Path) -> bool:
    # SQLite keeps its log beside the file.
    places = [path.parent, *([path] if path.exists() else [])]
    return all(os.access(each, os.W_OK) for each in places)


def _sqlite_tables(path: str) -> list[TablesFacts]:
    # Not as a store opens it: that would turn the file of another program into one of ours. For
    # writing all the same, because the last to leave tidies up, and must be able to.
    address = f"{Path(path).as_uri()}?mode=rw"
    with errors_translated(path), closing(_connected(address)) as opened:
        if not _has_schema(opened):
            return []
        rows = opened.execute(_SCHEMA.format(oldest="version")).fetchall()
    return _tables(rows, components.SQLITE)


def _connected(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE_S, isolation_level=None)
    connection.execute("PRAGMA query_only = 1")
    return connection


def _has_schema(connection: sqlite3.Connection) -> bool:
    found = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'afl_schema'"
    )
    return found.fetchone() is not None


def file_system_of(folder: Path, proc: Path) -> str:
    """The type of the file system that a folder is on: that of the longest mount point above."""
    try:
        lines = (proc / "mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    above = [each for each in _mounts(lines) if folder.is_relative_to(each[0])]
    # Of several at one place the last one is seen, so it must win; `max` takes the first.
    found = max(reversed(above), key=lambda each: len(each[0].parts), default=None)
    return "" if found is None else found[1]


def _mounts(lines: list[str]) -> Iterator[tuple[Path, str]]:
    for line in lines:
        parts = line.split(" ")
        if len(parts) > 2:
            # Blanks in names are written as numbers.
            yield Path(parts[1].replace("\\040", " ").replace("\\011", "\t")), parts[2]


# PostgreSQL


def _postgres(url: str, place: str, clock: Clock) -> StoreFacts:
    from afl.db.postgres.database import PostgresDatabase
    from afl.db.postgres.transaction import SERVER_TIME

    with closing(PostgresDatabase(url, pool_size=1)) as database:
        skew = _skew(clock, lambda: _first(database, f"SELECT {SERVER_TIME}", {"told": None}))
        has_schema = _first(database, "SELECT to_regclass('afl_schema') IS NOT NULL", {})
        rows = database.query(_SCHEMA.format(oldest="oldest")) if has_schema else []
    return StoreFacts(place=place, skew_s=skew, tables=_tables(rows, components.POSTGRES))


def _first(database: Any, sql: str, parameters: Mapping[str, object]) -> Any:
    return database.query(sql, parameters)[0][0]


# Others


def _other(
    url: str, place: str, open_store: Callable[[str], PersistenceAPI], clock: Clock
) -> StoreFacts:
    with closing(open_store(url)) as store:
        return StoreFacts(place=place, skew_s=_skew(clock, store.now_ms))


def _skew(clock: Clock, ask_ms: Callable[[], int]) -> float:
    """By how much the other clock is ahead, less what asking may have taken."""
    began = now_ms(clock)
    told = int(ask_ms())
    ended = now_ms(clock)
    if told > ended:
        return (told - ended) / 1000
    return min(told - began, 0) / 1000


def _tables(rows: list[Any], modules: Mapping[str, str]) -> list[TablesFacts]:
    return [
        TablesFacts(
            component=component, version=version, oldest=oldest, known=_known(component, modules)
        )
        for component, version, oldest in rows
    ]


def _known(component: str, modules: Mapping[str, str]) -> int:
    if component not in modules:
        return 0
    newest: int = import_module(modules[component]).MIGRATIONS[-1].version
    return newest
