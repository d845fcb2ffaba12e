"""From whom a database is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.monitoring import CommandListener
from pymongo.read_preferences import ReadPreference

from afl.db.mongo import MongoDatabase, open_mongo

FAR = ReadPreference.SECONDARY_PREFERRED


class Questions(CommandListener):
    """What was asked, and from whom."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: Any) -> None:
        self.commands.append(dict(event.command))

    def succeeded(self, event: Any) -> None: ...

    def failed(self, event: Any) -> None: ...


@pytest.fixture
def questions() -> Questions:
    return Questions()


@pytest.fixture
def database(mongo_url: str, questions: Questions) -> Iterator[MongoDatabase]:
    """One of a client that would rather ask others than the primary."""
    with pymongo.MongoClient[dict[str, Any]](
        mongo_url, event_listeners=[questions], readPreference="secondaryPreferred"
    ) as client:
        assert client.read_preference == FAR
        opened = open_mongo("", "reading", client=client)
        yield opened
        opened.close()
        client.drop_database("reading")


def test_who_asks_asks_the_primary(database: MongoDatabase, questions: Questions) -> None:
    database.read(lambda reader: reader.save("shelf", {"_id": 1}, {"n": 1}, {}))
    database.read(lambda reader: reader.one("shelf", {"_id": 1}))
    database.read(lambda reader: reader.all("shelf", {}))
    database.read(lambda reader: reader.aggregate("shelf", [{"$match": {}}]))
    database.now_ms()
    assert {"update", "find", "aggregate", "hello"} <= {
        next(iter(each)) for each in questions.commands
    }
    assert [each for each in questions.commands if "$readPreference" in each] == []


def test_who_looks_at_one_moment_asks_the_primary(
    database: MongoDatabase, questions: Questions
) -> None:
    database.read(lambda reader: reader.save("shelf", {"_id": 1}, {"n": 1}, {}))
    questions.commands.clear()
    found = database.view(lambda reader: reader.one("shelf", {"_id": 1}))
    assert found == {"_id": 1, "n": 1}
    (asked,) = questions.commands
    assert asked["readConcern"]["level"] == "snapshot"
    assert "$readPreference" not in asked


def test_a_read_preference_in_the_url_does_not_count(mongo_url: str) -> None:
    """With one member there is nobody but the primary."""
    options = "readPreference=secondary&serverSelectionTimeoutMS=300"
    database = open_mongo(f"{mongo_url}/reading?{options}")
    assert database.read(lambda reader: reader.all("empty", {})) == []
    assert database.view(lambda reader: reader.all("empty", {})) == []
    database.close()
