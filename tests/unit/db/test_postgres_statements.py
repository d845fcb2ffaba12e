"""Statements for one row and for many say the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.db.postgres.statements import inserting, updating
from afl.db.postgres.text import given_row

INSERT = inserting("shelf", ("id", "user"))
UPDATE = updating("shelf", ("user",), key="id", version="version", only="old.user <> {user}")


def test_one_row_goes_by_itself() -> None:
    ((sql, sent),) = INSERT.of([("a", None)])
    assert sql == 'INSERT INTO shelf ("id", "user") VALUES (%(id)s, %(user)s)'
    assert sent == {"id": "a", "user": None}


def test_many_rows_go_as_one_text() -> None:
    ((sql, sent),) = INSERT.of([("a", None), ("b", 'say "hi"')])
    rows = "json_populate_recordset(NULL::shelf, %(rows)s::json) AS given"
    assert sql == f'INSERT INTO shelf ("id", "user") SELECT "id", "user" FROM {rows}'
    assert json.loads(sent["rows"]) == [{"id": "a", "user": None}, {"id": "b", "user": 'say "hi"'}]


@given(st.text(st.sampled_from('\0\\u0\ue000a"')), st.text(st.sampled_from("\0\\u01\ue000")))
def test_any_text_is_sent_alike_alone_and_among_others(one: str, other: str) -> None:
    ((_, alone),) = INSERT.of([(one, other)])
    ((_, many),) = INSERT.of([(one, other), ("b", None)])
    assert json.loads(many["rows"])[0] == alone
    assert "\0" not in alone["id"]
    assert given_row((alone["id"], alone["user"])) == (one, other)


def test_an_update_replaces_one_version_only_and_fails_unless_all_are_replaced() -> None:
    assert UPDATE.names == ("user", "version", "id")
    assert UPDATE.one == (
        'WITH changed AS (UPDATE shelf AS old SET "user" = %(user)s, "version" = %(version)s '
        'WHERE old."id" = %(id)s AND old."version" = %(version)s - 1 AND old.user <> %(user)s '
        "RETURNING 1) SELECT 1 / (count(*) = 1)::integer FROM changed"
    )
    assert UPDATE.many == (
        'WITH changed AS (UPDATE shelf AS old SET "user" = given."user", '
        '"version" = given."version" '
        "FROM json_populate_recordset(NULL::shelf, %(rows)s::json) AS given "
        'WHERE old."id" = given."id" AND old."version" = given."version" - 1 '
        'AND old.user <> given."user" '
        "RETURNING 1) SELECT 1 / (count(*) = %(count)s)::integer FROM changed"
    )
    ((_, sent),) = UPDATE.of([("a", 1, "x"), ("b", 1, "y")])
    assert sent["count"] == 2


def test_very_large_rows_go_as_several_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.db.postgres.statements.LONGEST", 100)
    rows = [("a", 1, "x" * 30), ("b", 1, "x" * 30), ("c", 1, "x" * 30), ("d", 1, "x" * 300)]
    first, second, third = UPDATE.of([*rows, ("e", None, None)])[:3]
    assert first[0] == UPDATE.many
    assert [each["user"] for each in json.loads(first[1]["rows"])] == ["a", "b", "c"]
    assert first[1]["count"] == 3
    assert second == (UPDATE.one, {"user": "d", "version": 1, "id": "x" * 300})
    assert third == (UPDATE.one, {"user": "e", "version": None, "id": None})
