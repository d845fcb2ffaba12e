"""What has tables or collections of its own: component → the module that says how they came to be,
with MIGRATIONS, or VERSION and COLLECTIONS; for each kind of database."""

from __future__ import annotations

SQLITE = {
    "engine": "afl.runtime.sql_store.schema",
    "mailbox": "afl.mailbox.sqlite_schema",
    "turns": "afl.turns.sqlite_schema",
    "idempotency": "afl.turns.idempotency.sqlite",
    "evals": "afl.evals.sqlite_results",
}
POSTGRES = {
    "engine": "afl.runtime.postgres_store.schema",
    "mailbox": "afl.mailbox.postgres",
    "turns": "afl.turns.postgres_schema",
    "idempotency": "afl.turns.idempotency.postgres",
    "evals": "afl.evals.postgres_results",
}
MONGO = {
    "engine": "afl.runtime.mongo_store.schema",
    "turns": "afl.turns.mongo_schema",
}
