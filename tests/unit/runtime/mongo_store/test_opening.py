"""How the store is opened, shared and closed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pymongo
import pytest
from tests.contracts.mongo_stores import client_of
from tests.unit.runtime.mongo_store.conftest import Opened

import afl
from afl.db.mongo.collections import SCHEMA
from afl.errors import ConfigurationError, NewerSchema, StoreClosed, StoreMisused
from afl.runtime.entities import TaskDefinition
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.schema import COMPONENT, VERSION
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import add_tasks, new_run, new_step, new_task, read_step
from afl.testing.servers import MongoServer

_MAJORITY = pymongo.WriteConcern("majority", j=True)

WORKER = """\
import sys
from afl.runtime.mongo_store import MongoStore

with MongoStore(sys.argv[1]) as store:
    print("ready", flush=True)
    assert store.wait_for_work(["Pay"], 30)
    (task,) = store.claim_tasks(["Pay"], 10)
    print(task.uuid, flush=True)
    assert store.update_runner_state("run", "completed")
"""


def test_a_url_opens_it(url: str) -> None:
    store = afl.open_store(url)
    assert isinstance(store, MongoStore)
    assert isinstance(store, PersistenceAPI)
    store.close()


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ("afl.runtime.mongo_store", "afl.db.mongo")
    for name in [each for each in sys.modules if each.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'afl\[mongo\]'") as refusal:
        afl.open_store("mongodb://me:secret@nowhere/db")
    assert "secret" not in str(refusal.value)


def test_a_standalone_server_is_refused_with_what_to_do() -> None:
    told = r"mongod --replSet rs0.*rs.initiate\(\)"
    with (
        MongoServer(is_standalone=True) as server,
        pytest.raises(ConfigurationError, match=told),
    ):
        MongoStore(server.url)


@pytest.mark.parametrize(
    "url", ["mongodb://me:se/cret@host/db", "mongodb://me:cret@h:port/", "postgresql://x"]
)
def test_a_url_that_cannot_be_read_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        MongoStore(url)
    assert "cret" not in str(refusal.value)


def test_the_database_is_that_of_the_url_or_the_one_that_is_named(url: str) -> None:
    for opened in (MongoStore(f"{url}/shop"), MongoStore(url, "shop")):
        with opened as store:
            assert store.database.name == "shop"
            add_tasks(store, new_task())
    with MongoStore(url) as store:
        assert store.database.name == "afl"
        assert store.get_all_tasks() == []
        store.database.client.drop_database("shop")


def test_settings_open_it(url: str) -> None:
    @dataclass
    class Settings:
        database: str

        def connection_string(self) -> str:
            return url

    with MongoStore.from_config(Settings("afl")) as store:
        assert store.get_all_tasks() == []


def test_without_arguments_it_is_the_usual_database_of_this_machine(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.runtime.mongo_store.store.DEFAULT_URL", url)
    with MongoStore() as store:
        assert store.database.place == f"{url}/afl"
        add_tasks(store, new_task())
        assert len(store.get_all_tasks()) == 1


def test_another_spelling_of_a_database_that_is_there_is_refused(url: str) -> None:
    with (
        MongoStore(url),
        pytest.raises(ConfigurationError, match="upper and lower case"),
    ):
        MongoStore(url, "AFL")


def test_a_client_of_the_caller_stays_open(url: str) -> None:
    client = client_of(url)
    with MongoStore(client=client) as store:
        add_tasks(store, new_task(uuid="kept"))
    found = client["afl"]["tasks"].find_one({"_id": "kept"})
    assert found is not None


@contextmanager
def written_by(url: str, version: int, oldest: int) -> Iterator[None]:
    """As if a newer release had been here, whose collections that one can still use."""
    schema = client_of(url)["afl"][SCHEMA].with_options(write_concern=_MAJORITY)
    MongoStore(url).close()
    schema.update_one({"_id": COMPONENT}, {"$set": {"version": version, "oldest": oldest}})
    try:
        yield
    finally:
        schema.update_one({"_id": COMPONENT}, {"$set": {"version": VERSION, "oldest": 1}})


def test_collections_that_only_a_newer_release_understands_are_refused(url: str) -> None:
    with written_by(url, VERSION + 1, oldest=VERSION + 1), pytest.raises(NewerSchema):
        MongoStore(url)


def test_who_makes_no_collections_is_refused_as_well(url: str) -> None:
    with (
        written_by(url, VERSION + 1, oldest=VERSION + 1),
        pytest.raises(NewerSchema),
    ):
        MongoStore(url, create_indexes=False)


def test_who_makes_no_collections_needs_them(url: str) -> None:
    with (
        written_by(url, VERSION - 1, oldest=1),
        pytest.raises(ConfigurationError, match="afl migrate"),
    ):
        MongoStore(url, create_indexes=False)
    with MongoStore(url, create_indexes=False) as store:
        assert store.get_all_tasks() == []


def test_an_older_program_goes_on_beside_a_newer_one(url: str) -> None:
    with written_by(url, VERSION + 1, oldest=VERSION), MongoStore(url) as store:
        add_tasks(store, new_task())
        assert len(store.claim_tasks(["Pay"], 1)) == 1


def test_stores_at_one_url_share_connections_but_not_who_they_are(
    store: MongoStore, opened: Opened
) -> None:
    other = opened()
    assert other.database is store.database
    assert store.acquire_lock("x", 60_000)
    assert not other.acquire_lock("x", 60_000)


def test_closing_one_leaves_the_others_open(store: MongoStore, opened: Opened) -> None:
    other = opened()
    other.close()
    other.close()
    add_tasks(store, new_task())
    with pytest.raises(StoreClosed):
        other.get_all_tasks()


def test_what_was_submitted_is_written_before_the_end(url: str, store: MongoStore) -> None:
    with MongoStore(url) as other:
        future = other.decide_later(
            lambda _view: (IterationChanges(created_tasks=[new_task(uuid="last")]), None)
        )
    assert future.result() is None
    assert store.get_task("last") is not None


def test_processes_wake_each_other(url: str, store: MongoStore) -> None:
    store.save_runner(new_run("run"))
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        add_tasks(store, new_task(uuid="for-you"))
        assert worker.stdout.readline() == "for-you\n"
        assert store.wait_for_run(WorkflowId("run"), 30)
    assert worker.returncode == 0


def test_names_that_mean_something_to_the_server_are_only_names(store: MongoStore) -> None:
    odd = {"$set": {"a.b": 1}, "a.b.$": [{"$gt": ""}], "": None, "$where": "sleep(1)"}
    step = new_step()
    step.set_attribute("$x.y", odd)
    task = new_task("$a.$b", uuid="$id", data=odd, owner="$owner", task_list_name="$list")
    store.commit(IterationChanges(created_steps=[step], created_tasks=[task]))
    assert read_step(store, step.id).get_attribute("$x.y") == odd
    (claimed,) = store.claim_tasks(["$b"], 1, task_list="$list", owner="$$NOW")
    assert (claimed.uuid, claimed.data, claimed.owner) == ("$id", odd, "$$NOW")
    assert store.acquire_lock("$key", 60_000, owner="$owner")
    assert [each.owner for each in store.get_all_locks()] == ["$owner"]


def _decide(store: PersistenceAPI, task: TaskDefinition) -> None:
    store.decide(lambda _view: (IterationChanges(created_tasks=[task]), None))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda store: store.save_task(new_task(data={"x": "\ud800"})), "not valid Unicode"),
        (lambda store: store.save_task(new_task(owner="\ud800")), "not valid Unicode"),
        (lambda store: _decide(store, new_task(workflow_id="\ud800")), "not valid Unicode"),
        (lambda store: _decide(store, new_task(workflow_id="w", fence=2**64)), "64 bits"),
        (lambda store: store.save_task(new_task(fence=2**64)), "64 bits"),
        (lambda store: store.save_task(new_task(data={"x": float("nan")})), "NaN"),
        (lambda store: store.save_task(new_task(data={"x": "x" * 17_000_000})), "16 MB"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused(
    store: MongoStore, write: Callable[[PersistenceAPI], None], words: str
) -> None:
    with pytest.raises(StoreMisused, match=words):
        write(store)
    assert store.get_all_tasks() == []


def test_a_question_inside_a_decision_is_refused(store: MongoStore) -> None:
    with pytest.raises(StoreMisused, match="inside a decision"):
        store.decide(lambda _view: (IterationChanges(), store.get_all_tasks()))
