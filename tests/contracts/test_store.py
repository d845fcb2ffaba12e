"""Every store keeps every promise of the port."""

from __future__ import annotations

import inspect
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.clock import FakeClock
from afl.runtime import persistence
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.testing.contracts.store import StoreContract


def memory_store(_folder: Path, clock: FakeClock) -> PersistenceAPI:
    return MemoryStore(clock)


def sqlite_store(folder: Path, clock: FakeClock) -> PersistenceAPI:
    from afl.runtime.sql_store import SqliteStore

    return SqliteStore(folder / "afl.db", clock=clock)


STORES = [memory_store, sqlite_store]

PORTS = [each for each in PersistenceAPI.__mro__ if each.__module__ == persistence.__name__]
METHODS = sorted(
    {
        name
        for port in PORTS
        for name, each in vars(port).items()
        if inspect.isfunction(each) and not name.startswith("_")
    }
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets beside a file, which pytest's own folders are not."""
    path = Path(tempfile.mkdtemp(prefix="afl-"))
    yield path
    shutil.rmtree(path)


class TestStores(StoreContract):
    @pytest.fixture(params=STORES, ids=["memory", "sqlite"])
    def store(
        self, request: pytest.FixtureRequest, folder: Path, clock: FakeClock
    ) -> Iterator[PersistenceAPI]:
        made: PersistenceAPI = request.param(folder, clock)
        yield made
        made.close()

    def test_a_store_has_all_parts_of_the_port(self, store: PersistenceAPI) -> None:
        assert isinstance(store, PersistenceAPI)

    @pytest.mark.parametrize("name", METHODS)
    def test_a_method_takes_what_the_port_says(self, store: PersistenceAPI, name: str) -> None:
        assert parameters(type(store), name) == parameters(PersistenceAPI, name)


def parameters(kind: type, name: str) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(getattr(kind, name)).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]
