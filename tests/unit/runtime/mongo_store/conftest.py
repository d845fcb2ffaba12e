"""A store of its own for each test, and others on the same database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.contracts.mongo_stores import emptied

from afl.runtime.mongo_store import MongoStore

Opened = Callable[[], MongoStore]


@pytest.fixture
def url(mongo_url: str) -> str:
    return emptied(mongo_url)


@pytest.fixture
def opened(url: str) -> Iterator[Opened]:
    """Open another one; each has a writer of its own, as each process has."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(MongoStore(url))


@pytest.fixture
def store(opened: Opened) -> MongoStore:
    return opened()
