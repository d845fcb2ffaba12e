"""A server that knows its users, and gives each only some rights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymongo
import pytest

from afl.errors import ConfigurationError
from afl.runtime.mongo_store import MongoDBConfig, MongoStore
from afl.testing.contracts.store.exam import add_tasks, claim_one, new_task
from afl.testing.servers import MongoServer
from afl.turns import open_turns

#: As the page for operators gives it.
ROWS = ["find", "insert", "update", "remove", "changeStream", "listCollections"]
PASSWORD = "p:/?#@ %"


class KnowingServer(MongoServer):
    def _prepare(self) -> None:
        super()._prepare()
        self._key_file().write_text("c2VjcmV0c2VjcmV0")
        self._key_file().chmod(0o600)

    def _command(self) -> Sequence[str]:
        return [*super()._command(), "--keyFile", str(self._key_file())]

    def _key_file(self) -> Path:
        return self._folder / "key"

    def make_users(self) -> None:
        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(self.url)
        with client:
            client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        with pymongo.MongoClient[dict[str, Any]](self.config("root").connection_string()) as root:
            rows = {"resource": {"db": "agents", "collection": ""}, "actions": ROWS}
            root.admin.command("createRole", "aflWorker", privileges=[rows], roles=[])
            owner = [{"role": "readWrite", "db": "agents"}]
            root.admin.command("createUser", "afl_owner", pwd=PASSWORD, roles=owner)
            root.admin.command("createUser", "afl_worker", pwd=PASSWORD, roles=["aflWorker"])
            root.admin.command("createUser", "nobody", pwd=PASSWORD, roles=[])

    def config(self, user: str, password: str = PASSWORD) -> MongoDBConfig:
        return MongoDBConfig(self.url, user, password, database="agents")


@pytest.fixture(scope="module")
def server() -> Iterator[KnowingServer]:
    with KnowingServer() as started:
        started.make_users()
        yield started


@pytest.fixture
def worker(server: KnowingServer) -> MongoDBConfig:
    """Collections and indexes are not there."""
    config = server.config("root")
    with pymongo.MongoClient[dict[str, Any]](config.connection_string()) as client:
        client.drop_database(config.database)
    return server.config("afl_worker")


def test_who_may_make_nothing_is_told_who_does(worker: MongoDBConfig) -> None:
    with pytest.raises(ConfigurationError, match="afl migrate") as refusal:
        MongoStore.from_config(worker)
    assert "$clusterTime" not in str(refusal.value)
    with pytest.raises(ConfigurationError, match="afl migrate"):
        MongoStore.from_config(worker, create_indexes=False)


def test_who_may_only_change_what_is_there_can_work(
    server: KnowingServer, worker: MongoDBConfig
) -> None:
    MongoStore.from_config(server.config("afl_owner")).close()
    with MongoStore.from_config(worker) as store:
        add_tasks(store, new_task(uuid="one"))
        assert store.wait_for_work(["Pay"], 20)
        assert claim_one(store).uuid == "one"
        assert store.acquire_lock("x", 60_000)
        assert store.release_lock("x")


def test_turns_need_no_more(server: KnowingServer, worker: MongoDBConfig) -> None:
    def url(config: MongoDBConfig) -> str:
        return config.connection_string().replace("/?", "/agents?")

    open_turns(url(server.config("afl_owner"))).close()
    open_turns(url(worker)).close()


def test_a_wrong_password_is_told_as_such(server: KnowingServer) -> None:
    with pytest.raises(ConfigurationError, match="user, password and authSource") as refusal:
        MongoStore.from_config(server.config("afl_owner", "hunter2"))
    assert "hunter2" not in str(refusal.value)


def test_what_a_user_may_not_is_told_in_few_words(server: KnowingServer) -> None:
    with pytest.raises(ConfigurationError, match=r"execute command find\)") as refusal:
        MongoStore.from_config(server.config("nobody"))
    assert "$clusterTime" not in str(refusal.value)
