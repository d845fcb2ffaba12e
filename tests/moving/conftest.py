"""Empty databases of each kind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pymongo
import pytest

from afl.ids import new_id

#: Gives the URL of a database that is empty.
NewPlace = Callable[[str], str]


@pytest.fixture
def folder() -> Iterator[Path]:
    # Short enough for sockets beside a file, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new_place(folder: Path, request: pytest.FixtureRequest) -> Iterator[NewPlace]:
    made: list[tuple[str, str]] = []

    def new(kind: str) -> str:
        name = f"afl_{new_id().replace('-', '')[:12]}"
        if kind == "sqlite":
            return f"sqlite:///{folder / name}.db"
        server = request.getfixturevalue(f"{kind}_url")
        if kind == "postgres":
            run_sql(server, f"CREATE DATABASE {name}")
        made.append((server, name))
        return f"{server.rpartition('/')[0] if kind == 'postgres' else server}/{name}"

    yield new
    for server, name in made:
        if server.startswith("postgresql:"):
            run_sql(server, f"DROP DATABASE {name} WITH (FORCE)")
        else:
            with pymongo.MongoClient[dict[str, object]](server) as client:
                client.drop_database(name)


def run_sql(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            connection.execute(each)
