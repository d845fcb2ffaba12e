"""Stores to run on, and a model service to ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.runtime import MemoryStore, PersistenceAPI, SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PersistenceAPI]:
    made: PersistenceAPI
    if request.param == "memory":
        made = MemoryStore()
    else:
        made = SqliteStore(f"sqlite:///{tmp_path / 'afl.db'}")
    yield made
    made.close()
