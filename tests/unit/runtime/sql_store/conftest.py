"""A store of its own for each test, on a clock that is told."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.clock import FakeClock
from afl.runtime.sql_store import SqliteStore


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets beside the file, which pytest's own folders are not."""
    path = Path(tempfile.mkdtemp(prefix="afl-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "afl.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(path: Path, clock: FakeClock) -> Iterator[SqliteStore]:
    # So long an interval that whoever is woken was woken by an announcement.
    with SqliteStore(path, clock=clock, poll_interval_s=3600) as opened:
        yield opened
