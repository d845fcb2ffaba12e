"""Stores under a clock that is told, the ledger, and how hard the tests of this folder search.

`AFL_TEST_PROFILE=storm` searches everything, and for long.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
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


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_store(
    request: pytest.FixtureRequest, folder: Path, clock: FakeClock
) -> Iterator[PersistenceAPI]:
    store: PersistenceAPI
    if request.param == "memory":
        store = MemoryStore(clock)
    elif request.param == "sqlite":
        store = SqliteStore(folder / "afl.db", clock=clock)
    else:
        store = postgres_store(request.getfixturevalue("postgres_url"), clock)
    yield store
    store.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not IS_STORM:
        return
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(3600))
