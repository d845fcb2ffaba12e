"""The tables hold what the records hold, come into being once, and are never older than asked."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from afl.db.migrations import Migration, migrate, schema_version
from afl.db.sqlite import Transaction, open_database
from afl.errors import NewerSchema
from afl.runtime.entities import HandlerRegistration, ServerDefinition
from afl.runtime.listing import RunQuery
from afl.runtime.rows.codec import to_json
from afl.runtime.rows.steps import COLUMNS
from afl.runtime.rows.table import Table
from afl.runtime.sql_store import SqliteStore
from afl.runtime.sql_store.catalog import EVENTS, HANDLERS, LOGS, SERVERS, SOURCES
from afl.runtime.sql_store.flows import FLOWS, WORKFLOWS
from afl.runtime.sql_store.locks import LOCKS
from afl.runtime.sql_store.runs import RUNS
from afl.runtime.sql_store.schema import COMPONENT, MIGRATIONS
from afl.runtime.sql_store.tasks import TASKS
from afl.testing.contracts.store.exam import new_run

TABLES: list[Table[Any]] = [
    TASKS,
    EVENTS,
    RUNS,
    FLOWS,
    WORKFLOWS,
    LOGS,
    SERVERS,
    HANDLERS,
    SOURCES,
    LOCKS,
]


def columns(store: SqliteStore, table: str) -> set[str]:
    sql = "SELECT name FROM pragma_table_info(?)"
    return {name for (name,) in store.database.read(lambda reader: reader.query_all(sql, [table]))}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_field_has_a_column(store: SqliteStore, table: Table[Any]) -> None:
    own = {"length_ms"} if table is LOCKS else set()
    assert columns(store, table.name) == {"seq", *table.columns, *own}


def test_each_field_of_a_step_has_a_column(store: SqliteStore) -> None:
    assert columns(store, "step") == {"seq", *COLUMNS}


def test_the_tables_are_made_once(path: Path) -> None:
    for _ in range(2):
        with SqliteStore(path) as store:
            assert schema_version(store.database, COMPONENT) == len(MIGRATIONS)


def test_a_file_of_an_older_release_is_brought_up_to_date(path: Path) -> None:
    with closing(open_database(path)) as database:
        migrate(database, COMPONENT, MIGRATIONS[:1])
        database.write(_old_rows)
    with SqliteStore(path) as store:
        assert store.get_server("s") == ServerDefinition("s", "g", "afl-agent", "host")
        assert store.get_handler_registration("shop.Pay") == HandlerRegistration("shop.Pay", "shop")
        assert store.get_logs_by_runner("r")[0].message == "hello"
        page = store.list_runs(RunQuery(workflows=("shop.Order",)))
        assert [each.workflow_id for each in page.items] == ["r"]
        seen = store.registrations_version()
        store.register_handler("shop.Ship", "shop")
        assert store.registrations_version() != seen


def _old_rows(tx: Transaction) -> None:
    tx.execute(
        "INSERT INTO server VALUES (1, 's', 'g', 'afl-agent', 'host', '[]', 0, 0, '[]', '[]', "
        "'[]', 'startup', '', NULL, 0, '')"
    )
    tx.execute(
        "INSERT INTO handler VALUES (1, 'shop.Pay', 'shop', 'handle', '1.0.0', '', 30000, '[]', "
        "'{}', 0, 0)"
    )
    tx.execute(
        "INSERT INTO run VALUES (1, 'r', 'r', ?, '[]', NULL, NULL, 0, 0, 0, 0, 'running', "
        "'default', NULL, NULL, 0, 'flow')",
        (to_json(new_run("r").workflow),),
    )
    tx.execute(
        "INSERT INTO log VALUES (1, 'l', 0, 'r', NULL, '', '', 'workflow', 'info', 5, 'hello', "
        "'', 0, '', '{}', 0)"
    )


def test_a_file_that_a_newer_release_has_used_is_refused_and_let_go(path: Path) -> None:
    with SqliteStore(path) as store:
        newer = Migration(len(MIGRATIONS) + 1, "later", ("CREATE TABLE later (id)",))
        migrate(store.database, COMPONENT, [*MIGRATIONS, newer])
        database = store.database
    with pytest.raises(NewerSchema):
        SqliteStore(path)
    assert database.is_closed
