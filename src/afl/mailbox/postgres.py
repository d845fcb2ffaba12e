"""A box in PostgreSQL: each call is one statement, and time is the server's.

Rows of one table are the messages of all boxes there, in the order of `seq`; dead letters are in a
table of their own. Receivers pass over what others are just taking (SKIP LOCKED), so that they do
not wait for each other.
"""

# ruff: noqa: S608 - statements are put together from constants of this module only

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, TypeAlias, TypeVar

from afl.db.migrations import Migration, history
from afl.db.postgres import Cursor, PostgresDatabase, migrate, open_postgres
from afl.mailbox.box import Burial, Buried, Delivery, Depth, Entry, Handle, Waiting
from afl.mailbox.named import NamedMailbox
from afl.mailbox.remote import Offset, RemoteBox, no_offset
from afl.mailbox.resolver import MailboxResolver

T = TypeVar("T")
R = TypeVar("R")

#: Runs a statement with these parameters; its rows.
Run: TypeAlias = Callable[..., list[tuple[Any, ...]]]

MIGRATIONS = history(
    Migration(
        1,
        "messages and dead letters",
        (
            "CREATE SEQUENCE afl_mailbox_order",
            # Rows are changed often and in place: with room on their page, and no index on what
            # changes, that costs no index anything. The key begins with the id, so that nobody
            # who wants a box in its order is tempted to use it.
            """\
            CREATE TABLE afl_mailbox (
                box text NOT NULL,
                id text NOT NULL,
                seq bigint NOT NULL DEFAULT nextval('afl_mailbox_order'),
                payload bytea NOT NULL,
                reply_to text,
                enqueued_ms bigint NOT NULL,
                first_taken_ms bigint NOT NULL DEFAULT 0,
                hidden_until_ms bigint NOT NULL DEFAULT 0,
                deliveries integer NOT NULL DEFAULT 0,
                fence bigint NOT NULL DEFAULT 0,
                PRIMARY KEY (id, box)
            ) WITH (
                fillfactor = 70,
                autovacuum_vacuum_scale_factor = 0.01,
                autovacuum_vacuum_cost_delay = 0
            )""",
            "CREATE INDEX afl_mailbox_in_order ON afl_mailbox (box, seq)",
            """\
            CREATE TABLE afl_mailbox_dead (
                box text NOT NULL,
                id text NOT NULL,
                seq bigint NOT NULL DEFAULT nextval('afl_mailbox_order'),
                payload bytea NOT NULL,
                reply_to text,
                enqueued_ms bigint NOT NULL,
                first_taken_ms bigint NOT NULL,
                deliveries integer NOT NULL,
                fence bigint NOT NULL,
                buried_ms bigint NOT NULL,
                reason text NOT NULL,
                error_type text,
                PRIMARY KEY (id, box)
            )""",
            "CREATE INDEX afl_mailbox_dead_in_order ON afl_mailbox_dead (box, seq)",
        ),
    ),
)

#: The server's time, moved by what tests add.
_NOW = "((extract(epoch FROM clock_timestamp()) * 1000)::bigint + %(offset)s)"
#: For who looks for ids: plans are made while tables are small, when the index that has boxes in
#: their order would seem as good, and be used for ever. An expression is in no index.
_IN_BOX = "box || '' = %(box)s"

_PUT = f"""\
INSERT INTO afl_mailbox (box, id, payload, reply_to, enqueued_ms)
SELECT %(box)s, %(id)s, %(payload)s, %(reply_to)s, {_NOW}
WHERE NOT EXISTS (SELECT FROM afl_mailbox_dead WHERE id = %(id)s AND {_IN_BOX})
ON CONFLICT (id, box) DO NOTHING"""
#: Who puts into a box with a limit must be alone with it from counting to adding.
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%(topic)s, 0))"
_HAS = f"""\
SELECT EXISTS (SELECT FROM afl_mailbox WHERE id = %(id)s AND {_IN_BOX})
    OR EXISTS (SELECT FROM afl_mailbox_dead WHERE id = %(id)s AND {_IN_BOX})"""
_COUNT = "SELECT count(*) FROM afl_mailbox WHERE box = %(box)s"
_TAKE = f"""\
WITH clock AS MATERIALIZED (SELECT {_NOW} AS now),
chosen AS MATERIALIZED (
    SELECT id FROM afl_mailbox
    WHERE box = %(box)s AND hidden_until_ms <= (SELECT now FROM clock)
    ORDER BY seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE afl_mailbox SET
    fence = fence + 1,
    deliveries = deliveries + 1,
    first_taken_ms =
        CASE WHEN deliveries = 0 THEN (SELECT now FROM clock) ELSE first_taken_ms END,
    hidden_until_ms = (SELECT now FROM clock) + %(lease)s
WHERE id = ANY (ARRAY (SELECT id FROM chosen)) AND {_IN_BOX}
RETURNING seq, id, fence, payload, reply_to, enqueued_ms, first_taken_ms, deliveries"""
_ONE_HELD = f"id = %(id)s AND {_IN_BOX} AND fence = %(fence)s"
_ALL_HELD = f"""\
id = ANY (%(ids)s::text[]) AND {_IN_BOX}
    AND (id, fence) IN (SELECT * FROM unnest(%(ids)s::text[], %(fences)s::bigint[]))"""
_FINISH = f"DELETE FROM afl_mailbox WHERE {_ONE_HELD} RETURNING id"
_GIVE_BACK = f"""\
UPDATE afl_mailbox SET
    fence = fence + 1,
    deliveries = deliveries - %(uncounted)s,
    hidden_until_ms = CASE WHEN %(delay)s > 0 THEN {_NOW} + %(delay)s ELSE 0 END
WHERE {_ALL_HELD}
RETURNING id, fence - 1"""
_EXTEND = f"""\
UPDATE afl_mailbox SET hidden_until_ms = greatest(hidden_until_ms, {_NOW} + %(lease)s)
WHERE {_ALL_HELD}
RETURNING id, fence"""
_BURY = f"""\
WITH gone AS (
    DELETE FROM afl_mailbox WHERE {_ONE_HELD} RETURNING *
)
INSERT INTO afl_mailbox_dead (
    box, id, payload, reply_to, enqueued_ms, first_taken_ms, deliveries, fence,
    buried_ms, reason, error_type
)
SELECT box, id, payload, reply_to, enqueued_ms, first_taken_ms, deliveries, fence + 1,
    {_NOW}, %(reason)s, %(error_type)s
FROM gone RETURNING id"""
_BURIED = """\
SELECT id, payload, reply_to, enqueued_ms, first_taken_ms, deliveries, buried_ms, reason,
    error_type
FROM afl_mailbox_dead WHERE box = %(box)s ORDER BY seq LIMIT %(limit)s"""
_EXHUMED = """\
WITH gone AS (
    DELETE FROM afl_mailbox_dead
    WHERE box = %(box)s AND (%(ids)s::text[] IS NULL OR id = ANY (%(ids)s::text[]))
    RETURNING *
)"""
_REVIVE = f"""\
{_EXHUMED}
INSERT INTO afl_mailbox (box, id, payload, reply_to, enqueued_ms, fence)
SELECT box, id, payload, reply_to, enqueued_ms, fence FROM gone ORDER BY gone.seq
RETURNING id"""
_DISCARD = f"{_EXHUMED} SELECT count(*) FROM gone"
_PEEK = f"""\
SELECT id, payload, reply_to, enqueued_ms, deliveries, greatest(hidden_until_ms - {_NOW}, 0)
FROM afl_mailbox WHERE box = %(box)s ORDER BY seq LIMIT %(limit)s"""
_DEPTH = f"""\
WITH clock AS MATERIALIZED (SELECT {_NOW} AS now)
SELECT count(*) FILTER (WHERE hidden_until_ms <= (SELECT now FROM clock)), count(*),
    (SELECT count(*) FROM afl_mailbox_dead WHERE box = %(box)s)
FROM afl_mailbox WHERE box = %(box)s"""
_PURGE = """\
WITH gone AS (DELETE FROM afl_mailbox WHERE box = %(box)s RETURNING id)
SELECT count(*) FROM gone"""
#: Milliseconds until something can be taken, 0 or less for now; null: nothing will be by itself.
_LEFT = f"""\
WITH clock AS MATERIALIZED (SELECT {_NOW} AS now)
SELECT CASE
    WHEN EXISTS (
        SELECT FROM afl_mailbox
        WHERE box = %(box)s AND hidden_until_ms <= (SELECT now FROM clock)
    ) THEN 0
    ELSE (
        SELECT min(hidden_until_ms) - (SELECT now FROM clock)
        FROM afl_mailbox WHERE box = %(box)s
    )
END"""


class PostgresBox(RemoteBox):
    """`database` has the tables, and is let go of when the box is closed; `offset` is for tests."""

    def __init__(
        self, database: PostgresDatabase, name: str, *, offset: Offset = no_offset
    ) -> None:
        super().__init__(name, database.place, database.bell, database.close, offset)
        self._database = database

    def now_ms(self) -> int:
        return int(self._query(f"SELECT {_NOW}")[0][0])

    def put(self, entry: Entry[bytes], capacity: int | None = None) -> bool:
        message = {"id": entry.id, "payload": entry.payload, "reply_to": entry.reply_to}
        if capacity is None:
            self._tell(_PUT, **message)
            return True
        return self._put_within(capacity, self._parameters(**message))

    def _put_within(self, capacity: int, parameters: dict[str, object]) -> bool:
        def put(cursor: Cursor) -> bool:
            cursor.execute(_ALONE, parameters)
            if cursor.execute(_HAS, parameters).fetchone() == (True,):
                return True
            (count,) = cursor.execute(_COUNT, parameters).fetchone() or (0,)
            if count >= capacity:
                return False
            cursor.execute(_PUT, parameters)
            return True

        return self._database.transact(put, topic=self._topic)

    def take(self, limit: int, lease_ms: int) -> list[Delivery[bytes]]:
        rows = self._query(_TAKE, limit=limit, lease=lease_ms)
        rows.sort()  # by their places, which are all different
        return [Delivery(*row[1:]) for row in rows]

    def finish(self, handle: Handle) -> bool:
        return bool(self._query(_FINISH, id=handle.id, fence=handle.fence))

    def give_back(
        self, handles: Sequence[Handle], *, delay_ms: int = 0, is_counted: bool = False
    ) -> list[bool]:
        uncounted = 0 if is_counted else 1
        changed = self._change(self._tell, _GIVE_BACK, handles, delay=delay_ms, uncounted=uncounted)
        answers = []
        for each in handles:
            answers.append(each in changed)
            changed.discard(each)  # a handle is good once
        return answers

    def extend(self, handles: Sequence[Handle], lease_ms: int) -> list[bool]:
        changed = self._change(self._query, _EXTEND, handles, lease=lease_ms)
        return [each in changed for each in handles]

    def _change(
        self, run: Run, sql: str, handles: Sequence[Handle], **parameters: object
    ) -> set[Handle]:
        """The handles that were good."""
        ids, fences = [each.id for each in handles], [each.fence for each in handles]
        rows = run(sql, ids=ids, fences=fences, **parameters)
        return {Handle(row[0], row[1]) for row in rows}

    def bury(self, handle: Handle, burial: Burial) -> bool:
        return bool(self._query(_BURY, id=handle.id, fence=handle.fence, **burial._asdict()))

    def buried(self, limit: int) -> list[Buried[bytes]]:
        rows = self._query(_BURIED, limit=max(limit, 0))
        return [
            Buried(id_, payload, reply_to, enqueued, first, deliveries, buried, Burial(*why))
            for id_, payload, reply_to, enqueued, first, deliveries, buried, *why in rows
        ]

    def revive(self, ids: Sequence[str] | None = None) -> int:
        return len(self._tell(_REVIVE, ids=None if ids is None else list(ids)))

    def discard_buried(self, ids: Sequence[str] | None = None) -> int:
        return int(self._query(_DISCARD, ids=None if ids is None else list(ids))[0][0])

    def peek(self, limit: int) -> list[Waiting[bytes]]:
        return [Waiting(*row) for row in self._query(_PEEK, limit=max(limit, 0))]

    def depth(self) -> Depth:
        ((ready, total, buried),) = self._query(_DEPTH)
        return Depth(ready, total - ready, buried)

    def purge(self) -> int:
        return int(self._query(_PURGE)[0][0])

    def _seconds_left(self) -> float:
        ((left_ms,),) = self._query(_LEFT)
        return inf if left_ms is None else left_ms / 1000

    def _query(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        return self._database.query(sql, self._parameters(**parameters))

    def _tell(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Like `_query`, and wake who waits for something to take."""
        return self._database.change(sql, self._parameters(**parameters), self._topic)

    def _parameters(self, **parameters: object) -> dict[str, object]:
        self._require_open()
        return {
            "box": self.name,
            "topic": self._topic,
            "offset": self._offset(),
            **parameters,
        }


class PostgresMailbox(NamedMailbox[T, R]):
    """A mailbox in PostgreSQL.

    `body_type` is what bodies are checked against. `reply_resolver` finds the mailboxes that wait
    for replies; unless it is given, they are in the same database.
    """

    def __init__(
        self,
        name: str,
        url: str,
        body_type: Any = None,
        max_size: int | None = None,
        *,
        reply_resolver: MailboxResolver[Any, Any] | None = None,
    ) -> None:
        super().__init__(
            partial(open_box, url),
            name,
            body_type=body_type,
            max_size=max_size,
            reply_resolver=reply_resolver,
        )


def open_box(url: str, name: str) -> PostgresBox:
    return PostgresBox(prepared(open_postgres(url)), name)


def box_names(url: str) -> list[str]:
    """The names of boxes that hold messages or dead letters there, sorted."""
    database = prepared(open_postgres(url))
    try:
        rows = database.query("SELECT box FROM afl_mailbox UNION SELECT box FROM afl_mailbox_dead")
    finally:
        database.close()
    return sorted(str(row[0]) for row in rows)


def prepared(database: PostgresDatabase) -> PostgresDatabase:
    """The same, when it has the tables. It is let go of if it cannot get them."""
    try:
        migrate(database, "mailbox", MIGRATIONS)
    except BaseException:
        database.close()
        raise
    return database
