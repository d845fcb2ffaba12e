# ruff: noqa: S608 - statements are made of constants
"""Turns in a SQLite file: durable, and shared by all processes of a machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar, cast

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.beginnings import bounds
from afl.db.migrations import migrate
from afl.db.refusals import not_text
from afl.db.sqlite import Reader, Transaction, open_database
from afl.db.wake import Bell
from afl.errors import StoreClosed
from afl.turns.api import Delta, Size, TurnRecord, TurnState
from afl.turns.rows import (
    DELTA_FIELDS,
    LINE_FIELDS,
    TURN_FIELDS,
    Row,
    changed_fields,
    delta_row,
    line_of_row,
    line_row,
    turn_of,
    turn_row,
)
from afl.turns.shelf import Line, Shelf, Taker
from afl.turns.sqlite_schema import COMPONENT, MIGRATIONS
from afl.turns.stored import StoredTurns

T = TypeVar("T")

DEFAULT_ADDRESS = "sqlite:///./afl.db"

_COLUMNS = ", ".join(TURN_FIELDS)
_TURN = f"SELECT {_COLUMNS} FROM turn"
_BY_ID = f"{_TURN} WHERE id = ?"
_CHANGED = ", ".join(f"{each} = excluded.{each}" for each in TURN_FIELDS[1:])
_SAVE = f"""\
INSERT INTO turn ({_COLUMNS}) VALUES ({", ".join("?" * len(TURN_FIELDS))})
ON CONFLICT (id) DO UPDATE SET {_CHANGED}"""
#: What a statement sets, SQLite writes, also into indexes, whether it has changed or not.
_UPDATE = "UPDATE turn SET {} = ? WHERE id = ?"
_LINE = f"SELECT {', '.join(LINE_FIELDS)} FROM turn_entry"
_LINES = f"{_LINE} WHERE turn_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_DELTAS = f"""\
SELECT {", ".join(DELTA_FIELDS)} FROM turn_delta
WHERE turn_id = ? AND number > ? AND after >= ? ORDER BY number LIMIT ?"""
_STREAM = f"""\
INSERT INTO turn_delta ({", ".join(DELTA_FIELDS)})
VALUES ({", ".join("?" * len(DELTA_FIELDS))})"""
_TAKERS = "SELECT loop, owner, lease_ms, until FROM turn_taker WHERE loop = ? ORDER BY owner"
_KEEP_TAKER = """\
INSERT INTO turn_taker (loop, owner, lease_ms, until) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET lease_ms = excluded.lease_ms, until = excluded.until"""
_DROP_TAKER = "DELETE FROM turn_taker WHERE loop = ? AND owner = ?"
_WRITE = "INSERT INTO turn_entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DUE = f"""\
{_TURN} WHERE loop = :loop AND due IS NOT NULL
AND (due <= :now OR (state = 'running' AND due - lease_ms > :now))
ORDER BY due, created LIMIT :limit"""
_NEXT_DUE = "SELECT min(due) FROM turn WHERE loop = ? AND due IS NOT NULL"
_FITS = "(:loop IS NULL OR loop = :loop) AND (:state IS NULL OR state = :state)"
_NEWEST_FIRST = "ORDER BY created DESC, rowid DESC LIMIT :limit"
_LISTED = f"{_TURN} WHERE {_FITS} {_NEWEST_FIRST}"
_LISTED_BEFORE = f"""\
{_TURN} WHERE (created, rowid) < (SELECT created, rowid FROM turn WHERE id = :before)
AND {_FITS} {_NEWEST_FIRST}"""
_IDS = "SELECT id FROM turn WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
_UNKNOWN = f"{_LINE} WHERE kind = 'tool_unknown' ORDER BY at, turn_id, seq"
_OVER = f"{_TURN} WHERE ended IS NOT NULL AND due IS NULL AND ended < ? LIMIT ?"
_LARGE = "SELECT digest FROM turn_entry WHERE turn_id = ? AND digest IS NOT NULL"
#: Counts who needs a value: looking for them all when one goes would take a scan.
_KEEP = """\
INSERT INTO turn_value (digest, value, uses) VALUES (?, ?, 1)
ON CONFLICT (digest) DO UPDATE SET uses = uses + 1"""
_LET_GO = "UPDATE turn_value SET uses = uses - 1 WHERE digest = ? RETURNING uses"
_SIZE = """\
SELECT
    (SELECT count(*) FROM turn),
    (SELECT count(*) FROM turn_entry),
    (SELECT count(*) FROM turn_value),
    (SELECT coalesce(sum(length(value)), 0) FROM turn_entry)
        + (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM turn_delta)
        + (SELECT coalesce(sum(length(value)), 0) FROM turn_value)"""


class SqliteShelf:
    """A transaction of the file; or a view, which nobody changes."""

    def __init__(self, reader: Reader, now_ms: Callable[[], int]) -> None:
        self._reader = reader
        self.now_ms = now_ms
        #: Turns as they are in the file.
        self._rows: dict[str, Row] = {}

    @property
    def _tx(self) -> Transaction:
        return cast(Transaction, self._reader)

    def turn(self, turn_id: str) -> TurnRecord | None:
        row = self._reader.query_one(_BY_ID, (turn_id,))
        return None if row is None else self._record(row)

    def turns(self, turn_ids: Collection[str]) -> Sequence[TurnRecord]:
        found = map(self.turn, turn_ids)
        return [each for each in found if each is not None]

    def _record(self, row: Row) -> TurnRecord:
        record = turn_of(row)
        self._rows[record.id] = row
        return record

    def save(self, turn: TurnRecord) -> None:
        was = self._rows.get(turn.id)
        if was is None:
            self._tx.execute(_SAVE, turn_row(turn))
        elif changed := changed_fields(turn, was):
            values = [getattr(turn, each) for each in (*changed, "id")]
            self._tx.execute(_UPDATE.format(" = ?, ".join(changed)), values)
        self._rows[turn.id] = turn_row(turn)

    def write(self, lines: Sequence[Line]) -> None:
        for each in lines:  # nearly always one
            self._tx.execute(_WRITE, line_row(each))

    def lines(self, turn_id: str, after: int, limit: int | None = None) -> Sequence[Line]:
        facts = (turn_id, after, _most(limit))
        return [line_of_row(row) for row in self._reader.query_all(_LINES, facts)]

    def stream(self, deltas: Sequence[Delta]) -> None:
        self._tx.executemany(_STREAM, map(delta_row, deltas))

    def deltas(
        self, turn_id: str, after: int, number: int, limit: int | None = None
    ) -> Sequence[Delta]:
        facts = (turn_id, number, after, _most(limit))
        return [Delta(*row) for row in self._reader.query_all(_DELTAS, facts)]

    def keep(self, value: bytes, key: str) -> None:
        self._tx.execute(_KEEP, (key, value))

    def value(self, key: str) -> bytes | None:
        row = self._reader.query_one("SELECT value FROM turn_value WHERE digest = ?", (key,))
        return None if row is None else row[0]

    def due(self, loop: str, limit: int) -> Sequence[TurnRecord]:
        facts = {"loop": loop, "now": self.now_ms(), "limit": limit}
        return [self._record(row) for row in self._reader.query_all(_DUE, facts)]

    def next_due(self, loop: str) -> int | None:
        row = self._reader.query_one(_NEXT_DUE, (loop,))
        return None if row is None else row[0]

    def listed(
        self, loop: str | None, state: TurnState | None, limit: int, before: str | None
    ) -> Sequence[TurnRecord]:
        facts = {"loop": loop, "state": state, "limit": limit, "before": before}
        sql = _LISTED if before is None else _LISTED_BEFORE
        return [turn_of(row) for row in self._reader.query_all(sql, facts)]

    def ids(self, prefix: str, limit: int) -> Sequence[str]:
        rows = self._reader.query_all(_IDS, (*bounds(prefix), limit))
        return [found for (found,) in rows]

    def unknown(self) -> Sequence[Line]:
        return [line_of_row(row) for row in self._reader.query_all(_UNKNOWN)]

    def over(self, ended_before: int, limit: int) -> Sequence[TurnRecord]:
        return [turn_of(row) for row in self._reader.query_all(_OVER, (ended_before, limit))]

    def drop(self, turns: Sequence[TurnRecord]) -> None:
        for turn in turns:
            large = [digest for (digest,) in self._reader.query_all(_LARGE, (turn.id,))]
            self._tx.execute("DELETE FROM turn_entry WHERE turn_id = ?", (turn.id,))
            self._tx.execute("DELETE FROM turn_delta WHERE turn_id = ?", (turn.id,))
            self._tx.execute("DELETE FROM turn WHERE id = ?", (turn.id,))
            for each in (turn.request, turn.result, *large):
                self._let_go(each)

    def _let_go(self, digest: str | None) -> None:
        row = self._reader.query_one(_LET_GO, (digest,))
        if row is not None and row[0] <= 0:
            self._tx.execute("DELETE FROM turn_value WHERE digest = ?", (digest,))

    def size(self) -> Size:
        return Size(*(self._reader.query_one(_SIZE) or (0, 0, 0, 0)))

    def takers(self, loop: str) -> Sequence[Taker]:
        return [Taker(*row) for row in self._reader.query_all(_TAKERS, (loop,))]

    def keep_taker(self, taker: Taker) -> None:
        facts = (taker.loop, taker.owner, taker.lease_ms, taker.until)
        self._tx.execute(_KEEP_TAKER, facts)

    def drop_takers(self, takers: Sequence[Taker]) -> None:
        self._tx.executemany(_DROP_TAKER, [(each.loop, each.owner) for each in takers])

    def secret(self) -> bytes | None:
        row = self._reader.query_one("SELECT value FROM turn_secret")
        return None if row is None else row[0]

    def keep_secret(self, fresh: bytes) -> None:
        sql = "INSERT INTO turn_secret VALUES (1, ?) ON CONFLICT DO NOTHING"
        self._tx.execute(sql, (fresh,))

    def announce(self, topic: str) -> None:
        self._tx.announce(topic)


def _most(limit: int | None) -> int:
    """As SQLite says it: it knows no limit that is NULL."""
    return -1 if limit is None else limit


class SqliteTurns(StoredTurns):
    """A turn store in a SQLite file. Several processes may share the file.

    Raises what `afl.db.sqlite.open_database` raises, and NewerSchema for a file that a newer afl
    has used.
    """

    def __init__(
        self,
        address: str | os.PathLike[str] = DEFAULT_ADDRESS,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(clock)
        self._closing = threading.Lock()
        self._database = open_database(address, clock=clock)
        try:
            migrate(self._database, COMPONENT, MIGRATIONS)
        except BaseException:
            self._database.close()
            raise

    @property
    def _bell(self) -> Bell:
        return self._database.bell

    def now_ms(self) -> int:
        return self._database.now_ms()

    def _change(self, fn: Callable[[Shelf], T]) -> T:
        self._require_open()
        try:
            return self._database.write(lambda tx: fn(SqliteShelf(tx, self.now_ms)))
        except UnicodeEncodeError as error:
            raise not_text(error) from error

    def _look(self, fn: Callable[[Shelf], T]) -> T:
        self._require_open()
        return self._database.read(lambda reader: fn(SqliteShelf(reader, self.now_ms)))

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(
                f"the turns in {self._database.path} were closed; whoever uses them must stop"
            )

    def close(self) -> None:
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            # Others may still use the file: its bell does not close.
            self._database.bell.ring(self._all_awaited())
            self._database.close()
