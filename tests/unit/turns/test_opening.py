"""From a URL to turns."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from afl.errors import ConfigurationError, NewerSchema, StoreClosed
from afl.turns import MongoTurns, NewTurn, PostgresTurns, open_turns


@pytest.mark.parametrize(
    ("place", "kind"), [("postgres_url", PostgresTurns), ("mongo_url", MongoTurns)]
)
def test_a_url_names_a_server(place: str, kind: type, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(place)
    with closing(open_turns(url)) as store:
        assert isinstance(store, kind)
        secret = store.secret()
        with closing(open_turns(url)) as again:
            assert again.secret() == secret
        assert store.secret() == secret
    with pytest.raises(StoreClosed, match="were closed"):
        store.accept(NewTurn("loop", b"1"))
    store.close()


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("postgresql://me:secret@nowhere/db", "psycopg", "postgres"),
        ("mongodb://me:secret@nowhere/db", "pymongo", "mongo"),
    ],
)
def test_a_missing_driver_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str, extra: str
) -> None:
    ours = ("afl.turns.postgres", "afl.turns.mongo", "afl.db.postgres", "afl.db.mongo")
    for name in [each for each in sys.modules if each.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'afl\[{extra}\]'") as refusal:
        open_turns(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("url", ["redis://u:secret@h/0", "x.db", ""])
def test_another_url_is_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///.* postgresql://.* mongodb://") as no:
        open_turns(url)
    assert "secret" not in str(no.value)


def test_tables_of_a_newer_program_are_refused(postgres_url: str) -> None:
    with closing(PostgresTurns(postgres_url)) as store:
        database = store._database
        newer = "UPDATE afl_schema SET oldest = %s, version = %s WHERE component = 'turns'"
        database.query(newer, (99, 99))
        try:
            with pytest.raises(NewerSchema):
                open_turns(postgres_url)
        finally:
            database.query(newer, (1, 1))
