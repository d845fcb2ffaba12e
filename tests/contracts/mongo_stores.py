"""Stores on one MongoDB server, each empty at its beginning."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pymongo

from afl.clock import FakeClock, now_ms
from afl.db.mongo import Collection
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.schema import COLLECTIONS

Client = pymongo.MongoClient[dict[str, Any]]


@lru_cache
def client_of(url: str) -> Client:
    """One for all tests of a process: connecting takes longer than most of them."""
    client: Client = pymongo.MongoClient(url, appname="afl", w=1)
    atexit.register(client.close)
    return client


def emptied(url: str, collections: Sequence[Collection] = COLLECTIONS) -> str:
    """The same, without anything that others have left there."""
    database = client_of(url).get_default_database("afl")
    for each in collections:
        database[each.name].delete_many({})
    # Stores see what most members have: with this one, they have all before it.
    majority = database.with_options(write_concern=pymongo.WriteConcern("majority", j=True))
    majority["emptied"].update_one({"_id": 1}, {"$inc": {"times": 1}}, upsert=True)
    return url


def mongo_store(url: str, clock: FakeClock) -> MongoStore:
    """An empty one, on the time of a clock."""
    client = client_of(emptied(url))
    return MongoStore(client=client, clock=clock, told=lambda: now_ms(clock))
