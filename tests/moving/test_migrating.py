"""`afl migrate`: an owner brings the tables up to date; workers need no right to change them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql
from tests.docs.pages import DOCS, blocks_of
from tests.moving.conftest import NewPlace, run_sql
from tests.moving.warehouse import check_messages, fill_messages, shop_at

from afl.bootstrap import open_store
from afl.cli import main
from afl.db.postgres import open_postgres
from afl.errors import ConfigurationError, NewerSchema
from afl.ids import new_id
from afl.operations.migrating import migrate_all, schema_states

#: What docs/how-to/run-on-postgresql.md says that a worker needs.
GRANTS = (
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {worker}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {worker}",
)


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def place(request: pytest.FixtureRequest, new_place: NewPlace) -> str:
    return new_place(request.param)


def test_all_components_come_to_the_newest_version(place: str) -> None:
    looked = schema_states(place)
    assert all(each.found == 0 < each.newest for each in looked)
    # Whoever opens a store still migrates what is its own.
    open_store(place).close()
    engine, *others = before = migrate_all(place)
    assert (engine.component, engine.is_behind) == ("engine", False)
    assert others == looked[1:]
    after = schema_states(place)
    assert [each.found for each in after] == [each.newest for each in before]
    assert migrate_all(place) == after


def test_the_command_says_how_far_it_was(
    new_place: NewPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    url = new_place("sqlite")
    open_store(url).close()
    assert main(["migrate", "--store", url, "--check"]) == 1
    assert "mailbox: version 0, behind 1" in capsys.readouterr().out
    assert main(["migrate", "--store", url, "--json"]) == 0
    found = {each["component"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["mailbox"] == {"component": "mailbox", "from": 0, "to": 1, "newest": 1}
    assert main(["migrate", "--store", url, "--check"]) == 0
    assert "behind" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "page"), [("postgres", "run-on-postgresql.md"), ("mongo", "run-on-mongodb.md")]
)
def test_the_documentation_shows_what_is_printed(
    new_place: NewPlace, capsys: pytest.CaptureFixture[str], kind: str, page: str
) -> None:
    blocks = blocks_of(DOCS / "how-to" / page)
    (shown,) = [each.text for each in blocks if "\nengine: from" in each.text]
    assert main(["migrate", "--store", new_place(kind)]) == 0
    printed = capsys.readouterr().out.splitlines()
    said = shown[shown.index("engine: from") :].partition("\n$ ")[0].splitlines()
    # Others may follow, if the page says so.
    assert said == (printed if "…" not in said else [*printed[: len(said) - 1], "…"])


def test_a_newer_schema_is_refused_before_anything_is_changed(
    new_place: NewPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    url = new_place("postgres")
    migrate_all(url)
    run_sql(
        url,
        "UPDATE afl_schema SET version = 99, oldest = 99 WHERE component = 'idempotency'",
        "DELETE FROM afl_schema WHERE component = 'evals'",
    )
    for arguments in (["--check"], []):
        assert main(["migrate", "--store", url, *arguments]) == 2
        assert "A newer afl has used this database" in capsys.readouterr().err
    run_sql(url, "DELETE FROM afl_schema WHERE component = 'idempotency'")
    states = {each.component: each.found for each in schema_states(url)}
    assert states["evals"] == 0


def test_what_has_no_schema_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no schema"):
        schema_states("memory:")


@pytest.fixture
def worker_url(new_place: NewPlace) -> Iterator[tuple[str, str]]:
    """A database, and the same for a role that owns nothing."""
    owner, name = new_place("postgres"), f"worker_{new_id()[-8:]}"
    run_sql(owner, f"CREATE ROLE {name} LOGIN")
    yield owner, owner.replace("://postgres@", f"://{name}@")
    run_sql(owner, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def _grant(url: str, worker: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for each in GRANTS:
            connection.execute(sql.SQL(each).format(worker=sql.Identifier(worker)))


def test_a_worker_without_rights_to_tables_works_after_a_migration(
    worker_url: tuple[str, str],
) -> None:
    owner, worker = worker_url
    with pytest.raises(ConfigurationError, match="run `afl migrate` as their owner"):
        open_store(worker)
    migrate_all(owner)
    name = worker.partition("://")[2].partition("@")[0]
    _grant(owner, name)
    with shop_at(worker) as shop:
        run_id = shop.order("cup")
        shop.do("shop.Pay")
        shop.do("shop.Ship")
        assert shop.outputs(run_id) == {"parcel": "parcel of receipt of cup"}
        assert shop.store.prune_runs(-1000).runs == 1
    fill_messages(worker)
    check_messages(worker)
    assert all(not each.is_behind for each in schema_states(worker))
    with closing(open_postgres(worker)) as database, pytest.raises(ConfigurationError):
        database.query("CREATE TABLE public.mine (id integer)")


def test_mongodb_refuses_a_newer_schema(new_place: NewPlace) -> None:
    import pymongo

    url = new_place("mongo")
    migrate_all(url)
    with pymongo.MongoClient[dict[str, object]](url) as client:
        changed = client.get_default_database()["afl_schema"].update_one(
            {"_id": "engine"}, {"$set": {"version": 99, "oldest": 99}}
        )
        assert changed.modified_count == 1
    with pytest.raises(NewerSchema):
        schema_states(url)
