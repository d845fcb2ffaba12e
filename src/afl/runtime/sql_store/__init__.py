"""The default store: one SQLite file.

Modules from the bottom: `refusals` (values that cannot be kept), `schema`
(tables); `steps`, `tasks`, `queue`, `runs`, `pruning`, `flows`, `locks`, `catalog` (questions and
changes, in a transaction that is given); `changes` and `view` (decisions); `access` and the ports
on it; `store`.
"""

from __future__ import annotations

from afl.runtime.sql_store.store import SqliteStore

__all__ = ["SqliteStore"]
