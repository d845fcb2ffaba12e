"""Statements that go to PostgreSQL in one go, and their answers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import DivisionByZero, UndefinedTable
from tests.servers.conftest import until

from afl.db.postgres.transaction import Transaction
from afl.db.postgres.wire import Answer, Connection, _converted


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    with Connection.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE shelf (id bigint PRIMARY KEY, name text)")
        yield connection


def ids(connection: Connection) -> list[int]:
    return [key for (key,) in connection.execute("SELECT id FROM shelf ORDER BY id")]


@pytest.mark.parametrize(
    ("sql", "sent", "names"),
    [
        ("SELECT 1", b"SELECT 1", ()),
        ("SELECT %s, %s", b"SELECT $1, $2", ("#0", "#1")),
        ("SELECT %(b)s, %(a)s, %(b)s", b"SELECT $1, $2, $1", ("b", "a")),
        ("SELECT 7 %% 4, '100%%'", b"SELECT 7 % 4, '100%'", ()),
    ],
)
def test_values_are_numbered(sql: str, sent: bytes, names: tuple[str, ...]) -> None:
    assert _converted(sql)[:2] == (sent, names)


def test_all_are_answered_in_their_order(connection: Connection) -> None:
    for _ in range(2):  # prepared anew, and known
        answers, error = connection.ask(
            [
                ("INSERT INTO shelf VALUES (%s, %s), (%s, %s)", (1, "one", 2, None)),
                ("SELECT id, name FROM shelf ORDER BY id", ()),
                ("UPDATE shelf SET name = %(name)s WHERE id = %(id)s", {"id": 3, "name": "?"}),
                ("DELETE FROM shelf", ()),
            ]
        )
        assert error is None
        assert answers == [
            Answer([], 2, "INSERT 0 2"),
            Answer([(1, "one"), (2, None)], 2, "SELECT 2"),
            Answer([], 0, "UPDATE 0"),
            Answer([], 2, "DELETE 2"),
        ]


def test_what_stands_behind_an_error_is_not_done(connection: Connection) -> None:
    insert = "INSERT INTO shelf VALUES (%s)"
    for number in range(2):
        answers, error = connection.ask(
            [
                ("BEGIN", ()),
                (insert, (number,)),
                ("COMMIT", ()),
                ("SELECT 1 / %s", (0,)),
                ("DELETE FROM shelf", ()),
            ]
        )
        assert isinstance(error, DivisionByZero)
        assert [each.status for each in answers] == ["BEGIN", "INSERT 0 1", "COMMIT"]
        assert ids(connection) == list(range(number + 1))


def test_a_statement_that_could_not_be_prepared_is_tried_again(connection: Connection) -> None:
    question = ("SELECT * FROM later", ())
    for _ in range(2):
        answers, error = connection.ask([question, ("DELETE FROM shelf", ())])
        assert isinstance(error, UndefinedTable)
        assert answers == []
    connection.execute("CREATE TEMP TABLE later (id bigint)")
    assert connection.ask([question, ("DELETE FROM shelf", ())])[1] is None


def test_more_than_fits_between_us_goes_through(connection: Connection) -> None:
    long = "x" * 3_000_000
    answers, error = connection.ask([("SELECT %s::text", (long,))] * 8)
    assert error is None
    assert {len(each.rows[0][0]) for each in answers} == {len(long)}


def test_a_connection_that_the_server_ends_is_lost(connection: Connection) -> None:
    answers, error = connection.ask([("SELECT pg_terminate_backend(pg_backend_pid())", ())])
    assert answers == []
    assert isinstance(error, psycopg.OperationalError)
    assert connection.closed


def test_a_connection_may_be_lost_behind_the_last_answer(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Connection._results

    def lost(itself: Connection) -> Iterator[Any]:
        yield from results(itself)
        raise psycopg.OperationalError("gone")

    monkeypatch.setattr(Connection, "_results", lost)
    with pytest.raises(psycopg.OperationalError, match="gone"):
        Transaction(connection, None).execute("DELETE FROM shelf")


def test_an_interrupt_leaves_no_answers_for_others(
    connection: Connection, postgres_url: str
) -> None:
    def interrupt(ident: int) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            question = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(%'"
            until(lambda: other.execute(question).fetchone() is not None)
        signal.pthread_kill(ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt, args=(threading.get_ident(),))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        connection.ask([("SELECT pg_sleep(60)", ())])
    thread.join()
    assert connection.closed
