"""Pages beside writers of other processes, and databases that sort in their own way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import psycopg
import pytest
from tests.unit.runtime.postgres_store.conftest import Opened

from afl.clock import SYSTEM_CLOCK
from afl.db.postgres import PostgresDatabase, Transaction, migrate
from afl.runtime.entities import LogDefinition
from afl.runtime.listing import RunQuery
from afl.runtime.persistence import IterationChanges
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.postgres_store.changes import apply
from afl.runtime.postgres_store.schema import COMPONENT, MIGRATIONS
from afl.testing.contracts.store.exam import new_run

PATIENCE_S = 20.0


def line(name: str) -> IterationChanges:
    return IterationChanges(logs=[LogDefinition(name, 0, "run", message=name)])


def has_waiters(store: PostgresStore) -> bool:
    """Whether a transaction waits for another one."""
    sql = "SELECT 1 FROM pg_locks WHERE NOT granted LIMIT 1"
    return store.database.read(lambda reader: reader.query_one(sql)) is not None


def until(is_so: Callable[[], bool]) -> None:
    ends = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while not is_so():
        assert SYSTEM_CLOCK.monotonic() < ends
        SYSTEM_CLOCK.sleep(0.005)


@pytest.mark.parametrize("has_run", [True, False])
def test_a_line_whose_commit_comes_late_is_not_passed_over(
    store: PostgresStore, opened: Opened, has_run: bool
) -> None:
    if has_run:
        store.save_runner(new_run("run"))
    written, may_commit = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        apply(tx, line("slow"))
        written.set()
        assert may_commit.wait(PATIENCE_S)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.database.write, slow)
        assert written.wait(PATIENCE_S)
        second = pool.submit(opened().commit, line("quick"))
        until(lambda: second.done() or has_waiters(store))
        early = store.list_logs("run")
        may_commit.set()
        wait([first, second], PATIENCE_S)
        late = store.list_logs("run", cursor=early.cursor)
    found = [each.uuid for each in (*early.items, *late.items)]
    assert sorted(found) == ["quick", "slow"]


def test_tables_of_the_first_release_are_brought_up_to_date(url: str) -> None:
    schema = "older"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    try:
        older = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
        _fill_as_the_first_release(older)
        with PostgresStore(older) as store:
            page = store.list_runs(RunQuery(workflows=("shop.Order",)))
            assert [each.workflow_id for each in page.items] == ["run"]
            assert [each.message for each in store.list_logs("run").items] == ["hello"]
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


def _fill_as_the_first_release(url: str) -> None:
    database = PostgresDatabase(url, pool_size=1)
    try:
        migrate(database, COMPONENT, MIGRATIONS[:1])
        database.write(_old_rows)
    finally:
        database.close()


def _old_rows(tx: Transaction) -> None:
    tx.execute(
        "INSERT INTO afl_run (uuid, workflow_id, workflow, parameters, start_time, end_time, "
        "duration, retain, state, task_list, version, flow_id) VALUES ('run', 'run', %s, '[]', "
        "0, 0, 0, 0, 'running', 'default', 0, 'flow')",
        (
            '{"uuid": "w", "name": "shop.Order", "namespace_id": "", "facet_id": "", '
            '"flow_id": "flow", "starting_step": "", "version": "1"}',
        ),
    )
    tx.execute(
        'INSERT INTO afl_log (uuid, "order", runner_id, object_id, object_type, note_originator, '
        "note_type, note_importance, message, state, line, file, details, time) VALUES "
        "('l', 0, 'run', '', '', 'workflow', 'info', 5, 'hello', '', 0, '', '{}', 0)"
    )


def test_what_is_found_by_its_beginning_is_sorted_by_its_characters(store: PostgresStore) -> None:
    """A database may sort as a dictionary does, where signs count for little."""
    sql = """SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND collation_name = 'C'"""
    found = store.database.read(lambda reader: reader.query_all(sql))
    # Turns may be kept in the same database.
    assert {
        ("afl_run", "workflow_id"),
        ("afl_run", "workflow_name"),
        ("afl_task", "uuid"),
    } <= set(found)
