"""Schemas: what has tables or collections at a URL, how far they have come, and the way on.

Every component migrates what is its own when it is opened. This does it for all of them at once,
for operators who let nobody else change tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from afl.errors import ConfigurationError
from afl.log import redact
from afl.operations import components


@dataclass(frozen=True)
class SchemaState:
    """How far one component has come."""

    component: str
    #: The version that was found; 0: nothing is there yet.
    found: int
    #: The newest one that is known here.
    newest: int

    @property
    def is_behind(self) -> bool:
        return self.found < self.newest


@dataclass(frozen=True)
class _Component:
    name: str
    newest: int
    found: Callable[[], int]
    migrate: Callable[[], object]


def schema_states(url: str) -> list[SchemaState]:
    """How far all components at a URL have come. Changes nothing.

    Raises NewerSchema if one is further than is known here, ConfigurationError for a URL that has
    no schema, StoreUnavailable.
    """
    with _components(url) as found:
        return [_state(each) for each in found]


def migrate_all(url: str) -> list[SchemaState]:
    """Bring all components to their newest version; how far they were before. All are looked at
    before one is changed. Raises as `schema_states` does, and ConfigurationError without the
    right to change tables."""
    with _components(url) as found:
        before = [_state(each) for each in found]
        for each in found:
            each.migrate()
        return before


def _state(component: _Component) -> SchemaState:
    return SchemaState(component.name, component.found(), component.newest)


@contextmanager
def _components(url: str) -> Iterator[list[_Component]]:
    scheme = url.partition(":")[0].lower()
    kind = _KINDS.get(scheme)
    if kind is None:
        raise ConfigurationError(
            f"{redact(url)!r} has no schema; expected sqlite:…, postgresql:… or mongodb:…"
        )
    opened, of, modules = kind
    with closing(opened(url)) as database:
        yield [of(database, name, import_module(each)) for name, each in modules.items()]


def _open_sqlite(url: str) -> Any:
    from afl.db.sqlite import open_database

    return open_database(url)


def _in_sqlite(database: Any, name: str, module: Any) -> _Component:
    from afl.db import migrations

    return _in_tables(migrations, database, name, module)


def _open_postgres(url: str) -> Any:
    from afl.db.postgres import open_postgres

    return open_postgres(url)


def _in_postgres(database: Any, name: str, module: Any) -> _Component:
    from afl.db.postgres import migrations

    return _in_tables(migrations, database, name, module)


def _in_tables(migrations: Any, database: Any, name: str, module: Any) -> _Component:
    newest = module.MIGRATIONS[-1].version
    return _Component(
        name,
        newest,
        lambda: migrations.found_version(database, name, newest),
        lambda: migrations.migrate(database, name, module.MIGRATIONS),
    )


def _open_mongo(url: str) -> Any:
    from afl.db.mongo import open_mongo

    database = open_mongo(url)
    try:
        database.require_replica_set()
    except BaseException:
        database.close()
        raise
    return database


def _in_mongo(database: Any, name: str, module: Any) -> _Component:
    from afl.db.mongo.collections import found_version, prepare

    return _Component(
        name,
        module.VERSION,
        lambda: found_version(database, name, module.VERSION),
        lambda: prepare(database, name, module.VERSION, module.COLLECTIONS),
    )


_Kind = tuple[Callable[[str], Any], Callable[[Any, str, Any], _Component], Mapping[str, str]]
_IN_POSTGRES: _Kind = (_open_postgres, _in_postgres, components.POSTGRES)
_IN_MONGO: _Kind = (_open_mongo, _in_mongo, components.MONGO)
_KINDS: dict[str, _Kind] = {
    "sqlite": (_open_sqlite, _in_sqlite, components.SQLITE),
    "postgresql": _IN_POSTGRES,
    "postgres": _IN_POSTGRES,
    "mongodb": _IN_MONGO,
    "mongodb+srv": _IN_MONGO,
}
