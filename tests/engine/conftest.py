"""Stores under a clock that is told, the ledger, and how hard the tests of this folder search.

`AFL_TEST_PROFILE=storm` searches everything, and for long.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.mongo_stores import mongo_store
from tests.contracts.postgres_stores import postgres_store
from tests.engine.lab import Lab
from tests.engine.ledger import Ledger, LedgerProcess
from tests.engine.profile import IS_STORM

from afl.clock import FakeClock
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.sql_store import SqliteStore


@pytest.fixture(scope="session")
def ledger_port() -> Iterator[int]:
    with LedgerProcess() as process:
        yield process.port


@pytest.fixture
def ledger(ledger_port: int) -> Iterator[Ledger]:
    client = Ledger(ledger_port)
    yield client
    client.close()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with Lab() as started:
        yield started


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets beside a file, which pytest's own folders are not."""
    path = Path(tempfile.mkdtemp(prefix="afl-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "postgres", "mongo"])
def any_store(
    request: pytest.FixtureRequest, folder: Path, clock: FakeClock
) -> Iterator[PersistenceAPI]:
    store: PersistenceAPI
    if request.param == "memory":
        store = MemoryStore(clock)
    elif request.param == "sqlite":
        store = SqliteStore(folder / "afl.db", clock=clock)
    elif request.param == "postgres":
        store = postgres_store(request.getfixturevalue("postgres_url"), clock)
    else:
        store = mongo_store(request.getfixturevalue("mongo_url"), clock)
    yield store
    store.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mine = [each for each in items if each.path.is_relative_to(Path(__file__).parent)]
    if IS_STORM:
        for item in mine:
            item.add_marker(pytest.mark.timeout(3600))
        return
    slow = _too_slow([each for each in mine if "[mongo" in each.name])
    left_out = set(slow)
    items[:] = [each for each in items if each not in left_out]
    config.hook.pytest_deselected(items=slow)


def _too_slow(items: list[pytest.Item]) -> list[pytest.Item]:
    """What takes minutes on MongoDB, and is for the storm: searching through many examples; and of
    tests that are made for each program, all but some."""
    families: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for each in items:
        families[each.name.partition("[")[0]].append(each)
    few = [each for family in families.values() for each in family[:: len(family) // 6 + 1]]
    return [each for each in items if each not in few or _is_search(each)]


def _is_search(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
