"""The pool of PostgreSQL, its announcements and its migrations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from string import ascii_lowercase
from typing import Any

import psycopg
import pytest
from tests.servers.conftest import PATIENCE_S, until

from afl.clock import SYSTEM_CLOCK, FakeClock
from afl.db.migrations import Migration, history
from afl.db.postgres import (
    Cursor,
    PostgresDatabase,
    Transaction,
    migrate,
    open_postgres,
    schema_version,
)
from afl.db.postgres.errors import refusing
from afl.db.postgres.news import Channels, Ear, channel_of
from afl.db.postgres.text import topic_of
from afl.db.postgres.wire import Connection
from afl.errors import (
    ConfigurationError,
    Conflict,
    NewerSchema,
    StoreClosed,
    StoreUnavailable,
)
from afl.ids import new_id
from afl.testing.servers import PostgresServer

Opened = Callable[[Any], Any]
Start = Callable[..., threading.Thread]

FIRST = Migration(1, "a table", ("CREATE TABLE thing (id integer PRIMARY KEY)",))
SECOND = Migration(2, "names", ("ALTER TABLE thing ADD COLUMN name text DEFAULT 'none'",))
THIRD = Migration(3, "one thing", ("INSERT INTO thing VALUES (1, 'first')",))


_ADD = "INSERT INTO thing DEFAULT VALUES"
_WAIT_NO_MORE = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
_NAMED = "FROM pg_stat_activity WHERE application_name = %s"
_WAITING_FOR_COPIES = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def _add_and_announce(tx: Transaction) -> None:
    tx.execute(_ADD)
    tx.announce("work:default")


@pytest.fixture
def url(postgres_url: str) -> Iterator[str]:
    """Tables of its own for each test."""
    schema = f"test_{new_id().replace('-', '')}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{postgres_url}?options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def database(url: str) -> Iterator[PostgresDatabase]:
    made = PostgresDatabase(url)
    yield made
    made.close()


def test_whoever_opens_the_same_url_shares_the_object(url: str) -> None:
    first, second = open_postgres(url), open_postgres(url)
    assert first is second
    first.close()
    assert second.query("SELECT 1") == [(1,)]
    second.close()
    with pytest.raises(StoreClosed, match="was closed in this process"):
        first.query("SELECT 1")


def test_other_settings_for_what_is_open_are_refused(url: str, opened: Opened) -> None:
    opened(open_postgres(url))
    with pytest.raises(ConfigurationError, match="other settings"):
        open_postgres(url, clock=FakeClock())


def test_who_wishes_for_no_number_of_connections_takes_that_of_others(
    url: str, opened: Opened
) -> None:
    first = opened(open_postgres(url))
    assert first._pool.max_size == 10
    assert opened(open_postgres(url, pool_size=3)) is first
    assert opened(open_postgres(url)) is first
    assert first._pool.max_size == 3
    with pytest.raises(ConfigurationError, match="pool_size=3"):
        open_postgres(url, pool_size=4)


def test_a_schema_that_is_not_there_is_told_with_what_to_do(url: str, opened: Opened) -> None:
    database = opened(open_postgres(url.rpartition("test_")[0] + "nowhere"))
    with pytest.raises(ConfigurationError, match=r"create it first"):
        migrate(database, "engine", [FIRST])


def test_who_may_not_write_is_told_so(url: str, opened: Opened) -> None:
    owner = opened(open_postgres(url))
    migrate(owner, "engine", [FIRST])
    role, schema = f"r{new_id()[-12:]}", url.rpartition("%3D")[2]
    owner.query(f"CREATE ROLE {role} LOGIN")
    owner.query(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    reader = opened(open_postgres(url.replace("//postgres@", f"//{role}@", 1)))

    def write(tx: Transaction) -> None:
        with refusing():  # as all do who write what others give them
            tx.execute("INSERT INTO thing VALUES (1)")

    with pytest.raises(ConfigurationError, match="the rights of the user"):
        reader.write(write)


def test_a_transaction_that_stood_still_may_be_tried_again(url: str, opened: Opened) -> None:
    """A process that was halted in the middle of it, for longer than the server waits."""
    database = opened(open_postgres(url))

    def stand_still(cursor: Cursor) -> None:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '10ms'")
        SYSTEM_CLOCK.sleep(0.2)
        cursor.execute("SELECT 1")

    with pytest.raises(StoreUnavailable, match="stood still"):
        database.transact(stand_still)
    assert database.query("SELECT 1") == [(1,)]


def test_a_transaction_is_applied_as_a_whole_or_not(database: PostgresDatabase) -> None:
    def fail(cursor: Cursor) -> None:
        cursor.execute("INSERT INTO thing VALUES (2)")
        raise KeyError("no")

    migrate(database, "engine", [FIRST])
    database.transact(lambda cursor: cursor.execute("INSERT INTO thing VALUES (1)"))
    with pytest.raises(KeyError):
        database.transact(fail)
    assert database.query("SELECT id FROM thing") == [(1,)]


def test_a_row_that_is_there_already_is_a_conflict(database: PostgresDatabase) -> None:
    migrate(database, "engine", [FIRST])
    database.query("INSERT INTO thing VALUES (%s)", (1,))
    with pytest.raises(Conflict, match="already there"):
        database.query("INSERT INTO thing VALUES (%s)", (1,))


def test_who_is_undone_because_two_block_each_other_is_run_again(
    database: PostgresDatabase, start: Start
) -> None:
    migrate(database, "engine", [FIRST, SECOND, THIRD])
    database.query("INSERT INTO thing VALUES (2, 'second')")
    both_have_begun = threading.Barrier(2)
    runs: list[str] = []

    def change(name: str, first: int, second: int) -> None:
        def fn(cursor: Cursor) -> None:
            runs.append(name)
            cursor.execute("UPDATE thing SET name = %s WHERE id = %s", (name, first))
            if runs.count(name) == 1:
                both_have_begun.wait(PATIENCE_S)
            cursor.execute("UPDATE thing SET name = %s WHERE id = %s", (name, second))

        database.transact(fn)

    for each in [start(change, "a", 1, 2), start(change, "b", 2, 1)]:
        each.join(PATIENCE_S)
    assert len(runs) > 2
    assert database.query("SELECT count(DISTINCT name) FROM thing") == [(1,)]


def test_a_pool_that_is_used_up_makes_callers_wait(url: str, opened: Opened, start: Start) -> None:
    database = opened(PostgresDatabase(url, pool_size=1))
    is_in, may_end = threading.Event(), threading.Event()
    answers: list[Any] = []

    def hold(_cursor: Cursor) -> None:
        is_in.set()
        assert may_end.wait(PATIENCE_S)

    start(lambda: database.transact(hold))
    assert is_in.wait(PATIENCE_S)
    start(lambda: answers.extend(database.query("SELECT 1")))
    may_end.set()
    until(lambda: answers == [(1,)])


@pytest.fixture
def things(url: str) -> Iterator[psycopg.Connection[Any]]:
    """An operator on the database, and a table that somebody else may change."""
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("CREATE TABLE thing (id serial PRIMARY KEY, name text)")
        yield operator


def _held(database: PostgresDatabase, count: int, ask: Callable[[Connection], object]) -> None:
    """Let each of so many connections of the pool do something."""
    with ExitStack() as stack:
        for each in [stack.enter_context(database.connection()) for _ in range(count)]:
            ask(each)


def test_tables_that_change_below_prepared_statements_disturb_nobody(
    url: str, things: psycopg.Connection[Any], opened: Opened
) -> None:
    """As in a migration, while older programs work: each connection has to notice."""
    database: PostgresDatabase = opened(open_postgres(url))
    ask = "SELECT * FROM thing"
    _held(database, 10, lambda each: each.ask([(ask, ())]))
    things.execute("ALTER TABLE thing ADD COLUMN more text")
    assert database.query(ask) == []
    things.execute("ALTER TABLE thing DROP COLUMN more")
    assert database.write(lambda tx: tx.query_all(ask)) == []


def test_prepared_statements_that_are_gone_disturb_nobody(
    url: str, things: psycopg.Connection[Any], opened: Opened
) -> None:
    """Some proxies between us and the server drop them."""
    database: PostgresDatabase = opened(open_postgres(url))
    add, told = "INSERT INTO thing DEFAULT VALUES", threading.Event()
    opened(ExitStack()).callback(database.bell.attend("work:default", told.set))
    database.transact(lambda cursor: cursor.execute(add), "work:default")
    _held(database, 1, lambda each: each.execute("DISCARD ALL"))
    database.transact(lambda cursor: cursor.execute(add), "work:default")  # this is not announced
    told.clear()
    database.transact(lambda cursor: cursor.execute(add), "work:default")
    assert told.wait(PATIENCE_S)


def test_a_connection_to_what_has_become_a_replica_is_given_up(opened: Opened) -> None:
    """The address may lead to a new primary by now."""
    with PostgresServer() as server, psycopg.connect(server.url, autocommit=True) as operator:
        operator.execute("CREATE TABLE thing (id serial PRIMARY KEY)")
        operator.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        operator.execute("SELECT pg_reload_conf()")
        database: PostgresDatabase = opened(open_postgres(server.url, pool_size=1))
        until(lambda: database.query("SHOW default_transaction_read_only") == [("on",)])
        ways: list[Callable[[], object]] = [
            lambda: database.query(_ADD),
            lambda: database.write(lambda tx: tx.execute(_ADD)),
            lambda: database.transact(lambda cursor: cursor.execute(_ADD)),
        ]
        for write in ways:
            before = database.query("SELECT pg_backend_pid()")
            with pytest.raises(StoreUnavailable, match="a new primary may be coming"):
                write()
            assert database.query("SELECT pg_backend_pid()") != before


def test_who_calls_after_a_restart_waits_for_no_connection_that_is_lost(
    url: str, things: psycopg.Connection[Any], opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_id()
    database: PostgresDatabase = opened(open_postgres(f"{url}&application_name={name}"))
    _held(database, 10, lambda each: each.ask([("SELECT 1", ())]))
    things.execute(f"SELECT pg_terminate_backend(pid) {_NAMED}".encode(), (name,))
    count = f"SELECT count(*) {_NAMED}".encode()
    until(lambda: things.execute(count, (name,)).fetchone() == (0,))
    pauses: list[float] = []
    monkeypatch.setattr("psycopg_pool.pool.sleep", pauses.append)
    assert database.query("SELECT 1") == [(1,)]
    assert pauses == []


def test_an_announcement_wakes_who_waits_for_its_topic(
    url: str, opened: Opened, start: Start
) -> None:
    here, there = opened(PostgresDatabase(url)), opened(PostgresDatabase(url))
    answers: list[bool] = []
    seen = here.bell.count("topic")
    start(lambda: answers.append(here.bell.wait("topic", seen, PATIENCE_S)))
    there.bell.ring(["another", "topic"])
    until(lambda: answers == [True])


def test_news_between_counting_and_waiting_is_not_lost_if_nobody_waited_for_its_kind_before(
    url: str, opened: Opened
) -> None:
    here, there = opened(PostgresDatabase(url)), opened(PostgresDatabase(url))
    for kind in ascii_lowercase:
        seen = here.bell.count(f"{kind}:1")
        there.bell.ring([f"{kind}:1"])
        assert here.bell.wait(f"{kind}:1", seen, PATIENCE_S)


def test_who_waits_for_one_kind_of_topic_is_told_of_no_other(url: str, opened: Opened) -> None:
    channels, there = Channels(), opened(PostgresDatabase(url))
    channels.want(channel_of("fish:a"))
    with closing(Ear(url, "a place", channels)) as ear:
        there.bell.ring(["bird:1"])
        there.bell.ring(["bird:2", "fish:a", "fish:b"])
        assert _next_heard(ear) == ["fish:a", "fish:b"]
        channels.want(channel_of("bird:3"))
        ear.interrupt()
        assert _next_heard(ear) is None, "anything may have happened before"
        there.bell.ring(["bird:3", "beasts"])
        assert _next_heard(ear) == ["bird:3"]


def _next_heard(ear: Ear) -> list[str] | None:
    while (topics := ear.hear()) is not None:
        if heard := list(topics):
            return heard
    return None


def test_a_bell_listens_to_what_somebody_in_the_process_has_waited_for(
    url: str, opened: Opened
) -> None:
    here, there = opened(PostgresDatabase(url)), opened(PostgresDatabase(url))
    told: list[str] = []
    ends = [
        here.bell.attend(each, partial(told.append, each)) for each in ("work:a", "run:1", "odd 1")
    ]
    seen = here.bell.count("run:1")
    there.bell.ring(["run:1"])
    assert here.bell.wait("run:1", seen, PATIENCE_S)
    for topic in ("work:a", "odd 1"):
        told.clear()
        there.bell.ring([topic])
        until(partial(told.__contains__, topic))
    for each in ends:
        each()


def test_a_commit_that_waits_for_the_disk_keeps_no_announcement_waiting(
    opened: Opened, start: Start
) -> None:
    """Else commits of all processes would wait for each other. A disk cannot be made slow; a second
    server that has to have all of it, too, and never comes is as slow as can be."""
    may_stop = threading.Event()

    def keep_working(database: PostgresDatabase) -> None:
        while not may_stop.is_set():
            database.write(_add_and_announce)

    def has_ended() -> bool:
        operator.execute(_WAIT_NO_MORE)
        return not thread.is_alive()

    with PostgresServer() as server, psycopg.connect(server.url, autocommit=True) as operator:
        operator.execute("CREATE TABLE thing (id serial PRIMARY KEY)")
        operator.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        operator.execute("SELECT pg_reload_conf()")
        thread = start(keep_working, opened(PostgresDatabase(server.url)))
        try:
            until(lambda: operator.execute(_WAITING_FOR_COPIES).fetchone() == (1,))
            operator.execute("SET lock_timeout = '5s'; SET synchronous_commit = 'local'; NOTIFY x")
        finally:
            may_stop.set()
            until(has_ended)


_CANNOT_ANNOUNCE = """\
CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'no room for news'; END $$;
CREATE TABLE thing (id serial PRIMARY KEY)"""


@pytest.mark.parametrize("in_what", ["write", "change", "transact"])
def test_what_is_committed_stays_so_if_it_cannot_be_announced(
    url: str, opened: Opened, in_what: str
) -> None:
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute(_CANNOT_ANNOUNCE)
    database: PostgresDatabase = opened(open_postgres(f"{url},pg_catalog"))
    ways: dict[str, Callable[[], object]] = {
        "write": lambda: database.write(_add_and_announce),
        "change": lambda: database.change(_ADD, (), "work:default"),
        "transact": lambda: database.transact(lambda cursor: cursor.execute(_ADD), "work:default"),
    }
    ways[in_what]()
    assert database.query("SELECT id FROM thing") == [(1,)]


@pytest.mark.parametrize(
    ("topic", "channel"),
    [
        ("work:default", "afl_news_work"),
        ("run:", "afl_news_run"),
        ("handlers", "afl_news_handlers"),
        ("Run:1", "afl_news"),
        ("no kind at all", "afl_news"),
        ("; DROP TABLE afl_run", "afl_news"),
        ("", "afl_news"),
        ("x" * 41, "afl_news"),
        (f"work:{'long' * 100}", "afl_news_work"),
        ("x" * 1000, "afl_news"),
    ],
)
def test_topics_of_one_kind_have_a_channel(topic: str, channel: str) -> None:
    assert channel_of(topic_of(topic)) == channel


def test_closing_ends_waits(url: str, start: Start) -> None:
    database = PostgresDatabase(url)
    answers: list[bool] = []
    seen = database.bell.count("topic")
    start(lambda: answers.append(database.bell.wait("topic", seen + 1, PATIENCE_S)))
    until(lambda: database.bell.waiters == 1)
    database.close()
    until(lambda: answers == [False])


def test_a_server_that_is_not_there_is_an_outage_with_its_place(opened: Opened) -> None:
    with PostgresServer() as machine:
        url = machine.url
    database = opened(PostgresDatabase(url.replace("postgres@", "postgres:hush@")))
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as caught:
        database.query("SELECT 1")
    assert "hush" not in f"{caught.value}{database.place}"


def test_a_database_that_does_not_exist_is_the_operators_to_fix(
    postgres_url: str, opened: Opened
) -> None:
    database = opened(PostgresDatabase(postgres_url.rpartition("/")[0] + "/nowhere"))
    with pytest.raises(ConfigurationError, match="refuses us"):
        database.query("SELECT 1")


@pytest.mark.parametrize(
    "url",
    [
        "localhost",
        "mysql://localhost",
        "postgresql://a b/c?d",
        "postgresql://me:hu/sh@localhost/",
        "postgresql://me:7/hush@localhost/",
        "postgresql://me:hush@localhost/?hush",
    ],
)
def test_a_url_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL URL") as caught:
        open_postgres(url)
    assert "hu" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://", "postgresql://localhost:5432/"),
        ("postgres://me:h%2Fsh@db/agents", "postgresql://db:5432/agents"),
        ("postgresql://me@a:1,b:2/agents", "postgresql://a,b:1,2/agents"),
        ("postgresql:///agents?host=/run/pg", "postgresql:///run/pg:5432/agents"),
        (
            "postgresql://db/agents?options=-csearch_path%3Done",
            "postgresql://db:5432/agents?options=-csearch_path=one",
        ),
    ],
)
def test_a_place_is_named_without_secrets(opened: Opened, url: str, place: str) -> None:
    assert opened(PostgresDatabase(url)).place == place


# Migrations


def test_each_start_does_only_what_is_new(database: PostgresDatabase) -> None:
    assert schema_version(database, "engine") == 0
    assert migrate(database, "engine", [FIRST]) == 1
    assert migrate(database, "engine", [FIRST]) == 0
    assert migrate(database, "engine", [FIRST, SECOND, THIRD]) == 2
    assert schema_version(database, "engine") == 3
    assert schema_version(database, "mailbox") == 0
    assert database.query("SELECT name FROM thing") == [("first",)]


def test_a_migration_that_fails_changes_nothing(database: PostgresDatabase) -> None:
    wrong = Migration(2, "wrong", ("CREATE TABLE other (id integer)", "CREATE NONSENSE"))
    migrate(database, "engine", [FIRST])
    with pytest.raises(psycopg.Error) as caught:
        migrate(database, "engine", [FIRST, wrong])
    assert "migration 2 of engine: wrong" in caught.value.__notes__
    assert schema_version(database, "engine") == 1
    assert database.query("SELECT to_regclass('other')") == [(None,)]


def test_many_who_start_together_migrate_once(url: str, start: Start) -> None:
    counts: list[int] = []
    ready = threading.Barrier(6)

    def begin() -> None:
        database = PostgresDatabase(url)
        ready.wait(PATIENCE_S)
        counts.append(migrate(database, "engine", history(FIRST, SECOND, THIRD)))
        database.close()

    for each in [start(begin) for _ in range(6)]:
        each.join(PATIENCE_S)
    assert len(counts) == 6
    assert sum(counts) == 3


def test_an_older_program_goes_on_beside_a_newer_one(database: PostgresDatabase) -> None:
    migrate(database, "engine", [FIRST, SECOND, THIRD])
    assert migrate(database, "engine", [FIRST]) == 0
    assert schema_version(database, "engine") == 3


def test_a_program_that_is_too_old_is_refused(database: PostgresDatabase) -> None:
    migrate(database, "engine", [FIRST, SECOND, THIRD], oldest=2)
    assert migrate(database, "engine", [FIRST, SECOND]) == 0
    with pytest.raises(NewerSchema, match="upgrade afl here"):
        migrate(database, "engine", [FIRST])
