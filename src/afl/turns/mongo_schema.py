"""The collections of turns in MongoDB and their indexes.

Entries and deltas have their turn and their place in it as `_id`: a journal is one range of the
index that every collection has. What is None in a record is not in its document, and so in no index
that asks for it. Values are bytes; names of users are never names of fields.
"""

from __future__ import annotations

from typing import Any

from afl.db.mongo import Collection, Index

COMPONENT = "turns"
VERSION = 1

TURNS, ENTRIES, DELTAS = "turns", "turn_entries", "turn_deltas"
VALUES, TAKERS, SECRETS = "turn_values", "turn_takers", "turn_secrets"

_DUE: dict[str, Any] = {"due": {"$exists": True}}

COLLECTIONS = (
    Collection(
        TURNS,
        (
            # What a loop may claim: by its time; and, if the clock was set back, by the beginning
            # of its lease.
            Index("due", ("loop", "due", "created"), where=_DUE),
            Index("begun", ("loop", "begun"), where={"begun": {"$exists": True}}),
            # What may be pruned; what people look at.
            Index("ended", ("ended",), where={"ended": {"$exists": True}}),
            Index("created", ("created", "number")),
        ),
    ),
    Collection(
        ENTRIES,
        (Index("unknown", ("kind", "at", "_id"), where={"kind": "tool_unknown"}),),
    ),
    Collection(DELTAS),
    Collection(VALUES),
    Collection(TAKERS, (Index("loop", ("loop",)),)),
    Collection(SECRETS),
)
