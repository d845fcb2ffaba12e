"""The store for many machines on MongoDB.

Modules from the bottom: `schema` (collections and indexes), `documents` (records and how they are
kept), `times` (the clock of the server); `steps`, `tasks`, `queue`, `runs`, `pruning`, `flows`,
`locks`, `catalog`, `events` (questions and changes, on a reader or in a transaction that is given);
`holding`, `changes`, `view` and `along` (decisions); `access` and the ports on it; `config`;
`store`.
"""

from __future__ import annotations

from afl.runtime.mongo_store.config import MongoDBConfig
from afl.runtime.mongo_store.store import MongoStore

__all__ = ["MongoDBConfig", "MongoStore"]
