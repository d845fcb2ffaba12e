"""The tables of turns in PostgreSQL, and how they came to be.

Rows of turns are changed often: their pages have room for the new versions.
"""

from __future__ import annotations

from afl.db.migrations import Migration, history

COMPONENT = "turns"

_TABLES = (
    """\
CREATE TABLE afl_turn (
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    id text PRIMARY KEY,
    loop text NOT NULL,
    state text NOT NULL,
    request text NOT NULL,
    key text,
    reply_to text,
    fence bigint NOT NULL,
    attempt bigint NOT NULL,
    barren bigint NOT NULL,
    owner text NOT NULL,
    lease_ms bigint NOT NULL,
    lease_until bigint NOT NULL,
    reason text NOT NULL,
    due bigint,
    result text,
    seq bigint NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL,
    ended bigint,
    streamed bigint NOT NULL,
    saying text NOT NULL,
    carrier text NOT NULL,
    relieved text NOT NULL
) WITH (fillfactor = 70)""",
    # What a loop may claim: by its time; and, if the clock was set back, by the beginning of its
    # lease. What may be pruned; what people look at.
    "CREATE INDEX afl_turn_due ON afl_turn (loop, due, created) WHERE due IS NOT NULL",
    """\
CREATE INDEX afl_turn_begun ON afl_turn (loop, (due - lease_ms))
WHERE due IS NOT NULL AND state = 'running'""",
    "CREATE INDEX afl_turn_ended ON afl_turn (ended) WHERE ended IS NOT NULL AND due IS NULL",
    "CREATE INDEX afl_turn_created ON afl_turn (created, number)",
    """\
CREATE TABLE afl_turn_entry (
    turn_id text NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    call_id text NOT NULL,
    arguments text NOT NULL,
    fence bigint NOT NULL,
    at bigint NOT NULL,
    value bytea,
    digest text,
    PRIMARY KEY (turn_id, seq)
)""",
    """\
CREATE INDEX afl_turn_entry_unknown ON afl_turn_entry (at, turn_id, seq)
WHERE kind = 'tool_unknown'""",
    """\
CREATE TABLE afl_turn_delta (
    turn_id text NOT NULL,
    number bigint NOT NULL,
    after bigint NOT NULL,
    call_id text NOT NULL,
    text text,
    fence bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (turn_id, number)
)""",
    """\
CREATE TABLE afl_turn_value (
    digest text PRIMARY KEY,
    value bytea NOT NULL,
    uses bigint NOT NULL
) WITH (fillfactor = 90)""",
    """\
CREATE TABLE afl_turn_taker (
    loop text NOT NULL,
    owner text NOT NULL,
    lease_ms bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (loop, owner)
) WITH (fillfactor = 70)""",
    "CREATE TABLE afl_turn_secret (id integer PRIMARY KEY CHECK (id = 1), value bytea NOT NULL)",
)

_LISTS = (
    # Found by their beginnings, so in the order of their characters, whatever the language of the
    # database is.
    'ALTER TABLE afl_turn ALTER COLUMN id TYPE text COLLATE "C"',
)

MIGRATIONS = history(
    Migration(1, "turns, their journals, deltas, values and takers", _TABLES),
    Migration(2, "turns by the beginnings of their ids", _LISTS),
)
