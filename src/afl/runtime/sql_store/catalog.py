"""Records that are kept by their key and little else: events, logs, servers, handlers, sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.db.sqlite import Reader, Transaction
from afl.runtime.asking import topics
from afl.runtime.entities import (
    EventDefinition,
    HandlerRegistration,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.registered import beaten, judged, reported
from afl.runtime.rows.table import Table

EVENTS = Table("event", EventDefinition, key=("id",))
LOGS = Table("log", LogDefinition)
SERVERS = Table("server", ServerDefinition)
HANDLERS = Table("handler", HandlerRegistration, key=("facet_name",))
SOURCES = Table("source", PublishedSource, key=("namespace_name", "version"))

# Servers


def server(reader: Reader, server_id: str) -> ServerDefinition | None:
    return SERVERS.one(reader, "WHERE uuid = ?", server_id)


def beat_server(tx: Transaction, told: ServerDefinition, now: int) -> str:
    standing = beaten(server(tx, told.uuid), told, now)
    SERVERS.save(tx, standing)
    return standing.wanted


def ask_server(tx: Transaction, server_id: str, wanted: str) -> bool:
    tx.announce(topics.server_topic(server_id))
    return tx.execute("UPDATE server SET wanted = ? WHERE uuid = ?", (wanted, server_id)) > 0


def report_incident(tx: Transaction, server_id: str, incident: Mapping[str, Any]) -> bool:
    ended = reported(server(tx, server_id), incident)
    if ended is None:
        return False
    SERVERS.save(tx, ended)
    return True


def prune_servers(tx: Transaction, heard_before: int, limit: int) -> int:
    # All are looked through: there are few, because this removes them.
    old = "SELECT seq FROM server WHERE ping_time < ? ORDER BY ping_time LIMIT ?"
    return tx.execute(f"DELETE FROM server WHERE seq IN ({old})", (heard_before, limit))  # noqa: S608


# Handlers


def handler(reader: Reader, facet_name: str) -> HandlerRegistration | None:
    return HANDLERS.one(reader, "WHERE facet_name = ?", facet_name)


def handlers(reader: Reader) -> list[HandlerRegistration]:
    return HANDLERS.all(reader, "ORDER BY seq")


def handlers_version(reader: Reader) -> int:
    row = reader.query_one("SELECT version FROM handler_version")
    return 0 if row is None else int(row[0])


def save_handler(tx: Transaction, registration: HandlerRegistration) -> None:
    HANDLERS.save(tx, registration)
    _announce_handlers(tx)


def delete_handler(tx: Transaction, facet_name: str) -> bool:
    if not tx.execute("DELETE FROM handler WHERE facet_name = ?", (facet_name,)):
        return False
    _announce_handlers(tx)
    return True


def set_load_error(
    tx: Transaction, registration: HandlerRegistration, error: Mapping[str, Any] | None
) -> bool:
    changed = judged(handler(tx, registration.facet_name), registration, error)
    if changed is None:
        return False
    HANDLERS.save(tx, changed)
    return True


def _announce_handlers(tx: Transaction) -> None:
    tx.execute("UPDATE handler_version SET version = version + 1")
    tx.announce(topics.HANDLERS)
