"""A database of its own for each test, and ways to catch its writer at work."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from afl.db.sqlite import Database

PATIENCE_S = 20.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets beside the file, which pytest's own folders are not."""
    path = Path(tempfile.mkdtemp(prefix="afl-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    # So long an interval that whoever is woken was woken by an announcement.
    with Database(folder / "afl.db", poll_interval_s=3600) as opened:
        opened.write(lambda tx: tx.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, text)"))
        yield opened


@contextmanager
def _writer_held(database: Database) -> Iterator[None]:
    """Keep the writer busy, so that what is submitted meanwhile waits together."""
    has_begun, may_end = threading.Event(), threading.Event()

    def hold(_transaction: object) -> None:
        has_begun.set()
        assert may_end.wait(PATIENCE_S)

    future = database.submit(hold)
    try:
        assert has_begun.wait(PATIENCE_S)
        yield
    finally:
        may_end.set()
        future.result(PATIENCE_S)


@pytest.fixture
def writer_held() -> Callable[[Database], AbstractContextManager[None]]:
    return _writer_held


@pytest.fixture
def look(database: Database) -> Callable[[str], list[Any]]:
    """Ask the file through a connection of nobody's, as another process would."""

    def ask(sql: str) -> list[Any]:
        with closing(sqlite3.connect(database.path, timeout=0)) as connection:
            return [row[0] for row in connection.execute(sql)]

    return ask


@pytest.fixture
def items(look: Callable[[str], list[Any]]) -> Callable[[], list[Any]]:
    """The ids that anybody can see."""
    return lambda: look("SELECT id FROM item ORDER BY id")


@pytest.fixture
def start() -> Iterator[Callable[..., threading.Thread]]:
    """Run a function on a thread that the test waits for in the end."""
    threads = []

    def run(fn: Callable[..., object], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=fn, args=arguments)
        threads.append(thread)
        thread.start()
        return thread

    yield run
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
