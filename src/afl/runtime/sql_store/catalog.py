"""Records that are kept by their key and little else: events, logs, servers, handlers, sources."""

from __future__ import annotations

from afl.db.sqlite import Transaction
from afl.runtime.entities import (
    EventDefinition,
    HandlerRegistration,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.names import require_unambiguous
from afl.runtime.sql_store.rows import Table

EVENTS = Table("event", EventDefinition, key=("id",))
LOGS = Table("log", LogDefinition)
SERVERS = Table("server", ServerDefinition)
HANDLERS = Table("handler", HandlerRegistration, key=("facet_name",))
SOURCES = Table("source", PublishedSource, key=("namespace_name", "version"))


def save_handler(tx: Transaction, registration: HandlerRegistration) -> None:
    others = [name for (name,) in tx.query_all("SELECT facet_name FROM handler")]
    require_unambiguous(registration.facet_name, others)
    HANDLERS.save(tx, registration)
