"""What callers are told of errors of PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import UndefinedTable

from afl.db.postgres import PostgresDatabase
from afl.db.postgres.errors import translated
from afl.errors import ConfigurationError, StoreUnavailable

_FAILED = 'connection failed: connection to server at "db", port 5432 failed: '


@pytest.mark.parametrize(
    "option",
    ["sslmode=verify", "target_session_attrs=first", "port=99999", "ssl_min_protocol_version=x"],
)
def test_an_option_whose_value_cannot_be_is_the_operators_to_correct(option: str) -> None:
    """libpq says so before it looks for a server."""
    database = PostgresDatabase(f"postgresql://me:hush@127.0.0.1/agents?{option}")
    try:
        with pytest.raises(ConfigurationError, match="a value that cannot be") as caught:
            database.query("SELECT 1")
    finally:
        database.close()
    assert option.partition("=")[2] in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        "FATAL:  -c foo.bar requires a value",
        'FATAL:  unrecognized configuration parameter "foo"',
        'FATAL:  invalid value for parameter "statement_timeout": "abc"',
        "FATAL:  invalid command-line argument for server process: -z",
        'invalid integer value "x" for connection option "keepalives_idle"',
    ],
)
def test_so_is_what_the_server_takes_no_connection_with(said: str) -> None:
    meaning = translated(psycopg.OperationalError(_FAILED + said), "db")
    assert isinstance(meaning, ConfigurationError)
    assert said.split()[-1] in str(meaning)
    assert "is it running" not in str(meaning)


def test_a_server_without_tls_is_named_as_such() -> None:
    said = _FAILED + "server does not support SSL, but SSL was required"
    meaning = translated(psycopg.OperationalError(said), "db")
    assert isinstance(meaning, ConfigurationError)
    assert "it offers no TLS, and sslmode asks for it" in str(meaning)


@pytest.mark.parametrize(
    "said",
    [
        "Connection refused",
        # Files may be replaced while a worker connects again: that is no reason to end it.
        'root certificate file "/etc/db.pem" does not exist',
    ],
)
def test_what_may_pass_is_an_outage(said: str) -> None:
    meaning = translated(psycopg.OperationalError(_FAILED + said), "db")
    assert isinstance(meaning, StoreUnavailable)


def test_tables_that_cannot_be_seen_may_lack_a_right() -> None:
    meaning = translated(UndefinedTable('relation "afl_run" does not exist'), "db")
    assert isinstance(meaning, ConfigurationError)
    assert "GRANT USAGE ON SCHEMA" in str(meaning)
    assert "afl migrate" in str(meaning)
