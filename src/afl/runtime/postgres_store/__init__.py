"""The store for many machines: tables in PostgreSQL.

Modules from the bottom: `refusals` (values that cannot be kept), `schema` (tables), `holding` (what
a transaction has locked); `steps`, `tasks`, `queue`, `runs`, `pruning`, `flows`, `locks`,
`catalog`, `events` (questions and changes, in a transaction that is given); `changes` and `view`
(decisions); `access` and the ports on it; `store`.
"""

from __future__ import annotations

from afl.runtime.postgres_store.store import PostgresStore

__all__ = ["PostgresStore"]
