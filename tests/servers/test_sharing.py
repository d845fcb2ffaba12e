"""What a process opens at one URL of PostgreSQL shares its connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from afl.bootstrap import open_store
from afl.ids import new_id
from afl.mailbox import open_mailbox
from afl.turns import NewTurn, open_idempotency, open_turns

_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
def name() -> str:
    """By which the server knows the connections of one test."""
    return f"afl {new_id()}"


@pytest.fixture
def url(postgres_url: str, name: str) -> Iterator[str]:
    schema = f"test_{new_id().replace('-', '')}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield (
            f"{postgres_url}?options=-csearch_path%3D{schema}"
            f"&application_name={name.replace(' ', '%20')}"
        )
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def _connections(url: str, name: str) -> int:
    with psycopg.connect(url, application_name="onlooker") as connection:
        [(count,)] = connection.execute(_CONNECTIONS, (name,))
        return int(count)


def _use_all(url: str, stack: ExitStack) -> list[Any]:
    """Each of them writes, so that each has needed a connection. One has the URL in another
    spelling."""
    store = stack.enter_context(closing(open_store(url.replace("postgresql:", "postgres:"))))
    turns = stack.enter_context(closing(open_turns(url)))
    mailbox = stack.enter_context(closing(open_mailbox(url, "requests")))
    keys = stack.enter_context(closing(open_idempotency(url)))
    store.acquire_lock("lock", 1000)
    turns.accept(NewTurn("support", b"{}", "one"))
    mailbox.send("hello")
    keys.begin("paid", "request")
    return [store, turns, mailbox, keys]


def test_store_turns_mailbox_and_keys_share_one_pool(
    url: str, name: str, postgres_url: str
) -> None:
    """One after the other they need one connection; four pools would keep four."""
    with ExitStack() as stack:
        _use_all(url, stack)
        assert _connections(postgres_url, name) == 1


def test_the_pool_stays_until_the_last_of_them_is_closed(
    url: str, name: str, postgres_url: str
) -> None:
    with ExitStack() as stack:
        opened = _use_all(url, stack)
        for each in opened[:-1]:
            each.close()
        assert _connections(postgres_url, name) == 1
        opened[-1].begin("paid again", "request")
