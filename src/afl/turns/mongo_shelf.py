"""One transaction on turns in MongoDB.

- Asking for a turn in order to change it *is* changing it (`guard` grows): of two who do, the
  second is refused at its first question, and runs again.
- The time is asked for after the first question: a transaction sees the moment of that one, and
  nothing it can see was written later.
- What is written is sent at the end. Values come last: they are what different turns have in
  common, and nobody holds them for longer than a commit takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from afl.db.beginnings import bounds
from afl.db.mongo import Document, Filter, Reader, Transaction
from afl.turns.api import Delta, Size, TurnRecord, TurnState
from afl.turns.mongo_documents import (
    after,
    all_of,
    by_due,
    changed_turn,
    delta_document,
    delta_of_document,
    line_document,
    line_of_document,
    new_turn,
    taker_id,
    taker_of_document,
    turn_of_document,
)
from afl.turns.mongo_schema import DELTAS, ENTRIES, SECRETS, TAKERS, TURNS, VALUES
from afl.turns.shelf import Line, Taker

_HOLD = {"$inc": {"guard": 1}}
_LONGEST_DUE_FIRST = [("due", 1), ("created", 1)]
_IN_ORDER = [("_id", 1)]
_SECRET = "turns"  # noqa: S105 - a name


class MongoShelf:
    """A transaction, or with a reader that is none a look, which holds nothing. `ask_time` tells
    how late it is now."""

    def __init__(
        self, reader: Reader, ask_time: Callable[[], int], topic: Callable[[str], str]
    ) -> None:
        self._reader = reader
        self._tx = reader if isinstance(reader, Transaction) else None
        self._ask_time = ask_time
        self._topic = topic
        #: Turns that are there.
        self._known: set[str] = set()
        self._new: dict[str, TurnRecord] = {}
        self._changed: dict[str, TurnRecord] = {}
        self._kept: Counter[str] = Counter()
        self._values: dict[str, bytes] = {}
        self._fresh_secret: bytes | None = None

    @property
    def _writing(self) -> Transaction:
        assert self._tx is not None, "who only looks writes nothing"
        return self._tx

    def now_ms(self) -> int:
        return self._ask_time() if self._tx is None else self._tx.now

    def turn(self, turn_id: str) -> TurnRecord | None:
        where = {"_id": turn_id}
        if self._tx is None:
            found = self._reader.one(TURNS, where)
        else:
            found = self._tx.change(TURNS, where, _HOLD)
        return None if found is None else self._record(found)

    def turns(self, turn_ids: Collection[str]) -> Sequence[TurnRecord]:
        where = {"_id": {"$in": sorted(turn_ids)}}
        if self._tx is not None:
            self._tx.change_all(TURNS, where, _HOLD)
        return self._records(where)

    def _records(self, where: Filter, **options: Any) -> list[TurnRecord]:
        return list(map(self._record, self._reader.all(TURNS, where, **options)))

    def _record(self, found: Document) -> TurnRecord:
        self._known.add(found["_id"])
        return turn_of_document(found)

    def save(self, turn: TurnRecord) -> None:
        (self._changed if turn.id in self._known else self._new)[turn.id] = turn

    def write(self, lines: Sequence[Line]) -> None:
        self._writing.insert(ENTRIES, map(line_document, lines))

    def lines(self, turn_id: str, after_seq: int, limit: int | None = None) -> Sequence[Line]:
        where = after(turn_id, after_seq)
        found = self._reader.all(ENTRIES, where, sort=_IN_ORDER, limit=limit or 0)
        return list(map(line_of_document, found))

    def stream(self, deltas: Sequence[Delta]) -> None:
        self._writing.insert(DELTAS, map(delta_document, deltas))

    def deltas(
        self, turn_id: str, after_seq: int, number: int, limit: int | None = None
    ) -> Sequence[Delta]:
        where = {**after(turn_id, number), "after": {"$gte": after_seq}}
        found = self._reader.all(DELTAS, where, sort=_IN_ORDER, limit=limit or 0)
        return list(map(delta_of_document, found))

    def keep(self, value: bytes, key: str) -> None:
        self._kept[key] += 1
        self._values[key] = value

    def value(self, key: str) -> bytes | None:
        found = self._reader.one(VALUES, {"_id": key})
        return None if found is None else bytes(found["value"])

    def due(self, loop: str, limit: int) -> Sequence[TurnRecord]:
        # Those that are due come first; what is, is known after the question.
        ever = {"loop": loop, "due": {"$exists": True}}
        first = self._records(ever, sort=_LONGEST_DUE_FIRST, limit=limit) if limit > 0 else []
        now = self.now_ms()
        found = [each for each in first if each.due is not None and each.due <= now]
        if len(found) < limit:
            set_back = {"loop": loop, "begun": {"$gt": now}}
            found += self._records(set_back, limit=limit - len(found))
        return by_due(found)

    def next_due(self, loop: str) -> int | None:
        where = {"loop": loop, "due": {"$exists": True}}
        found = self._reader.one(TURNS, where, sort=_LONGEST_DUE_FIRST, fields={"due": 1})
        return None if found is None else int(found["due"])

    def listed(
        self, loop: str | None, state: TurnState | None, limit: int, before: str | None
    ) -> Sequence[TurnRecord]:
        wanted = {"loop": loop, "state": None if state is None else str(state)}
        where: Document = {name: each for name, each in wanted.items() if each is not None}
        if before is not None:
            where |= self._before(before)
        newest_first = [("created", -1), ("number", -1)]
        return self._records(where, sort=newest_first, limit=limit) if limit else []

    def _before(self, turn_id: str) -> Filter:
        found = self._reader.one(TURNS, {"_id": turn_id}, fields={"created": 1, "number": 1})
        created, number = (0, 0) if found is None else (found["created"], found["number"])
        earlier = [{"created": {"$lt": created}}, {"created": created, "number": {"$lt": number}}]
        return {"$or": earlier}

    def ids(self, prefix: str, limit: int) -> Sequence[str]:
        first, behind = bounds(prefix)
        where = {"_id": {"$gte": first, "$lt": behind}}
        found = self._reader.all(TURNS, where, sort=_IN_ORDER, limit=limit, fields={"_id": 1})
        return [each["_id"] for each in found] if limit else []

    def unknown(self) -> Sequence[Line]:
        oldest_first = [("at", 1), ("_id", 1)]
        found = self._reader.all(ENTRIES, {"kind": "tool_unknown"}, sort=oldest_first)
        return list(map(line_of_document, found))

    def over(self, ended_before: int, limit: int) -> Sequence[TurnRecord]:
        where = {"ended": {"$lt": ended_before}, "due": None}
        return self._records(where, sort=[("ended", 1)], limit=limit)

    def drop(self, turns: Sequence[TurnRecord]) -> None:
        if not turns:
            return
        ids = [each.id for each in turns]
        large = {**all_of(ids), "digest": {"$exists": True}}
        found = self._reader.all(ENTRIES, large, fields={"digest": 1})
        uses = Counter(each["digest"] for each in found)
        uses.update(each.request for each in turns)
        uses.update(each.result for each in turns if each.result is not None)
        self._writing.write()
        self._writing.remove(TURNS, {"_id": {"$in": ids}})
        self._writing.remove(ENTRIES, all_of(ids))
        self._writing.remove(DELTAS, all_of(ids))
        changes = [({"_id": each}, {"$inc": {"uses": -uses[each]}}) for each in sorted(uses)]
        self._writing.change_each(VALUES, changes)
        self._writing.remove(VALUES, {"_id": {"$in": sorted(uses)}, "uses": {"$lte": 0}})

    def takers(self, loop: str) -> Sequence[Taker]:
        found = self._reader.all(TAKERS, {"loop": loop}, sort=_IN_ORDER)
        return list(map(taker_of_document, found))

    def keep_taker(self, taker: Taker) -> None:
        where = {"_id": taker_id(taker.loop, taker.owner)}
        facts = {"loop": taker.loop, "lease_ms": taker.lease_ms, "until": taker.until}
        self._writing.update(TAKERS, [(where, {"$set": facts})], upsert=True)

    def drop_takers(self, takers: Sequence[Taker]) -> None:
        # Their ends are news, which only a document that stays can tell: so they go in two steps.
        gone = [taker_id(each.loop, each.owner) for each in takers if not each.until]
        if gone:
            self._writing.write()
            self._writing.remove(TAKERS, {"_id": {"$in": gone}})
        ending = [taker_id(each.loop, each.owner) for each in takers if each.until]
        self._writing.update(TAKERS, [({"_id": each}, {"$set": {"until": 0}}) for each in ending])

    def size(self) -> Size:
        small, large = {"$binarySize": "$value"}, {"$binarySize": "$value"}
        said = {"$strLenBytes": {"$ifNull": ["$text", ""]}}
        turns, _ = self._counted(TURNS, 0)
        entries, journals = self._counted(ENTRIES, {"$ifNull": [small, 0]})
        values, kept = self._counted(VALUES, large)
        return Size(turns, entries, values, journals + kept + self._counted(DELTAS, said)[1])

    def _counted(self, name: str, size: Any) -> tuple[int, int]:
        """How many there are, and the sum of their sizes."""
        group = {"_id": None, "count": {"$sum": 1}, "size": {"$sum": size}}
        found = self._reader.aggregate(name, [{"$group": group}])
        return (int(found[0]["count"]), int(found[0]["size"])) if found else (0, 0)

    def secret(self) -> bytes | None:
        found = self._reader.one(SECRETS, {"_id": _SECRET})
        return self._fresh_secret if found is None else bytes(found["value"])

    def keep_secret(self, fresh: bytes) -> None:
        if self.secret() is None:
            self._fresh_secret = fresh
            self._writing.insert(SECRETS, [{"_id": _SECRET, "value": fresh}])

    def announce(self, topic: str) -> None:
        self._writing.announce(self._topic(topic))

    def settle(self) -> None:
        """Send what was written."""
        tx = self._writing
        tx.insert(TURNS, [new_turn(each, tx.next_number()) for each in self._new.values()])
        tx.update(TURNS, list(map(changed_turn, self._changed.values())))
        tx.update(VALUES, [self._use(each) for each in sorted(self._kept)], upsert=True)
        tx.flush()

    def _use(self, key: str) -> tuple[Filter, Document]:
        change = {"$inc": {"uses": self._kept[key]}, "$setOnInsert": {"value": self._values[key]}}
        return {"_id": key}, change
