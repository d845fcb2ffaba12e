"""The tables of mailboxes in a SQLite file, and how they came to be."""

from __future__ import annotations

from afl.db.migrations import Migration, history

COMPONENT = "mailbox"

_MESSAGES = (
    # seq is the place in the queue. hidden_until is 0 for what can be taken; hidden_ms is for how
    # long it was hidden, so that a clock that was set back hides nothing for longer than that.
    """\
CREATE TABLE mailbox_message (
    seq INTEGER PRIMARY KEY,
    box TEXT NOT NULL,
    id TEXT NOT NULL,
    reply_to TEXT,
    enqueued_ms INTEGER NOT NULL,
    first_taken_ms INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    hidden_until INTEGER NOT NULL,
    hidden_ms INTEGER NOT NULL,
    payload BLOB NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX mailbox_message_id ON mailbox_message (box, id)",
    # What can be taken, in its order; and what is hidden, by the time when it is so no more.
    "CREATE INDEX mailbox_message_queue ON mailbox_message (box, hidden_until, seq)",
)
_LETTERS = (
    """\
CREATE TABLE mailbox_letter (
    seq INTEGER PRIMARY KEY,
    box TEXT NOT NULL,
    id TEXT NOT NULL,
    reply_to TEXT,
    enqueued_ms INTEGER NOT NULL,
    first_taken_ms INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    buried_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    error_type TEXT,
    payload BLOB NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX mailbox_letter_id ON mailbox_letter (box, id)",
)

MIGRATIONS = history(Migration(1, "messages and dead letters", _MESSAGES + _LETTERS))
