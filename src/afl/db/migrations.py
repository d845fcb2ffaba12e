"""Migrations: how the tables of each component come into being and change.

- A component has a numbered history of migrations; the database knows how far it has come.
- Each migration is one transaction: applied as a whole or not at all, whatever is killed when.
- Processes that start together migrate once; the others find it done.
- A database that is ahead of this program is refused. There is no way back.

A migration that was released is never edited: write the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.db.sqlite import Database, Reader, Transaction
from afl.errors import NewerSchema
from afl.log import get_logger

_log = get_logger(__name__)

_TABLE = """\
CREATE TABLE IF NOT EXISTS afl_schema (
    component TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    description TEXT NOT NULL,
    migrated_at_ms INTEGER NOT NULL
)"""
_RECORD = """\
INSERT INTO afl_schema (component, version, description, migrated_at_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (component) DO UPDATE SET
    version = excluded.version,
    description = excluded.description,
    migrated_at_ms = excluded.migrated_at_ms"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a history. Raises ValueError if it can never be right."""

    version: int
    description: str
    statements: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError(f"versions are counted from 1, not {self.version}")
        if not self.description:
            raise ValueError(f"migration {self.version} needs a description")
        if not isinstance(self.statements, tuple) or not self.statements:
            raise ValueError(f"migration {self.version} needs a tuple of statements")


def history(*migrations: Migration) -> tuple[Migration, ...]:
    """The migrations of a component, for a constant: mistakes are found when it is imported.

    Raises ValueError unless the versions are 1, 2, 3 and so on.
    """
    found = [each.version for each in migrations]
    if not found or found != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations must have the versions 1, 2, 3, ... without gaps: {found}")
    return migrations


def migrate(database: Database, component: str, migrations: Sequence[Migration]) -> int:
    """Bring the tables of `component` to the newest version; returns how many steps it took.

    Call it before the first use of the tables. Raises NewerSchema if the database is ahead of
    `migrations`, ValueError if they are no `history`.
    """
    newest = history(*migrations)[-1].version
    # Looking needs no lock: most starts find everything done and must not wait for a writer.
    done = found_version(database, component, newest)
    return sum(_apply(database, component, each, newest) for each in migrations[done:])


def found_version(database: Database, component: str, known: int) -> int:
    """How far the tables of `component` have come; 0 before the first migration. Raises
    NewerSchema if that is further than `known`."""
    found = schema_version(database, component)
    _refuse_newer(database, component, found, known)
    return found


def schema_version(database: Database, component: str) -> int:
    """The same, whatever is known here."""
    return database.read(lambda reader: _version(reader, component))


def _apply(database: Database, component: str, migration: Migration, newest: int) -> bool:
    def step(transaction: Transaction) -> bool:
        # Again, now that nobody else can write: another process may have done it meanwhile.
        done = _version(transaction, component)
        _refuse_newer(database, component, done, newest)
        if done >= migration.version:
            return False
        transaction.execute(_TABLE)
        for statement in migration.statements:
            transaction.execute(statement)
        record = (component, migration.version, migration.description, database.now_ms())
        transaction.execute(_RECORD, record)
        return True

    try:
        is_applied = database.write(step)
    except Exception as error:
        error.add_note(f"migration {migration.version} of {component}: {migration.description}")
        raise
    if is_applied:
        _log.info("schema_migrated", component=component, version=migration.version)
    return is_applied


def _version(reader: Reader, component: str) -> int:
    exists = reader.query_one(
        "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'afl_schema'"
    )
    if exists is None:
        return 0
    row = reader.query_one("SELECT version FROM afl_schema WHERE component = ?", (component,))
    return 0 if row is None else int(row[0])


def _refuse_newer(database: Database, component: str, found: int, known: int) -> None:
    if found > known:
        raise NewerSchema(component, found, known, database.path)
