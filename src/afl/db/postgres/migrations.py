"""Migrations of tables in PostgreSQL, with the numbered histories of `afl.db.migrations`.

- Each migration is one transaction, applied by one process: others wait for it, or find it done.
- Old and new programs work side by side while a fleet is replaced: a program that knows an older
  version than the database has goes on, unless a migration says that it cannot.

So a migration only adds: tables, columns with defaults, indexes. What old programs cannot live
with comes later, when none is left, and raises `oldest`.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.errors import InsufficientPrivilege

from afl.db.migrations import Migration, history
from afl.db.postgres.database import Cursor, PostgresDatabase
from afl.errors import ConfigurationError, NewerSchema
from afl.log import get_logger

_log = get_logger(__name__)

#: Of the lock that a migrating process holds; any number that nobody else uses.
_LOCK = 0x61666C5F6D696772
_TABLE = """\
CREATE TABLE IF NOT EXISTS afl_schema (
    component text PRIMARY KEY,
    version integer NOT NULL,
    oldest integer NOT NULL,
    description text NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT clock_timestamp()
)"""
_RECORD = """\
INSERT INTO afl_schema (component, version, oldest, description) VALUES (%s, %s, %s, %s)
ON CONFLICT (component) DO UPDATE SET
    version = excluded.version,
    oldest = excluded.oldest,
    description = excluded.description,
    migrated_at = excluded.migrated_at"""


def migrate(
    database: PostgresDatabase, component: str, migrations: Sequence[Migration], *, oldest: int = 1
) -> int:
    """Bring the tables of `component` to the newest version; returns how many steps it took.

    `oldest` is the first version whose programs can use the tables as they are after the last
    migration. Raises NewerSchema if the database says that of this program, ValueError if
    `migrations` are no `history`.
    """
    newest = history(*migrations)[-1].version
    # Looking needs no lock, and no right to change tables: most starts find everything done.
    done = found_version(database, component, newest)
    return sum(_apply(database, component, each, newest, oldest) for each in migrations[done:])


def found_version(database: PostgresDatabase, component: str, known: int) -> int:
    """How far the tables of `component` have come; 0 before the first migration. Raises
    NewerSchema if programs that know only `known` cannot use them."""
    return _checked(database, component, known, *_state(database, component))


def schema_version(database: PostgresDatabase, component: str) -> int:
    """The same, whatever is known here."""
    return _state(database, component)[0]


def _state(database: PostgresDatabase, component: str) -> tuple[int, int]:
    def look(cursor: Cursor) -> tuple[int, int]:
        cursor.execute("SELECT to_regclass('afl_schema')")
        return (0, 0) if cursor.fetchone() == (None,) else _read(cursor, component)

    return database.transact(look)


def _read(cursor: Cursor, component: str) -> tuple[int, int]:
    """Its version, and the oldest that can use it."""
    cursor.execute("SELECT version, oldest FROM afl_schema WHERE component = %s", (component,))
    row = cursor.fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def _checked(
    database: PostgresDatabase, component: str, known: int, version: int, oldest: int
) -> int:
    if oldest > known:
        raise NewerSchema(component, version, known, database.place)
    return version


def _apply(
    database: PostgresDatabase, component: str, migration: Migration, newest: int, oldest: int
) -> bool:
    def step(cursor: Cursor) -> bool:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Whoever uses a table waits behind us while we wait for it: not for ever.
        cursor.execute("SET LOCAL lock_timeout = '10s'")
        # Not `to_regclass`: here it may still tell what was before others were done.
        cursor.execute(_TABLE)
        # Again, now that nobody else migrates: another process may have done it meanwhile.
        done = _checked(database, component, newest, *_read(cursor, component))
        if done >= migration.version:
            return False
        for statement in migration.statements:
            cursor.execute(statement)
        usable = min(oldest, migration.version)
        cursor.execute(_RECORD, (component, migration.version, usable, migration.description))
        return True

    try:
        is_applied = database.transact(step)
    except ConfigurationError as error:
        if isinstance(error.__cause__, InsufficientPrivilege):
            raise ConfigurationError(
                f"{database.place}: the tables of {component} must come to version {newest}, and "
                "this user may not change them; run `afl migrate` as their owner first, and give "
                "this user its rights to them"
            ) from error
        raise
    except Exception as error:
        error.add_note(f"migration {migration.version} of {component}: {migration.description}")
        raise
    if is_applied:
        _log.info("schema_migrated", component=component, version=migration.version)
    return is_applied
