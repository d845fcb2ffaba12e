"""A store of its own for each test, and others on the same database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.contracts.postgres_stores import emptied

from afl.runtime.postgres_store import PostgresStore

Opened = Callable[[], PostgresStore]


@pytest.fixture
def url(postgres_url: str) -> str:
    return emptied(postgres_url)


@pytest.fixture
def opened(url: str) -> Iterator[Opened]:
    """Open another one; each has a writer of its own, as each process has."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(PostgresStore(url))


@pytest.fixture
def store(opened: Opened) -> PostgresStore:
    return opened()
