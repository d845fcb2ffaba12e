# ruff: noqa: S608 - statements are made of constants
"""What happens to the messages of a box in a SQLite file, as SQL.

Each function is one step inside a transaction; `now` is the time of the store.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from afl.db.sqlite import Reader, Transaction
from afl.mailbox.box import Burial, Buried, Delivery, Depth, Entry, Handle, Waiting

_PUT = """\
INSERT INTO mailbox_message (
    box, id, reply_to, enqueued_ms, first_taken_ms, deliveries, fence, hidden_until, hidden_ms,
    payload
)
SELECT :box, :id, :reply_to, :now, 0, 0, 0, 0, 0, :payload
WHERE NOT EXISTS (SELECT 1 FROM mailbox_letter WHERE box = :box AND id = :id)
ON CONFLICT (box, id) DO NOTHING"""
_KNOWN = """\
SELECT EXISTS (SELECT 1 FROM mailbox_message WHERE box = :box AND id = :id)
    OR EXISTS (SELECT 1 FROM mailbox_letter WHERE box = :box AND id = :id)"""
_COUNT = "SELECT count(*) FROM mailbox_message WHERE box = ?"

_RIPEN = """\
UPDATE mailbox_message SET hidden_until = 0, hidden_ms = 0
WHERE box = :box AND hidden_until > 0 AND hidden_until <= :now"""
#: After the clock was set back: it looks at all that is hidden.
_RIPEN_ALL = """\
UPDATE mailbox_message SET hidden_until = 0, hidden_ms = 0
WHERE box = :box AND hidden_until > 0
AND (hidden_until <= :now OR hidden_until - hidden_ms > :now)"""
_TAKE = """\
UPDATE mailbox_message SET
    first_taken_ms = iif(deliveries = 0, :now, first_taken_ms),
    deliveries = deliveries + 1,
    fence = fence + 1,
    hidden_until = :now + :lease,
    hidden_ms = :lease
WHERE seq IN (
    SELECT seq FROM mailbox_message WHERE box = :box AND hidden_until = 0
    ORDER BY seq LIMIT :limit
)
RETURNING seq, id, fence, payload, reply_to, enqueued_ms, first_taken_ms, deliveries"""

_HELD = "WHERE box = :box AND id = :id AND fence = :fence"
_FINISH = f"DELETE FROM mailbox_message {_HELD}"
_GIVE_BACK = f"""\
UPDATE mailbox_message SET
    fence = fence + 1,
    deliveries = deliveries - :uncounted,
    hidden_until = iif(:delay > 0, :now + :delay, 0),
    hidden_ms = :delay
{_HELD}"""
_LONGER = """\
iif(hidden_until - hidden_ms > :now, :now + :lease, max(hidden_until, :now + :lease))"""
_EXTEND = f"""\
UPDATE mailbox_message SET hidden_until = {_LONGER}, hidden_ms = {_LONGER} - :now
{_HELD}"""

_BURY = f"""\
INSERT INTO mailbox_letter (
    box, id, reply_to, enqueued_ms, first_taken_ms, deliveries, fence, buried_ms, reason,
    error_type, payload
)
SELECT box, id, reply_to, enqueued_ms, first_taken_ms, deliveries, fence + 1, :now, :reason,
    :error_type, payload
FROM mailbox_message {_HELD}"""
_BURIED = """\
SELECT id, payload, reply_to, enqueued_ms, first_taken_ms, deliveries, buried_ms, reason,
    error_type
FROM mailbox_letter WHERE box = ? ORDER BY seq LIMIT ?"""
_CHOSEN = """\
WHERE box = :box AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))"""
_REVIVE = f"""\
INSERT INTO mailbox_message (
    box, id, reply_to, enqueued_ms, first_taken_ms, deliveries, fence, hidden_until, hidden_ms,
    payload
)
SELECT box, id, reply_to, enqueued_ms, 0, 0, fence, 0, 0, payload
FROM mailbox_letter {_CHOSEN} ORDER BY seq"""
_DISCARD = f"DELETE FROM mailbox_letter {_CHOSEN}"

_HIDDEN_MS = """\
iif(hidden_until > :now AND hidden_until - hidden_ms <= :now, hidden_until - :now, 0)"""
_PEEK = f"""\
SELECT id, payload, reply_to, enqueued_ms, deliveries, {_HIDDEN_MS}
FROM mailbox_message WHERE box = :box ORDER BY seq LIMIT :limit"""
_DEPTH = """\
SELECT
    (SELECT count(*) FROM mailbox_message WHERE box = :box),
    (SELECT count(*) FROM mailbox_message
        WHERE box = :box AND hidden_until > :now AND hidden_until - hidden_ms <= :now),
    (SELECT count(*) FROM mailbox_letter WHERE box = :box)"""
_PURGE = "DELETE FROM mailbox_message WHERE box = ?"

_IS_READY = "SELECT 1 FROM mailbox_message WHERE box = ? AND hidden_until = 0 LIMIT 1"
_NEXT_TIME = "SELECT min(hidden_until) FROM mailbox_message WHERE box = ? AND hidden_until > 0"
_NAMES = "SELECT box FROM mailbox_message UNION SELECT box FROM mailbox_letter ORDER BY box"


def put(tx: Transaction, box: str, entry: Entry[bytes], capacity: int | None, now: int) -> bool:
    facts = {"box": box, "id": entry.id}
    if capacity is not None and _count(tx, box) >= capacity:
        row = tx.query_one(_KNOWN, facts)
        return row is not None and bool(row[0])
    tx.execute(_PUT, {**facts, "reply_to": entry.reply_to, "payload": entry.payload, "now": now})
    return True


def _count(reader: Reader, box: str) -> int:
    row = reader.query_one(_COUNT, (box,))
    return 0 if row is None else int(row[0])


def ripen(tx: Transaction, box: str, now: int, *, is_set_back: bool) -> None:
    """What is hidden no more can be taken, in its place."""
    tx.execute(_RIPEN_ALL if is_set_back else _RIPEN, {"box": box, "now": now})


def take(tx: Transaction, box: str, limit: int, lease_ms: int, now: int) -> list[Delivery[bytes]]:
    facts = {"box": box, "limit": limit, "lease": lease_ms, "now": now}
    # SQLite returns rows in any order.
    return [Delivery(*row[1:]) for row in sorted(tx.query_all(_TAKE, facts))]


def finish(tx: Transaction, box: str, handle: Handle) -> bool:
    return tx.execute(_FINISH, _held(box, handle)) == 1


def give_back(
    tx: Transaction, box: str, handle: Handle, delay_ms: int, is_counted: bool, now: int
) -> bool:
    facts = {"delay": delay_ms, "uncounted": int(not is_counted), "now": now}
    return tx.execute(_GIVE_BACK, _held(box, handle) | facts) == 1


def extend(tx: Transaction, box: str, handle: Handle, lease_ms: int, now: int) -> bool:
    return tx.execute(_EXTEND, _held(box, handle) | {"lease": lease_ms, "now": now}) == 1


def _held(box: str, handle: Handle) -> dict[str, object]:
    return {"box": box, "id": handle.id, "fence": handle.fence}


# Dead letters


def bury(tx: Transaction, box: str, handle: Handle, burial: Burial, now: int) -> bool:
    held = _held(box, handle)
    facts = {"reason": burial.reason, "error_type": burial.error_type, "now": now}
    return tx.execute(_BURY, held | facts) == 1 and tx.execute(_FINISH, held) == 1


def buried(reader: Reader, box: str, limit: int) -> list[Buried[bytes]]:
    rows = reader.query_all(_BURIED, (box, max(limit, 0)))
    return [_letter(*row) for row in rows]


def _letter(
    id_: str,
    payload: bytes,
    reply_to: str | None,
    enqueued_ms: int,
    first_taken_ms: int,
    deliveries: int,
    buried_ms: int,
    *why: Any,
) -> Buried[bytes]:
    facts = (id_, payload, reply_to, enqueued_ms, first_taken_ms, deliveries, buried_ms)
    return Buried(*facts, Burial(*why))


def revive(tx: Transaction, box: str, ids: Sequence[str] | None) -> int:
    chosen = _chosen(box, ids)
    tx.execute(_REVIVE, chosen)
    return tx.execute(_DISCARD, chosen)


def discard_buried(tx: Transaction, box: str, ids: Sequence[str] | None) -> int:
    return tx.execute(_DISCARD, _chosen(box, ids))


def _chosen(box: str, ids: Sequence[str] | None) -> dict[str, object]:
    return {"box": box, "ids": None if ids is None else json.dumps(list(ids))}


# Looking


def peek(reader: Reader, box: str, limit: int, now: int) -> list[Waiting[bytes]]:
    rows = reader.query_all(_PEEK, {"box": box, "limit": max(limit, 0), "now": now})
    return [Waiting(*row) for row in rows]


def depth(reader: Reader, box: str, now: int) -> Depth:
    row = reader.query_one(_DEPTH, {"box": box, "now": now})
    total, hidden, letters = row or (0, 0, 0)
    return Depth(total - hidden, hidden, letters)


def purge(tx: Transaction, box: str) -> int:
    return tx.execute(_PURGE, (box,))


def ms_left(reader: Reader, box: str, now: int) -> int | None:
    """Until something can be taken without anybody's doing; None: never."""
    if reader.query_one(_IS_READY, (box,)) is not None:
        return 0
    row = reader.query_one(_NEXT_TIME, (box,))
    return None if row is None or row[0] is None else row[0] - now


def names(reader: Reader) -> list[str]:
    return [name for (name,) in reader.query_all(_NAMES)]
