"""Records that are kept by their key and little else: events, logs, servers, handlers, sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from afl.db.mongo import Reader, Transaction
from afl.runtime.asking import topics
from afl.runtime.entities import (
    EventDefinition,
    HandlerRegistration,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.mongo_store import schema
from afl.runtime.mongo_store.documents import Documents
from afl.runtime.registered import beaten, judged, reported

EVENTS = Documents(schema.EVENTS, EventDefinition, key="id")
LOGS = Documents(schema.LOGS, LogDefinition)
SERVERS = Documents(schema.SERVERS, ServerDefinition)
HANDLERS = Documents(schema.HANDLERS, HandlerRegistration, key="facet_name")
SOURCES = Documents(schema.SOURCES, PublishedSource, key=None)

R = TypeVar("R")

#: Counts how often a registration was saved or removed.
_VERSION = {"_id": "handlers"}
_TOUCH = {"$inc": {"touched": 1}}


# Servers


def server(reader: Reader, server_id: str) -> ServerDefinition | None:
    return SERVERS.one(reader, {"_id": server_id})


def beat_server(tx: Transaction, told: ServerDefinition) -> str:
    standing = beaten(_server_alone(tx, told.uuid), told, tx.now)
    _save_server(tx, standing)
    return standing.wanted


def ask_server(tx: Transaction, server_id: str, wanted: str) -> bool:
    stored = _server_alone(tx, server_id)
    if stored is None:
        return False
    tx.announce(topics.server_topic(server_id))
    _save_server(tx, replace(stored, wanted=wanted))
    return True


def report_incident(tx: Transaction, server_id: str, incident: Mapping[str, Any]) -> bool:
    ended = reported(_server_alone(tx, server_id), incident)
    if ended is None:
        return False
    _save_server(tx, ended)
    return True


def _server_alone(tx: Transaction, server_id: str) -> ServerDefinition | None:
    found = tx.change(schema.SERVERS, {"_id": server_id}, _TOUCH)
    return None if found is None else SERVERS.record(found)


def _save_server(tx: Transaction, server: ServerDefinition) -> None:
    save_all(tx, SERVERS, [server])


# Handlers


def handler(reader: Reader, facet_name: str) -> HandlerRegistration | None:
    return HANDLERS.one(reader, {"_id": facet_name})


def handlers(reader: Reader) -> list[HandlerRegistration]:
    return HANDLERS.all(reader, {})


def handlers_version(reader: Reader) -> int:
    found = reader.one(schema.GUARDS, _VERSION)
    return 0 if found is None else int(found["n"])


def save_handler(tx: Transaction, registration: HandlerRegistration) -> None:
    _count_handlers(tx)
    save_all(tx, HANDLERS, [registration])


def delete_handler(tx: Transaction, facet_name: str) -> bool:
    if not tx.remove(schema.HANDLERS, {"_id": facet_name}):
        return False
    _count_handlers(tx)
    return True


def set_load_error(
    tx: Transaction, registration: HandlerRegistration, error: Mapping[str, Any] | None
) -> bool:
    stored = tx.change(schema.HANDLERS, {"_id": registration.facet_name}, _TOUCH)
    changed = judged(None if stored is None else HANDLERS.record(stored), registration, error)
    if changed is None:
        return False
    save_all(tx, HANDLERS, [changed])
    return True


def _count_handlers(tx: Transaction) -> None:
    """One more change; nobody else makes one before this is committed."""
    tx.announce(topics.HANDLERS)
    tx.update(schema.GUARDS, [(_VERSION, {"$inc": {"n": 1}})], upsert=True)
    tx.flush()


def prune_servers(tx: Transaction, keep_ms: int, limit: int) -> int:
    """All are looked through: there are few, because this removes them."""
    if limit <= 0:
        return 0
    where = {"ping_time": {"$lt": tx.now - keep_ms}}
    found = tx.all(schema.SERVERS, where, sort=(("ping_time", 1),), fields={"_id": 1}, limit=limit)
    tx.write()
    return tx.remove(schema.SERVERS, {"_id": {"$in": [each["_id"] for each in found]}})


def save_all(
    tx: Transaction,
    kind: Documents[R],
    records: Iterable[R],
    number: Callable[[R], int] | None = None,
) -> None:
    """Insert or replace; one that is replaced keeps its place, which `number` gives to new ones."""
    changes = []
    for each in records:
        fields = kind.document(each)
        place = tx.next_number() if number is None else number(each)
        change = {"$set": fields, "$setOnInsert": {"seq": place}}
        changes.append(({"_id": fields.pop("_id")}, change))
    tx.update(kind.collection, changes, upsert=True)
