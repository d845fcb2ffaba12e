"""Locks, servers, handlers, logs and sources, as the port has them."""

from __future__ import annotations

from collections.abc import Sequence

from afl.db.postgres import Reader, Transaction
from afl.runtime.asking.catalog import AskedCatalog
from afl.runtime.entities import (
    LockDefinition,
    LockMetaData,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.postgres_store import catalog, locks
from afl.runtime.postgres_store.access import Access
from afl.runtime.postgres_store.catalog import LOGS, SERVERS, SOURCES
from afl.runtime.postgres_store.holding import Holding
from afl.runtime.postgres_store.runs import announce


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
        return self._write(locks.acquire, self._holder(key, owner), duration_ms, meta)

    def release_lock(self, key: str, *, owner: str | None = None) -> bool:
        return self._write(locks.release, self._holder(key, owner))

    def check_lock(self, key: str) -> LockDefinition | None:
        return self._read(locks.check, key, self._told())

    def extend_lock(self, key: str, duration_ms: int, *, owner: str | None = None) -> bool:
        return self._write(locks.extend, self._holder(key, owner), duration_ms)

    def get_all_locks(self) -> list[LockDefinition]:
        return self._read(locks.held, self._told())

    def _holder(self, key: str, owner: str | None) -> locks.Holder:
        return locks.Holder(key, owner or self.owner)

    # Fleet

    def save_server(self, server: ServerDefinition) -> None:
        self._write(SERVERS.save, server)

    def update_server_ping(self, server_id: str, ping_time: int) -> None:
        sql = "UPDATE afl_server SET ping_time = %s WHERE uuid = %s"
        self._write(lambda tx: tx.execute(sql, (ping_time, server_id)))

    def get_all_servers(self) -> list[ServerDefinition]:
        return self._read(SERVERS.all, "ORDER BY seq")

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return self._read(SERVERS.all, "WHERE state = %s ORDER BY seq", state)

    def beat_server(self, server: ServerDefinition) -> str:
        return self._write(catalog.beat_server, server)

    def prune_servers(self, keep_ms: int, limit: int = 100) -> int:
        return self._write(catalog.prune_servers, keep_ms, limit)

    # Logs

    def save_log(self, log: LogDefinition) -> None:
        self._write(_save_log, log)

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        return self._read(LOGS.all, 'WHERE runner_id = %s ORDER BY "order", seq', runner_id)

    # Sources

    def save_published_source(self, source: PublishedSource) -> None:
        self._write(SOURCES.save, source)

    def get_source_by_namespace(self, name: str, version: str = "latest") -> PublishedSource | None:
        return self._read(SOURCES.one, "WHERE namespace_name = %s AND version = %s", name, version)

    def get_sources_by_namespaces(
        self, names: Sequence[str], version: str = "latest"
    ) -> dict[str, PublishedSource]:
        condition = "WHERE namespace_name = ANY (%s::text[]) AND version = %s"
        found = self._read(SOURCES.all, condition, list(names), version)
        return {each.namespace_name: each for each in found}

    def delete_published_source(self, name: str, version: str = "latest") -> bool:
        sql = "DELETE FROM afl_source WHERE namespace_name = %s AND version = %s"
        return self._write(lambda tx: tx.execute(sql, (name, version))) > 0

    def list_published_sources(self) -> list[PublishedSource]:
        return self._read(SOURCES.all, "ORDER BY seq")


def _save_log(tx: Transaction, log: LogDefinition) -> None:
    Holding(tx).hold([log.runner_id])
    LOGS.save(tx, log)
    announce(tx, (log.runner_id,))
