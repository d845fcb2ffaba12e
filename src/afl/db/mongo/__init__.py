"""MongoDB: one client for each URL and process, transactions, and announcements.

- `open_mongo(url)` gives the `MongoDatabase`; everybody in a process shares it.
- `Reader` asks; `Transaction` is all or nothing; `Writer` commits together what waits together.
- `prepare` makes collections and indexes, once for all processes.
- `MongoDatabase.bell` wakes whoever waits for news, in any process: it hears change streams.
"""

from __future__ import annotations

from afl.db.mongo.collections import Collection, Index, prepare, require_prepared
from afl.db.mongo.database import MongoDatabase, open_mongo
from afl.db.mongo.transaction import Document, Filter, Reader, Transaction
from afl.db.mongo.writer import Writer

__all__ = [
    "Collection",
    "Document",
    "Filter",
    "Index",
    "MongoDatabase",
    "Reader",
    "Transaction",
    "Writer",
    "open_mongo",
    "prepare",
    "require_prepared",
]
