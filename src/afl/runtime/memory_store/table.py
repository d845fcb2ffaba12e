"""Records of one kind in memory: by key, in the order of their creation, with indexes.

Reads cost what they give, not the size of the table. What a table takes or gives is a copy,
except where `peek` and `scan` say otherwise. All tables of a store share a `Journal`, which takes
everything back if a write cannot be finished.
"""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar, cast

from afl.runtime.step import StepDefinition
from afl.runtime.types import copied

R = TypeVar("R")

#: The index that holds every record.
ALL = "all"
#: Behind every key that is text.
_LAST = "\U0010ffff"


class Journal:
    """How to take back what was written since the last commit, the last write first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def note(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def commit(self) -> None:
        self._undo.clear()

    def roll_back(self) -> None:
        while self._undo:
            self._undo.pop()()


@dataclass(frozen=True)
class Index(Generic[R]):
    """Under which values a record is found, and what sorts those of one value.

    Equal ranks are in the order of creation.
    """

    values: Callable[[R], tuple[Hashable, ...]]
    rank: Callable[[R], int] = lambda _: 0


def by(*fields: str) -> Index[R]:
    """An index over fields; records that have None in one of them are not in it."""

    def values(record: R) -> tuple[Hashable, ...]:
        found = tuple(getattr(record, each) for each in fields)
        if None in found:
            return ()
        return (found[0] if len(fields) == 1 else found,)

    return Index(values)


class _Entry(NamedTuple):
    rank: float
    number: float
    key: Hashable = ""


class _Row(NamedTuple, Generic[R]):
    number: int
    record: R
    #: Where it stands: name of the index, value, entry.
    entries: frozenset[tuple[str, Hashable, _Entry]]


class Table(Generic[R]):
    def __init__(
        self, journal: Journal, key_of: Callable[[R], Hashable], /, **indexes: Index[R]
    ) -> None:
        self._journal = journal
        self._key = key_of
        self._indexes: dict[str, Index[R]] = {ALL: Index(lambda _: (ALL,)), **indexes}
        self._rows: dict[Hashable, _Row[R]] = {}
        self._entries: defaultdict[tuple[str, Hashable], list[_Entry]] = defaultdict(list)
        self._created = 0

    # Reading

    def get(self, key: Hashable) -> R | None:
        row = self._rows.get(key)
        return None if row is None else copied_record(row.record)

    def require(self, key: Hashable) -> R:
        """A record that must be there."""
        return copied_record(self._rows[key].record)

    def peek(self, key: Hashable) -> R | None:
        """The record itself: to look at, never to change or to hand out."""
        row = self._rows.get(key)
        return None if row is None else row.record

    def find(self, index: str = ALL, value: Hashable = ALL) -> list[R]:
        return [copied_record(each) for each in self.scan(index, value)]

    def newest(self, limit: int, index: str = ALL, value: Hashable = ALL) -> list[R]:
        entries = self._entries.get((index, value), [])
        newest = entries[max(len(entries) - limit, 0) :]
        return [copied_record(self._rows[each.key].record) for each in reversed(newest)]

    def last(self, index: str, value: Hashable) -> R | None:
        return next(iter(self.newest(1, index, value)), None)

    def peek_last(self, index: str, value: Hashable) -> R | None:
        """The newest record itself, as with `peek`."""
        entries = self._entries.get((index, value), [])
        return self._rows[entries[-1].key].record if entries else None

    def scan(
        self, index: str, value: Hashable, above: float = -math.inf, to: float = math.inf
    ) -> Iterator[R]:
        """The records themselves, as with `peek`, whose rank is in the interval `(above, to]`."""
        entries = self._entries.get((index, value), [])
        for place in range(_after(entries, above), _after(entries, to)):
            yield self._rows[entries[place].key].record

    def page(
        self, before: float = math.inf, index: str = ALL, value: Hashable = ALL
    ) -> Iterator[tuple[int, R]]:
        """The records themselves, as with `peek`, newest first, with their numbers, from those
        before a number on. Of an index without ranks."""
        entries = self._entries.get((index, value), [])
        for place in range(bisect_left(entries, _Entry(0, before)) - 1, -1, -1):
            yield int(entries[place].number), self._rows[entries[place].key].record

    def page_up(self, after: float, index: str, value: Hashable) -> Iterator[tuple[int, R]]:
        """Like `page`, oldest first, those after a number."""
        entries = self._entries.get((index, value), [])
        for place in range(bisect_right(entries, _Entry(0, after, _LAST)), len(entries)):
            yield int(entries[place].number), self._rows[entries[place].key].record

    def values(self, index: str) -> list[Hashable]:
        """The values that an index has records under."""
        return [value for name, value in self._entries if name == index]

    def count(self, index: str, value: Hashable) -> int:
        return len(self._entries.get((index, value), []))

    def next_rank(self, index: str, value: Hashable, above: float) -> float:
        """The smallest rank above this one; infinity if there is none."""
        entries = self._entries.get((index, value), [])
        place = _after(entries, above)
        return entries[place].rank if place < len(entries) else math.inf

    def number(self, record: R) -> int:
        """Its place in the order of creation."""
        return self._rows[self._key(record)].number

    def __contains__(self, key: Hashable) -> bool:
        return key in self._rows

    # Writing

    def put(self, record: R) -> None:
        """Insert, or replace in its place."""
        key = self._key(record)
        old = self._rows.get(key)
        if old is None:
            self._created += 1
        number = self._created if old is None else old.number
        kept = copied_record(record)
        self._write(key, _Row(number, kept, self._entries_of(key, number, kept)))

    def remove(self, key: Hashable) -> bool:
        is_there = key in self._rows
        if is_there:
            self._write(key, None)
        return is_there

    def remove_all(self, index: str, value: Hashable) -> int:
        """How many there were."""
        keys = [self._key(each) for each in self.scan(index, value)]
        return sum(self.remove(each) for each in keys)

    def _write(self, key: Hashable, row: _Row[R] | None) -> None:
        self._journal.note(partial(self._set, key, self._rows.get(key)))
        self._set(key, row)

    def _set(self, key: Hashable, row: _Row[R] | None) -> None:
        old = self._rows.pop(key, None)
        before = frozenset() if old is None else old.entries
        after = frozenset() if row is None else row.entries
        for index, value, entry in before - after:
            self._drop((index, value), entry)
        for index, value, entry in after - before:
            insort(self._entries[index, value], entry)
        if row is not None:
            self._rows[key] = row

    def _drop(self, place: tuple[str, Hashable], entry: _Entry) -> None:
        entries = self._entries[place]
        del entries[bisect_left(entries, entry)]
        if not entries:
            del self._entries[place]

    def _entries_of(
        self, key: Hashable, number: int, record: R
    ) -> frozenset[tuple[str, Hashable, _Entry]]:
        return frozenset(
            (name, value, _Entry(index.rank(record), number, key))
            for name, index in self._indexes.items()
            for value in index.values(record)
        )


def _after(entries: list[_Entry], rank: float) -> int:
    return bisect_right(entries, _Entry(rank, math.inf))


def copied_record(record: R) -> R:
    """A copy that shares nothing with the record."""
    if isinstance(record, StepDefinition):
        return cast("R", record.clone())
    twin = copy.copy(record)
    for name, value in vars(record).items():
        setattr(twin, name, copied(value))
    return twin
