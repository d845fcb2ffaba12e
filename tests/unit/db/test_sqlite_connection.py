"""Every connection has the settings that the promises rest on, or is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from afl.db.sqlite import Database, Reader
from afl.db.sqlite.connection import connect
from afl.errors import ConfigurationError, StoreError, StoreUnavailable

EXPECTED = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "temp_store": 2}


def settings(reader: Reader) -> dict[str, Any]:
    rows = {name: reader.query_one(f"PRAGMA {name}") for name in EXPECTED}
    return {name: row[0] for name, row in rows.items() if row is not None}


def test_the_writer_and_the_readers_are_set_up_alike(database: Database) -> None:
    assert database.write(settings) == EXPECTED
    assert database.read(settings) == EXPECTED


def deaf_to(pragma: str) -> Callable[..., sqlite3.Connection]:
    """A SQLite that does not obey one setting."""

    class Deaf(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql.startswith(f"PRAGMA {pragma} ="):
                sql = "SELECT 'delete'"
            return super().execute(sql, *arguments)

    real = sqlite3.connect
    return lambda *arguments, **options: real(*arguments, **options, factory=Deaf)


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        ("foreign_keys", "refuses PRAGMA foreign_keys = 1"),
        ("query_only", "refuses PRAGMA query_only = 1"),
        ("journal_mode", "journal mode stays delete"),
    ],
)
def test_a_setting_that_is_not_obeyed_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pragma: str, message: str
) -> None:
    Database(folder / "afl.db").close()
    monkeypatch.setattr("sqlite3.connect", deaf_to(pragma))
    with pytest.raises(ConfigurationError, match=message):
        connect(str(folder / "afl.db"), 1.0, query_only=True)


def test_a_commit_that_would_not_reach_the_disk_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hasty(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("synchronous = 2", "synchronous = 1"), *arguments)

    real = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", lambda *a, **o: real(*a, **o, factory=Hasty))
    with pytest.raises(ConfigurationError, match=r"synchronous = 2 \(it stays 1"):
        Database(folder / "afl.db")


def test_an_old_sqlite_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 31, 1))
    with pytest.raises(ConfigurationError, match=r"3\.38\.0 or newer"):
        Database(folder / "afl.db")


def test_a_file_of_something_else_is_refused(folder: Path) -> None:
    (folder / "letter.txt").write_bytes(b"Dear reader, " * 500)
    with pytest.raises(ConfigurationError, match="is not a SQLite database"):
        Database(folder / "letter.txt")


def test_a_damaged_file_is_told_from_a_busy_one(database: Database) -> None:
    def damaged(_reader: Reader) -> None:
        error = sqlite3.DatabaseError("malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with pytest.raises(StoreError, match="restore a backup") as caught:
        database.read(damaged)
    assert not isinstance(caught.value, StoreUnavailable)


def test_a_new_file_that_somebody_holds_is_waited_for_and_then_unavailable(folder: Path) -> None:
    path = str(folder / "afl.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            connect(path, 0.02)
        other.execute("ROLLBACK")
    connect(path, 1.0).close()
