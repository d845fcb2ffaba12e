"""Where a MongoDB is, given in single fields."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pymongo
import pytest

from afl.errors import ConfigurationError
from afl.runtime.mongo_store import MongoDBConfig, MongoStore


def test_by_itself_it_is_the_usual_database_of_this_machine() -> None:
    config = MongoDBConfig()
    assert config.connection_string() == "mongodb://localhost:27017"
    assert (config.username, config.password) == ("", "")
    assert (config.auth_source, config.database) == ("admin", "afl")
    assert config == MongoDBConfig("mongodb://localhost:27017", "", "", "admin", "afl")


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("mongodb://h:1", None),
        ("mongodb://h:1/shop", "shop"),
        ("mongodb://h:1/?retryWrites=false", None),
        ("mongodb://h:1/shop?retryWrites=false", "shop"),
        ("mongodb://h:1,i:2", None),
    ],
)
def test_user_and_password_become_part_of_the_url(url: str, database: str | None) -> None:
    config = MongoDBConfig(url, "me@home", "p:/?#% +ö", "people")
    read = pymongo.uri_parser.parse_uri(config.connection_string())
    assert (read["username"], read["password"]) == ("me@home", "p:/?#% +ö")
    assert read["options"]["authSource"] == "people"
    assert read["options"].get("retryWrites", False) is False
    assert read["database"] == database
    assert read["nodelist"][0] == ("h", 1)


def test_a_user_may_have_no_password() -> None:
    config = MongoDBConfig("mongodb://h", "me")
    assert config.connection_string() == "mongodb://me@h/?authSource=admin"


def test_where_the_user_was_made_may_be_in_the_url() -> None:
    config = MongoDBConfig("mongodb://h/?authSource=people", "me", "x")
    assert config.connection_string() == "mongodb://me:x@h/?authSource=people"


def test_two_users_are_one_too_many() -> None:
    config = MongoDBConfig("mongodb://you:cret@h", "me", "hunter2")
    with pytest.raises(ConfigurationError, match="leave one of them out") as refusal:
        config.connection_string()
    assert "cret" not in str(refusal.value)


def test_passwords_are_not_shown() -> None:
    shown = repr(MongoDBConfig("mongodb://you:cret@h", "me", "hunter2"))
    assert "cret" not in shown
    assert "hunter2" not in shown


def test_it_does_not_change() -> None:
    config = MongoDBConfig()
    with pytest.raises(FrozenInstanceError):
        config.database = "other"  # type: ignore[misc]


def test_it_opens_a_store(url: str) -> None:
    with MongoStore.from_config(MongoDBConfig(url, database="shop"), owner="me") as store:
        assert store.database.name == "shop"
        store.database.client.drop_database("shop")
