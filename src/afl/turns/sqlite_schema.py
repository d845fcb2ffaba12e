"""The tables of turns in a SQLite file, and how they came to be."""

from __future__ import annotations

from afl.db.migrations import Migration, history

COMPONENT = "turns"

_TABLES = (
    """\
CREATE TABLE turn (
    id TEXT PRIMARY KEY,
    loop TEXT NOT NULL,
    state TEXT NOT NULL,
    request TEXT NOT NULL,
    key TEXT,
    reply_to TEXT,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    barren INTEGER NOT NULL,
    owner TEXT NOT NULL,
    lease_ms INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    reason TEXT NOT NULL,
    due INTEGER,
    result TEXT,
    seq INTEGER NOT NULL,
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    ended INTEGER
) STRICT""",
    # What a loop may claim; what may be pruned; what people look at.
    "CREATE INDEX turn_due ON turn (loop, due) WHERE due IS NOT NULL",
    "CREATE INDEX turn_ended ON turn (ended) WHERE ended IS NOT NULL AND due IS NULL",
    "CREATE INDEX turn_created ON turn (created)",
    """\
CREATE TABLE turn_entry (
    turn_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    call_id TEXT NOT NULL,
    arguments TEXT NOT NULL,
    fence INTEGER NOT NULL,
    at INTEGER NOT NULL,
    value BLOB,
    digest TEXT,
    PRIMARY KEY (turn_id, seq)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX turn_entry_unknown ON turn_entry (at, turn_id, seq) WHERE kind = 'tool_unknown'",
    """\
CREATE TABLE turn_value (
    digest TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    uses INTEGER NOT NULL
) STRICT""",
    "CREATE TABLE turn_secret (id INTEGER PRIMARY KEY CHECK (id = 1), value BLOB NOT NULL) STRICT",
)

_STREAMS = (
    "ALTER TABLE turn ADD COLUMN streamed INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE turn ADD COLUMN saying TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE turn ADD COLUMN carrier TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE turn ADD COLUMN relieved TEXT NOT NULL DEFAULT ''",
    """\
CREATE TABLE turn_delta (
    turn_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    after INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    text TEXT,
    fence INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (turn_id, number)
) STRICT, WITHOUT ROWID""",
    """\
CREATE TABLE turn_taker (
    loop TEXT NOT NULL,
    owner TEXT NOT NULL,
    lease_ms INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (loop, owner)
) STRICT, WITHOUT ROWID""",
)

MIGRATIONS = history(
    Migration(1, "turns, their journals and values", _TABLES),
    Migration(2, "what models say meanwhile, and who takes turns", _STREAMS),
)
