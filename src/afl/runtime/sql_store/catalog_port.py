"""Locks, servers, handlers, logs and sources, as the port has them."""

from __future__ import annotations

from collections.abc import Sequence

from afl.db.sqlite import Reader, Transaction
from afl.runtime.asking.catalog import AskedCatalog
from afl.runtime.entities import (
    LockDefinition,
    LockMetaData,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.rows.codec import to_json
from afl.runtime.sql_store import catalog, locks
from afl.runtime.sql_store.access import Access
from afl.runtime.sql_store.catalog import LOGS, SERVERS, SOURCES
from afl.runtime.sql_store.runs import announce


class CatalogPort(AskedCatalog[Reader, Transaction], Access):
    _catalog = catalog

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

    def update_server_ping(self, server_id: str, ping_time: int) -> None:
        sql = "UPDATE server SET ping_time = ? WHERE uuid = ?"
        self._write(lambda tx: tx.execute(sql, (ping_time, server_id)))

    def get_all_servers(self) -> list[ServerDefinition]:
        return self._read(SERVERS.all, "ORDER BY seq")

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return self._read(SERVERS.all, "WHERE state = ? ORDER BY seq", state)

    def beat_server(self, server: ServerDefinition) -> str:
        return self._write(lambda tx: catalog.beat_server(tx, server, self.now_ms()))

    def prune_servers(self, keep_ms: int, limit: int = 100) -> int:
        return self._write(
            lambda tx: catalog.prune_servers(tx, self.now_ms() - keep_ms, max(limit, 0))
        )

    # Logs

    def save_log(self, log: LogDefinition) -> None:
        self._write(_save_log, log)

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


def _save_log(tx: Transaction, log: LogDefinition) -> None:
    LOGS.save(tx, log)
    announce(tx, (log.runner_id,))
