"""Migrations: each component goes its way step by step, never twice, never back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from afl.db.migrations import Migration, history, migrate, schema_version
from afl.db.sqlite import Database
from afl.errors import ConfigurationError, NewerSchema

Look = Callable[[str], list[Any]]

FIRST = Migration(1, "a table", ("CREATE TABLE thing (id INTEGER PRIMARY KEY)",))
SECOND = Migration(
    2,
    "names",
    ("ALTER TABLE thing ADD COLUMN name", "CREATE INDEX thing_name ON thing (name)"),
)
THIRD = Migration(3, "one thing", ("INSERT INTO thing VALUES (1, 'first')",))


def test_a_fresh_database_gets_everything(database: Database, look: Look) -> None:
    assert schema_version(database, "engine") == 0
    assert migrate(database, "engine", history(FIRST, SECOND, THIRD)) == 3
    assert schema_version(database, "engine") == 3
    assert look("SELECT name FROM thing") == ["first"]


def test_each_start_does_only_what_is_new(database: Database, look: Look) -> None:
    assert migrate(database, "engine", [FIRST]) == 1
    assert migrate(database, "engine", [FIRST]) == 0
    assert migrate(database, "engine", [FIRST, SECOND, THIRD]) == 2
    assert migrate(database, "engine", [FIRST, SECOND, THIRD]) == 0
    assert look("SELECT count(*) FROM thing") == [1]
    assert look("SELECT description FROM afl_schema") == ["one thing"]


def test_components_are_independent(database: Database) -> None:
    other = Migration(1, "another table", ("CREATE TABLE other (id)",))
    migrate(database, "engine", [FIRST, SECOND])
    migrate(database, "mailbox", [other])
    assert schema_version(database, "engine") == 2
    assert schema_version(database, "mailbox") == 1


def test_finding_all_done_writes_nothing(database: Database) -> None:
    migrate(database, "engine", [FIRST])
    batches = database.statistics().batches
    migrate(database, "engine", [FIRST])
    assert database.statistics().batches == batches


def test_a_newer_database_is_refused_with_both_versions_and_advice(database: Database) -> None:
    migrate(database, "engine", [FIRST, SECOND, THIRD])
    with pytest.raises(NewerSchema) as caught:
        migrate(database, "engine", [FIRST, SECOND])
    error = caught.value
    assert (error.component, error.found, error.known) == ("engine", 3, 2)
    assert isinstance(error, ConfigurationError)
    assert str(error) == (
        f"{database.path}: the tables of engine have version 3, but this afl knows them only up "
        "to version 2. A newer afl has used this database: upgrade afl here, or use another "
        "database"
    )


def test_a_migration_that_fails_leaves_no_trace_and_says_which(
    database: Database, look: Look
) -> None:
    broken = Migration(2, "broken", ("CREATE TABLE half (id)", "CREATE TABLE thing (id)"))
    with pytest.raises(sqlite3.OperationalError, match="already exists") as caught:
        migrate(database, "engine", [FIRST, broken])
    assert caught.value.__notes__ == ["migration 2 of engine: broken"]
    assert schema_version(database, "engine") == 1
    assert look("SELECT count(*) FROM sqlite_schema WHERE name = 'half'") == [0]
    assert migrate(database, "engine", [FIRST, SECOND]) == 1


@pytest.mark.parametrize(
    "migrations",
    [(), (SECOND,), (FIRST, THIRD), (FIRST, FIRST), (SECOND, FIRST), (FIRST, SECOND, SECOND)],
)
def test_gaps_and_doubles_are_found_at_the_definition(migrations: tuple[Migration, ...]) -> None:
    with pytest.raises(ValueError, match="without gaps"):
        history(*migrations)


@pytest.mark.parametrize(
    ("version", "description", "statements"),
    [(0, "x", ("SELECT 1",)), (1, "", ("SELECT 1",)), (1, "x", ()), (1, "x", "SELECT 1")],
)
def test_a_migration_that_can_never_be_right(
    version: int, description: str, statements: Any
) -> None:
    with pytest.raises(ValueError, match=r"version|migration"):
        Migration(version, description, statements)
