# ruff: noqa: S608 - statements are made of constants
"""One transaction on turns in PostgreSQL.

- Whoever changes a turn holds its row. The time is told by the statement that has got hold of it,
  not before: who compares an old time with a lease that was given meanwhile would believe that the
  clock was set back, and take the lease away.
- What is written is sent at the end, in one round trip. Values come last and in the order of their
  hashes, so that two who use the same ones wait for each other, and not each for the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from afl.db.beginnings import bounds
from afl.db.postgres import Reader, Transaction
from afl.db.postgres.transaction import SERVER_TIME
from afl.turns.api import Delta, Size, TurnRecord, TurnState
from afl.turns.rows import (
    DELTA_FIELDS,
    LINE_FIELDS,
    TURN_FIELDS,
    Row,
    delta_row,
    line_of_row,
    line_row,
    turn_of,
    turn_row,
)
from afl.turns.shelf import Line, Taker


def _insert(table: str, names: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"


def _held(question: str) -> str:
    """What a question finds and locks; with the time at which it was locked."""
    return f"""\
WITH held AS MATERIALIZED (
{question}
)
SELECT {_COLUMNS}, {SERVER_TIME} FROM held"""


_COLUMNS = ", ".join(TURN_FIELDS)
_TURN = f"SELECT {_COLUMNS} FROM afl_turn"
_BY_IDS = f"{_TURN} WHERE id = ANY (%(ids)s::text[])"
_HOLD = _held(f"{_BY_IDS} ORDER BY id FOR UPDATE")
_INSERT = _insert("afl_turn", TURN_FIELDS)
_UPDATE = f"""\
UPDATE afl_turn SET {", ".join(f"{each} = %s" for each in TURN_FIELDS[1:])} WHERE id = %s"""

#: What seems to be due at the time of the question. Each part is one range of an index.
_NOW = "(SELECT now FROM clock)"
_CANDIDATES = f"""\
WITH clock AS MATERIALIZED (SELECT {SERVER_TIME} AS now),
candidates AS MATERIALIZED (
    (
        SELECT id FROM afl_turn WHERE loop = %(loop)s AND due IS NOT NULL AND due <= {_NOW}
        ORDER BY due, created LIMIT %(most)s
    )
    UNION ALL
    (
        SELECT id FROM afl_turn
        WHERE loop = %(loop)s AND due IS NOT NULL AND state = 'running' AND due - lease_ms > {_NOW}
        ORDER BY due - lease_ms LIMIT %(most)s
    )
)"""
_DUE = f"""\
{_CANDIDATES}
{_TURN} WHERE id = ANY (ARRAY (SELECT id FROM candidates)) ORDER BY due, created LIMIT %(limit)s"""
#: Compared again with the time at which it is locked: others may have claimed it meanwhile, after
#: the time of the first question.
_HOLD_DUE = f"""\
{_CANDIDATES},
held AS MATERIALIZED (
    SELECT * FROM afl_turn
    WHERE id = ANY (ARRAY (SELECT id FROM candidates)) AND due IS NOT NULL
    AND (due <= {SERVER_TIME} OR (state = 'running' AND due - lease_ms > {SERVER_TIME}))
    ORDER BY due, created LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
SELECT {_COLUMNS}, {SERVER_TIME} FROM held"""
_NEXT_DUE = "SELECT min(due) FROM afl_turn WHERE loop = %s AND due IS NOT NULL"
_FITS = """\
(%(loop)s::text IS NULL OR loop = %(loop)s) AND (%(state)s::text IS NULL OR state = %(state)s)"""
_NEWEST_FIRST = "ORDER BY created DESC, number DESC LIMIT %(limit)s"
_LISTED = f"{_TURN} WHERE {_FITS} {_NEWEST_FIRST}"
_LISTED_BEFORE = f"""\
{_TURN} WHERE (created, number) < (SELECT created, number FROM afl_turn WHERE id = %(before)s)
AND {_FITS} {_NEWEST_FIRST}"""
_IDS = "SELECT id FROM afl_turn WHERE id >= %s AND id < %s ORDER BY id LIMIT %s"
_OVER = f"""\
{_TURN} WHERE ended IS NOT NULL AND due IS NULL AND ended < %(before)s
ORDER BY ended LIMIT %(limit)s"""
_HOLD_OVER = _held(f"{_OVER} FOR UPDATE SKIP LOCKED")

_LINE = f"SELECT {', '.join(LINE_FIELDS)} FROM afl_turn_entry"
_LINES = f"{_LINE} WHERE turn_id = %s AND seq > %s ORDER BY seq LIMIT %s::bigint"
_UNKNOWN = f"{_LINE} WHERE kind = 'tool_unknown' ORDER BY at, turn_id, seq"
_LARGE = """\
SELECT digest FROM afl_turn_entry WHERE turn_id = ANY (%s::text[]) AND digest IS NOT NULL"""
_WRITE = _insert("afl_turn_entry", LINE_FIELDS)
_DELTAS = f"""\
SELECT {", ".join(DELTA_FIELDS)} FROM afl_turn_delta
WHERE turn_id = %s AND number > %s AND after >= %s ORDER BY number LIMIT %s::bigint"""
_STREAM = _insert("afl_turn_delta", DELTA_FIELDS)

_VALUE = "SELECT value FROM afl_turn_value WHERE digest = %s"
#: Counts who needs a value: looking for them all when one goes would take a scan.
_KEEP = """\
INSERT INTO afl_turn_value AS kept (digest, value, uses) VALUES (%s, %s, %s)
ON CONFLICT (digest) DO UPDATE SET uses = kept.uses + excluded.uses"""
_LET_GO = "UPDATE afl_turn_value SET uses = uses - %s WHERE digest = %s"
_DROP_UNUSED = "DELETE FROM afl_turn_value WHERE digest = ANY (%s::text[]) AND uses <= 0"
_DROPS = (
    "DELETE FROM afl_turn_entry WHERE turn_id = ANY (%s::text[])",
    "DELETE FROM afl_turn_delta WHERE turn_id = ANY (%s::text[])",
    "DELETE FROM afl_turn WHERE id = ANY (%s::text[])",
)

_TAKERS = f"""\
SELECT loop, owner, lease_ms, until, {SERVER_TIME} FROM afl_turn_taker WHERE loop = %(loop)s
ORDER BY owner"""
_KEEP_TAKER = """\
INSERT INTO afl_turn_taker (loop, owner, lease_ms, until) VALUES (%s, %s, %s, %s)
ON CONFLICT (loop, owner) DO UPDATE SET lease_ms = excluded.lease_ms, until = excluded.until"""
_DROP_TAKER = "DELETE FROM afl_turn_taker WHERE loop = %s AND owner = %s AND until = %s"

_SIZE = """\
SELECT
    (SELECT count(*) FROM afl_turn),
    (SELECT count(*) FROM afl_turn_entry),
    (SELECT count(*) FROM afl_turn_value),
    (SELECT coalesce(sum(octet_length(value)), 0)::bigint FROM afl_turn_entry)
        + (SELECT coalesce(sum(octet_length(text)), 0)::bigint FROM afl_turn_delta)
        + (SELECT coalesce(sum(octet_length(value)), 0)::bigint FROM afl_turn_value)"""
_SECRET = "SELECT value FROM afl_turn_secret"  # noqa: S105 - a question
_KEEP_SECRET = "INSERT INTO afl_turn_secret VALUES (1, %s) ON CONFLICT DO NOTHING"  # noqa: S105

NOW = f"SELECT {SERVER_TIME}"


class PostgresShelf:
    """A transaction, or with a reader that is none a look, which holds nothing. `told` is the time
    of tests."""

    def __init__(self, reader: Reader, told: int | None) -> None:
        self._reader = reader
        self._tx = reader if isinstance(reader, Transaction) else None
        self._told = told
        self._now = 0 if self._tx is None else self._tx.now
        #: Turns that are there.
        self._known: set[str] = set()
        self._kept: Counter[str] = Counter()
        self._values: dict[str, bytes] = {}

    @property
    def _writing(self) -> Transaction:
        assert self._tx is not None, "who only looks writes nothing"
        return self._tx

    def now_ms(self) -> int:
        if self._tx is None:
            ((self._now,),) = self._reader.query_all(NOW, {"told": self._told})
        return self._now

    def turn(self, turn_id: str) -> TurnRecord | None:
        return next(iter(self.turns([turn_id])), None)

    def turns(self, turn_ids: Collection[str]) -> Sequence[TurnRecord]:
        return self._found(_HOLD, _BY_IDS, ids=list(turn_ids))

    def _found(self, hold: str, look: str, **facts: Any) -> list[TurnRecord]:
        facts["told"] = self._told
        if self._tx is None:
            return list(map(turn_of, self._reader.query_all(look, facts)))
        rows = self._reader.query_all(hold, facts)
        self._heard(rows)
        turns = [turn_of(row[:-1]) for row in rows]
        self._known.update(each.id for each in turns)
        return turns

    def _heard(self, rows: Iterable[Row]) -> None:
        """The last column is the time."""
        self._now = max((self._now, *(int(row[-1]) for row in rows)))

    def save(self, turn: TurnRecord) -> None:
        row = turn_row(turn)
        if turn.id in self._known:
            self._writing.put(_UPDATE, [[*row[1:], turn.id]])
        else:
            # Not in the place of one that came meanwhile: then this one is in its way, and who
            # saves it looks again.
            self._writing.put(_INSERT, [row])
            self._known.add(turn.id)

    def write(self, lines: Sequence[Line]) -> None:
        if lines:
            self._writing.put(_WRITE, map(line_row, lines))

    def lines(self, turn_id: str, after: int, limit: int | None = None) -> Sequence[Line]:
        return list(map(line_of_row, self._reader.query_all(_LINES, (turn_id, after, limit))))

    def stream(self, deltas: Sequence[Delta]) -> None:
        self._writing.put(_STREAM, map(delta_row, deltas))

    def deltas(
        self, turn_id: str, after: int, number: int, limit: int | None = None
    ) -> Sequence[Delta]:
        facts = (turn_id, number, after, limit)
        return [Delta(*row) for row in self._reader.query_all(_DELTAS, facts)]

    def keep(self, value: bytes, key: str) -> None:
        self._kept[key] += 1
        self._values[key] = value

    def value(self, key: str) -> bytes | None:
        row = self._reader.query_one(_VALUE, (key,))
        return None if row is None else bytes(row[0])

    def due(self, loop: str, limit: int) -> Sequence[TurnRecord]:
        # More than is wanted: of those some may be on their way to others.
        limits = {"limit": limit, "most": 2 * limit + 32}
        return self._found(_HOLD_DUE, _DUE, loop=loop, **limits)

    def next_due(self, loop: str) -> int | None:
        row = self._reader.query_one(_NEXT_DUE, (loop,))
        return None if row is None else row[0]

    def listed(
        self, loop: str | None, state: TurnState | None, limit: int, before: str | None
    ) -> Sequence[TurnRecord]:
        facts = {"loop": loop, "state": state, "limit": limit}
        if before is None:
            return list(map(turn_of, self._reader.query_all(_LISTED, facts)))
        facts["before"] = before
        return list(map(turn_of, self._reader.query_all(_LISTED_BEFORE, facts)))

    def ids(self, prefix: str, limit: int) -> Sequence[str]:
        rows = self._reader.query_all(_IDS, (*bounds(prefix), limit))
        return [found for (found,) in rows]

    def unknown(self) -> Sequence[Line]:
        return list(map(line_of_row, self._reader.query_all(_UNKNOWN)))

    def over(self, ended_before: int, limit: int) -> Sequence[TurnRecord]:
        return self._found(_HOLD_OVER, _OVER, before=ended_before, limit=limit)

    def drop(self, turns: Sequence[TurnRecord]) -> None:
        ids = [each.id for each in turns]
        uses = Counter(digest for (digest,) in self._reader.query_all(_LARGE, (ids,)))
        uses.update(each.request for each in turns)
        uses.update(each.result for each in turns if each.result is not None)
        for each in _DROPS:
            self._writing.put(each, [(ids,)])
        if uses:
            self._writing.put(_LET_GO, [(uses[each], each) for each in sorted(uses)])
            self._writing.put(_DROP_UNUSED, [(sorted(uses),)])

    def takers(self, loop: str) -> Sequence[Taker]:
        if self._tx is not None:
            # Nobody else comes or goes meanwhile.
            self._tx.lock(f"turn takers of {loop}")
        rows = self._reader.query_all(_TAKERS, {"loop": loop, "told": self._told})
        self._heard(rows)
        return [Taker(*row[:-1]) for row in rows]

    def keep_taker(self, taker: Taker) -> None:
        facts = (taker.loop, taker.owner, taker.lease_ms, taker.until)
        self._writing.put(_KEEP_TAKER, [facts])

    def drop_takers(self, takers: Sequence[Taker]) -> None:
        if takers:
            rows = [(each.loop, each.owner, each.until) for each in takers]
            self._writing.put(_DROP_TAKER, rows)

    def size(self) -> Size:
        return Size(*(self._reader.query_one(_SIZE) or (0, 0, 0, 0)))

    def secret(self) -> bytes | None:
        row = self._reader.query_one(_SECRET)
        return None if row is None else bytes(row[0])

    def keep_secret(self, fresh: bytes) -> None:
        self._writing.execute(_KEEP_SECRET, (fresh,))

    def announce(self, topic: str) -> None:
        self._writing.announce(topic)

    def settle(self) -> None:
        """Send what was written."""
        if self._kept:
            rows = [(each, self._values[each], self._kept[each]) for each in sorted(self._kept)]
            self._writing.put(_KEEP, rows)
        self._writing.flush()
