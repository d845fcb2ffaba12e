"""URLs that are none: what was probably meant."""

from __future__ import annotations

import pytest

from afl.db.urls import hint

STORES = ("memory", "sqlite", "postgresql", "mongodb")


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("x.db", "sqlite:///x.db"),
        ("./data/x.db", "sqlite:///./data/x.db"),
        ("/var/lib/x.db", "sqlite:////var/lib/x.db"),
        ("C:/x.db", "sqlite:///C:/x.db"),
        ("memory", "memory:"),
        ("postgres://u:hunter2@h/db", "postgresql:"),
        ("POSTGRES://h/db", "postgresql:"),
        ("sqlite3:///x.db", "sqlite:"),
        ("mongo://h/db", "mongodb:"),
    ],
)
def test_what_was_probably_meant_is_said(url: str, meant: str) -> None:
    assert hint(url, STORES) == f"; did you mean {meant}?"


@pytest.mark.parametrize(
    "url", ["", " ", "mysql://h/db", "u:hunter2@h/db", "u@h", "host=h password=hunter2"]
)
def test_nothing_is_said_where_nobody_can_know_or_where_a_password_may_be(url: str) -> None:
    assert hint(url, STORES) == ""


@pytest.mark.parametrize("url", ["x.db", "postgres://h/db"])
def test_only_what_would_be_taken_is_named(url: str) -> None:
    assert hint(url, ("memory", "redis")) == ""
