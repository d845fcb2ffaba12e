"""Places for stores: files of SQLite, or databases of a server, made by the hundred."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pymongo
from psycopg.errors import ObjectInUse
from tests.engine.opening import open_at as open_at

from afl.clock import SYSTEM_CLOCK
from afl.db.mongo import Collection
from afl.ids import new_id
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.schema import COLLECTIONS
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sql_store import SqliteStore

Store = SqliteStore | PostgresStore | MongoStore
#: Opens a store at a place, which makes what it needs there.
Prepare = Callable[[str], Any]

_PATIENCE_S = 20.0


class Places(Protocol):
    def new(self) -> str:
        """An empty one."""

    def copy(self, place: str) -> str:
        """Another one with the same in it. Nobody has it open."""

    def remove(self, place: str) -> None: ...


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> str:
        return str(self._folder / f"{new_id()[-8:]}.db")

    def copy(self, place: str) -> str:
        made = self.new()
        for old, new in zip(_files(place), _files(made), strict=True):
            if old.exists():
                shutil.copy(old, new)
        return made

    def remove(self, place: str) -> None:
        for each in _files(place):
            each.unlink(missing_ok=True)


def _files(place: str) -> Iterator[Path]:
    """A database that nobody has open: the file and its log."""
    return (Path(place + end) for end in ("", "-wal", "-shm"))


class Databases:
    """Of one server. The first one has the tables, and is copied for all others."""

    def __init__(self, url: str, prepare: Prepare = PostgresStore) -> None:
        self._url = url
        self._made: list[str] = []
        self._template = self._create("template0")
        prepare(self._template).close()

    def new(self) -> str:
        return self.copy(self._template)

    def copy(self, place: str) -> str:
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._create(_name(place))
            except ObjectInUse:
                # The server has not noticed yet that its client was killed.
                assert SYSTEM_CLOCK.monotonic() < deadline
                SYSTEM_CLOCK.sleep(0.01)

    def remove(self, place: str) -> None:
        self._made.remove(place)
        self._run(f"DROP DATABASE {_name(place)} WITH (FORCE)")

    def close(self) -> None:
        for each in list(self._made):
            self.remove(each)

    def _create(self, template: str) -> str:
        name = f"afl_{new_id().replace('-', '')[:12]}"
        # By copying files: a small one is done much sooner than by writing all of it to the log.
        self._run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        self._made.append(f"{self._url.rpartition('/')[0]}/{name}")
        return self._made[-1]

    def _run(self, sql: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql)


def _name(place: str) -> str:
    return place.rpartition("/")[2]


class MongoDatabases:
    """Of one server. Making collections and indexes takes long: what is removed is used again."""

    def __init__(
        self,
        url: str,
        prepare: Prepare = MongoStore,
        collections: Sequence[Collection] = COLLECTIONS,
    ) -> None:
        self._url = url
        self._prepare = prepare
        self._collections = collections
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
        self._free: list[str] = []

    def new(self) -> str:
        if self._free:
            return self._free.pop()
        place = f"{self._url}/afl_{new_id()[-8:]}"
        self._prepare(place).close()
        return place

    def copy(self, place: str) -> str:
        made = self.new()
        source, target = (self._client[_name(each)] for each in (place, made))
        for each in self._collections:
            if documents := list(source[each.name].find()):
                target[each.name].insert_many(documents)
        return made

    def remove(self, place: str) -> None:
        for each in self._collections:
            self._client[_name(place)][each.name].delete_many({})
        self._free.append(place)

    def close(self) -> None:
        for each in self._free:
            self._client.drop_database(_name(each))
        self._client.close()
