"""Locks, servers, handlers, logs and sources, as the port has them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from afl.db.mongo import Reader, Transaction
from afl.runtime.asking.catalog import AskedCatalog
from afl.runtime.asking.topics import run_topic
from afl.runtime.entities import (
    LockDefinition,
    LockMetaData,
    LogDefinition,
    PublishedSource,
    ServerDefinition,
)
from afl.runtime.mongo_store import catalog, locks, schema
from afl.runtime.mongo_store.access import Access
from afl.runtime.mongo_store.catalog import LOGS, SERVERS, SOURCES
from afl.runtime.mongo_store.holding import Holding


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
        return self._change(locks.acquire, self._holder(key, owner), duration_ms, meta, self._now)

    def release_lock(self, key: str, *, owner: str | None = None) -> bool:
        return self._change(locks.release, self._holder(key, owner), self._now)

    def check_lock(self, key: str) -> LockDefinition | None:
        return self._read(locks.check, key, self._now)

    def extend_lock(self, key: str, duration_ms: int, *, owner: str | None = None) -> bool:
        return self._change(locks.extend, self._holder(key, owner), duration_ms, self._now)

    def get_all_locks(self) -> list[LockDefinition]:
        return self._read(locks.held, self._now)

    def _holder(self, key: str, owner: str | None) -> locks.Holder:
        return locks.Holder(key, owner or self.owner)

    # Fleet

    def save_server(self, server: ServerDefinition) -> None:
        self._save(SERVERS, server)

    def update_server_ping(self, server_id: str, ping_time: int) -> None:
        change = {"$set": {"ping_time": ping_time}}
        self._change(Reader.change_all, schema.SERVERS, {"_id": server_id}, change)

    def get_all_servers(self) -> list[ServerDefinition]:
        return self._read(SERVERS.all, {})

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return self._read(SERVERS.all, {"state": state})

    def beat_server(self, server: ServerDefinition) -> str:
        return self._write(catalog.beat_server, server)

    def prune_servers(self, keep_ms: int, limit: int = 100) -> int:
        return self._write(catalog.prune_servers, keep_ms, limit)

    # Logs

    def save_log(self, log: LogDefinition) -> None:
        self._write(_save_log, log)

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        order = (("order", 1), ("seq", 1))
        return self._read(partial(LOGS.all, where={"runner_id": runner_id}, sort=order))

    # Sources

    def save_published_source(self, source: PublishedSource) -> None:
        self._save(SOURCES, source, key=("namespace_name", "version"))

    def get_source_by_namespace(self, name: str, version: str = "latest") -> PublishedSource | None:
        return self._read(SOURCES.one, {"namespace_name": name, "version": version})

    def get_sources_by_namespaces(
        self, names: Sequence[str], version: str = "latest"
    ) -> dict[str, PublishedSource]:
        where = {"namespace_name": {"$in": list(names)}, "version": version}
        return {each.namespace_name: each for each in self._read(SOURCES.all, where)}

    def delete_published_source(self, name: str, version: str = "latest") -> bool:
        where = {"namespace_name": name, "version": version}
        return self._change(Reader.remove, schema.SOURCES, where) > 0

    def list_published_sources(self) -> list[PublishedSource]:
        return self._read(SOURCES.all, {})


def _save_log(tx: Transaction, log: LogDefinition) -> None:
    holding = Holding(tx)
    holding.hold([log.runner_id])
    catalog.save_all(tx, LOGS, [log], lambda each: holding.next_number(each.runner_id))
    tx.announce(run_topic(log.runner_id))
