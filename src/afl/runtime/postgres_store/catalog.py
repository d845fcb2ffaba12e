"""Records that are kept by their key and little else: events, logs, servers, handlers, sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.db.postgres import Reader, Transaction
from afl.runtime.asking import topics
from afl.runtime.entities import (
    EventDefinition,
    HandlerRegistration,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.registered import beaten, judged, reported
from afl.runtime.rows.table import PERCENT, Table

EVENTS = Table("afl_event", EventDefinition, key=("id",), mark=PERCENT)
LOGS = Table("afl_log", LogDefinition, mark=PERCENT)
SERVERS = Table("afl_server", ServerDefinition, mark=PERCENT)
HANDLERS = Table("afl_handler", HandlerRegistration, key=("facet_name",), mark=PERCENT)
SOURCES = Table("afl_source", PublishedSource, key=("namespace_name", "version"), mark=PERCENT)

# Servers

_PRUNE_SERVERS = """\
DELETE FROM afl_server WHERE seq = ANY (ARRAY (
    SELECT seq FROM afl_server WHERE ping_time < %s
    ORDER BY ping_time LIMIT %s FOR UPDATE SKIP LOCKED
))"""


def server(reader: Reader, server_id: str) -> ServerDefinition | None:
    return SERVERS.one(reader, "WHERE uuid = %s", server_id)


def beat_server(tx: Transaction, told: ServerDefinition) -> str:
    standing = beaten(_server_alone(tx, told.uuid), told, tx.now)
    SERVERS.save(tx, standing)
    return standing.wanted


def ask_server(tx: Transaction, server_id: str, wanted: str) -> bool:
    tx.announce(topics.server_topic(server_id))
    return tx.execute("UPDATE afl_server SET wanted = %s WHERE uuid = %s", (wanted, server_id)) > 0


def report_incident(tx: Transaction, server_id: str, incident: Mapping[str, Any]) -> bool:
    ended = reported(_server_alone(tx, server_id), incident)
    if ended is None:
        return False
    SERVERS.save(tx, ended)
    return True


def prune_servers(tx: Transaction, keep_ms: int, limit: int) -> int:
    # All are looked through: there are few, because this removes them. Not one that just beats.
    return tx.execute(_PRUNE_SERVERS, (tx.now - keep_ms, max(limit, 0)))


def _server_alone(tx: Transaction, server_id: str) -> ServerDefinition | None:
    return SERVERS.one(tx, "WHERE uuid = %s FOR UPDATE", server_id)


# Handlers


def handler(reader: Reader, facet_name: str) -> HandlerRegistration | None:
    return HANDLERS.one(reader, "WHERE facet_name = %s", facet_name)


def handlers(reader: Reader) -> list[HandlerRegistration]:
    return HANDLERS.all(reader, "ORDER BY seq")


def handlers_version(reader: Reader) -> int:
    row = reader.query_one("SELECT version FROM afl_handler_version")
    return 0 if row is None else int(row[0])


def save_handler(tx: Transaction, registration: HandlerRegistration) -> None:
    _announce_handlers(tx)
    HANDLERS.save(tx, registration)


def delete_handler(tx: Transaction, facet_name: str) -> bool:
    if not tx.execute("DELETE FROM afl_handler WHERE facet_name = %s", (facet_name,)):
        return False
    _announce_handlers(tx)
    return True


def set_load_error(
    tx: Transaction, registration: HandlerRegistration, error: Mapping[str, Any] | None
) -> bool:
    name = registration.facet_name
    stored = HANDLERS.one(tx, "WHERE facet_name = %s FOR UPDATE", name)
    changed = judged(stored, registration, error)
    if changed is None:
        return False
    HANDLERS.save(tx, changed)
    return True


def _announce_handlers(tx: Transaction) -> None:
    # Its one row is locked from here to the end of the transaction.
    tx.execute("UPDATE afl_handler_version SET version = version + 1")
    tx.announce(topics.HANDLERS)
