"""Locks, servers, handlers, logs and sources, as the port has them."""

from __future__ import annotations

from collections.abc import Sequence

from afl.runtime.entities import (
    HandlerRegistration,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.sql_store import catalog, locks
from afl.runtime.sql_store.access import Access
from afl.runtime.sql_store.catalog import HANDLERS, LOGS, SERVERS, SOURCES
from afl.runtime.sql_store.codec import to_json


class CatalogPort(Access):
    def acquire_lock(
        self,
        key: str,
        duration_ms: int,
        meta: LockMetaData | None = None,
        *,
        owner: str | None = None,
    ) -> bool:
        return self._write(
            lambda tx: locks.acquire(tx, self._holder(key, owner), duration_ms, meta)
        )

    def release_lock(self, key: str, *, owner: str | None = None) -> bool:
        return self._write(lambda tx: locks.release(tx, self._holder(key, owner)))

    def check_lock(self, key: str) -> LockDefinition | None:
        return self._read(locks.check, key, self.now_ms())

    def extend_lock(self, key: str, duration_ms: int, *, owner: str | None = None) -> bool:
        return self._write(lambda tx: locks.extend(tx, self._holder(key, owner), duration_ms))

    def get_all_locks(self) -> list[LockDefinition]:
        return self._read(locks.held, self.now_ms())

    def _holder(self, key: str, owner: str | None) -> locks.Holder:
        return locks.Holder(key, owner or self.owner, self.now_ms())

    # Fleet

    def save_server(self, server: ServerDefinition) -> None:
        self._write(SERVERS.save, server)

    def get_server(self, server_id: str) -> ServerDefinition | None:
        return self._read(SERVERS.one, "WHERE uuid = ?", server_id)

    def update_server_ping(self, server_id: str, ping_time: int) -> None:
        sql = "UPDATE server SET ping_time = ? WHERE uuid = ?"
        self._write(lambda tx: tx.execute(sql, (ping_time, server_id)))

    def get_all_servers(self) -> list[ServerDefinition]:
        return self._read(SERVERS.all, "ORDER BY seq")

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return self._read(SERVERS.all, "WHERE state = ? ORDER BY seq", state)

    # Handlers

    def save_handler_registration(self, registration: HandlerRegistration) -> None:
        self._write(catalog.save_handler, registration)

    def get_handler_registration(self, facet_name: str) -> HandlerRegistration | None:
        return self._read(HANDLERS.one, "WHERE facet_name = ?", facet_name)

    def list_handler_registrations(self) -> list[HandlerRegistration]:
        return self._read(HANDLERS.all, "ORDER BY seq")

    def delete_handler_registration(self, facet_name: str) -> bool:
        sql = "DELETE FROM handler WHERE facet_name = ?"
        return self._write(lambda tx: tx.execute(sql, (facet_name,))) > 0

    # Logs

    def save_log(self, log: LogDefinition) -> None:
        self._write(LOGS.save, log)

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        return self._read(LOGS.all, 'WHERE runner_id = ? ORDER BY "order", seq', runner_id)

    # Sources

    def save_published_source(self, source: PublishedSource) -> None:
        self._write(SOURCES.save, source)

    def get_source_by_namespace(self, name: str, version: str = "latest") -> PublishedSource | None:
        return self._read(SOURCES.one, "WHERE namespace_name = ? AND version = ?", name, version)

    def get_sources_by_namespaces(
        self, names: Sequence[str], version: str = "latest"
    ) -> dict[str, PublishedSource]:
        condition = "WHERE namespace_name IN (SELECT value FROM json_each(?)) AND version = ?"
        found = self._read(SOURCES.all, condition, to_json(names), version)
        return {each.namespace_name: each for each in found}

    def delete_published_source(self, name: str, version: str = "latest") -> bool:
        sql = "DELETE FROM source WHERE namespace_name = ? AND version = ?"
        return self._write(lambda tx: tx.execute(sql, (name, version))) > 0

    def list_published_sources(self) -> list[PublishedSource]:
        return self._read(SOURCES.all, "ORDER BY seq")
