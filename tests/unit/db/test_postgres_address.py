"""URLs of PostgreSQL: what cannot be is named, and no password ever is."""

from __future__ import annotations

import pytest

from afl.db.postgres.address import connection_info
from afl.errors import ConfigurationError


def refusal_of(url: str) -> str:
    with pytest.raises(ConfigurationError, match="PostgreSQL URL") as caught:
        connection_info(url)
    return str(caught.value)


def test_an_option_that_libpq_does_not_know_is_named() -> None:
    refusal = refusal_of("postgresql://me:hush@db/agents?sslmode=require&unknownopt=1")
    assert "libpq knows no option 'unknownopt'" in refusal
    assert "hush" not in refusal


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:7?hush=1@db/agents?unknown=1",
        "postgresql://me:7?a=1&hush=1@db/agents?unknown=1",
        "postgresql://me@db/agents?password=a&hush=1",
        "postgresql://me@db/agents?sslpassword=a&hush=1",
        "postgresql://me@db/agents?hush",
        "postgresql://me:hush@db:abc/agents",
        "postgresql://me:abc/hush@db/agents",
    ],
)
def test_what_may_be_a_piece_of_a_password_is_not_shown(url: str) -> None:
    refusal = refusal_of(url)
    assert "hush" not in refusal
    assert "abc" not in refusal
    assert "options of libpq behind a question mark" in refusal
    assert "a number for the port" in refusal


@pytest.mark.parametrize("seconds", ["abc", "", "nan", "inf"])
def test_a_timeout_that_is_no_number_is_refused(seconds: str) -> None:
    assert "connect_timeout" in refusal_of(f"postgresql://db/agents?connect_timeout={seconds}")


@pytest.mark.parametrize("options", ["connect_timeout=2.5", "sslmode=verify-full", "ssl=true"])
def test_options_that_libpq_knows_are_taken(options: str) -> None:
    assert connection_info(f"postgresql://db/agents?{options}")


def test_both_names_of_the_scheme_mean_the_same() -> None:
    assert connection_info("postgres://me@db/a") == connection_info("postgresql://me@db/a")
