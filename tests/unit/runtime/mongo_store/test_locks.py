"""Locks by the clock of the server, whose commands know only when they began."""

from __future__ import annotations

from typing import Any

import pymongo
from tests.contracts.mongo_stores import client_of
from tests.unit.runtime.mongo_store.conftest import Opened

from afl.clock import SYSTEM_CLOCK
from afl.runtime.mongo_store.schema import LOCKS
from afl.testing.contracts.store.exam import Background

PATIENCE_S = 20.0


def test_who_began_earlier_does_not_take_a_lock_for_one_from_the_future(
    url: str, opened: Opened
) -> None:
    """It waits for the document, and finds in it a time that is later than its own."""
    store, client = opened(), client_of(url)
    locks = client["afl"][LOCKS]
    assert store.acquire_lock("key", 1, owner="before")
    with client.start_session() as session, session.start_transaction():
        locks.update_one({"_id": "key"}, {"$set": {"owner": "them"}}, session=session)
        asked = Background(lambda: store.acquire_lock("key", 60_000, owner="us"), PATIENCE_S)
        _wait_until_held_up(client)
        until = {"$add": [{"$toLong": "$$NOW"}, 60_000]}
        change: list[dict[str, Any]] = [{"$set": {"expires_at": until, "length_ms": 60_000}}]
        locks.update_one({"_id": "key"}, change, session=session)
    assert asked.answer() is False
    lock = store.check_lock("key")
    assert lock is not None
    assert lock.owner == "them"


def test_the_holder_gets_its_lock_though_it_is_extended_meanwhile(url: str, opened: Opened) -> None:
    store, client = opened(), client_of(url)
    assert store.acquire_lock("key", 60_000, owner="us")
    with client.start_session() as session, session.start_transaction():
        longer = {"$inc": {"expires_at": 10_000, "length_ms": 10_000}}
        client["afl"][LOCKS].update_one({"_id": "key"}, longer, session=session)
        asked = Background(lambda: store.acquire_lock("key", 60_000, owner="us"), PATIENCE_S)
        _wait_until_held_up(client)
    assert asked.answer() is True


def _wait_until_held_up(client: pymongo.MongoClient[Any]) -> None:
    """Until somebody wants to change a lock."""
    wanted = {"$match": {"command.findAndModify": LOCKS}}
    while not list(client.admin.aggregate([{"$currentOp": {}}, wanted])):
        SYSTEM_CLOCK.sleep(0.005)
