"""Turns that live as long as the process: for tests, and for agents that may forget."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from operator import attrgetter
from typing import TypeVar

from afl.clock import SYSTEM_CLOCK, Clock, now_ms
from afl.db.waiting import WaitingRoom
from afl.errors import StoreClosed
from afl.turns.api import Delta, Kind, Size, TurnRecord, TurnState
from afl.turns.shelf import Line, Shelf, Taker
from afl.turns.stored import StoredTurns

T = TypeVar("T")


class MemoryShelf:
    """All of it in dictionaries. Whoever changes something has looked at everything before, so
    nothing must ever be undone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.records: dict[str, TurnRecord] = {}
        self.journals: defaultdict[str, list[Line]] = defaultdict(list)
        self.streams: defaultdict[str, list[Delta]] = defaultdict(list)
        self.values: dict[str, bytes] = {}
        self.ready: dict[tuple[str, str], Taker] = {}
        self.topics: list[str] = []
        self._secret: bytes | None = None

    def now_ms(self) -> int:
        return now_ms(self._clock)

    def turn(self, turn_id: str) -> TurnRecord | None:
        return self.records.get(turn_id)

    def turns(self, turn_ids: Collection[str]) -> Sequence[TurnRecord]:
        return [self.records[each] for each in turn_ids if each in self.records]

    def save(self, turn: TurnRecord) -> None:
        self.records[turn.id] = turn

    def write(self, lines: Sequence[Line]) -> None:
        for each in lines:
            self.journals[each.turn_id].append(each)

    def lines(self, turn_id: str, after: int, limit: int | None = None) -> Sequence[Line]:
        return _some(self.journals.get(turn_id, []), after, limit)

    def stream(self, deltas: Sequence[Delta]) -> None:
        for each in deltas:
            self.streams[each.turn_id].append(each)

    def deltas(
        self, turn_id: str, after: int, number: int, limit: int | None = None
    ) -> Sequence[Delta]:
        said = self.streams.get(turn_id, [])
        return _some(said, bisect_left(said, after, number, key=attrgetter("after")), limit)

    def keep(self, value: bytes, key: str) -> None:
        self.values[key] = value

    def value(self, key: str) -> bytes | None:
        return self.values.get(key)

    def due(self, loop: str, limit: int) -> Sequence[TurnRecord]:
        now = self.now_ms()
        found = [each for each in self._due_ever(loop) if _is_due(each, now)]
        return sorted(found, key=lambda each: (each.due or 0, each.created))[:limit]

    def next_due(self, loop: str) -> int | None:
        return min((each.due or 0 for each in self._due_ever(loop)), default=None)

    def _due_ever(self, loop: str) -> list[TurnRecord]:
        return [
            each for each in self.records.values() if each.loop == loop and each.due is not None
        ]

    def listed(
        self, loop: str | None, state: TurnState | None, limit: int, before: str | None
    ) -> Sequence[TurnRecord]:
        newest_first = sorted(self.records.values(), key=lambda each: each.created)[::-1]
        if before is not None:
            del newest_first[: newest_first.index(self.records[before]) + 1]
        found = (
            each
            for each in newest_first
            if loop in (None, each.loop) and state in (None, each.state)
        )
        return list(islice(found, limit))

    def ids(self, prefix: str, limit: int) -> Sequence[str]:
        return sorted(each for each in self.records if each.startswith(prefix))[:limit]

    def unknown(self) -> Sequence[Line]:
        lines = (line for journal in self.journals.values() for line in journal)
        found = [line for line in lines if line.kind is Kind.TOOL_UNKNOWN]
        return sorted(found, key=lambda each: (each.at, each.turn_id, each.seq))

    def over(self, ended_before: int, limit: int) -> Sequence[TurnRecord]:
        return [
            each
            for each in self.records.values()
            if each.ended is not None and each.ended < ended_before and each.due is None
        ][:limit]

    def drop(self, turns: Sequence[TurnRecord]) -> None:
        for each in turns:
            del self.records[each.id]
            self.journals.pop(each.id, None)
            self.streams.pop(each.id, None)
        needed = self._needed()
        self.values = {key: value for key, value in self.values.items() if key in needed}

    def _needed(self) -> set[str | None]:
        lines = (line for journal in self.journals.values() for line in journal)
        turns = self.records.values()
        return {each for turn in turns for each in (turn.request, turn.result)} | {
            line.digest for line in lines
        }

    def size(self) -> Size:
        lines = [line for journal in self.journals.values() for line in journal]
        small = sum(len(each.value or b"") for each in lines)
        deltas = [delta for stream in self.streams.values() for delta in stream]
        small += sum(len((each.text or "").encode()) for each in deltas)
        large = sum(map(len, self.values.values()))
        return Size(len(self.records), len(lines), len(self.values), small + large)

    def takers(self, loop: str) -> Sequence[Taker]:
        found = [each for each in self.ready.values() if each.loop == loop]
        return sorted(found, key=lambda each: each.owner)

    def keep_taker(self, taker: Taker) -> None:
        self.ready[taker.loop, taker.owner] = taker

    def drop_takers(self, takers: Sequence[Taker]) -> None:
        for each in takers:
            self.ready.pop((each.loop, each.owner), None)

    def secret(self) -> bytes | None:
        return self._secret

    def keep_secret(self, fresh: bytes) -> None:
        self._secret = self._secret or fresh

    def announce(self, topic: str) -> None:
        self.topics.append(topic)


def _some(all_of_it: Sequence[T], start: int, limit: int | None) -> Sequence[T]:
    return all_of_it[start : None if limit is None else start + limit]


def _is_due(turn: TurnRecord, now: int) -> bool:
    """A clock that was set back makes no lease longer."""
    assert turn.due is not None, "only those that are due ever are asked about"
    is_too_far = turn.state is TurnState.RUNNING and turn.due - turn.lease_ms > now
    return turn.due <= now or is_too_far


class MemoryTurns(StoredTurns):
    """A turn store in this process."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(clock)
        self._shelf = MemoryShelf(clock)
        self._lock = threading.Lock()
        self._room = WaitingRoom(clock)

    @property
    def _bell(self) -> WaitingRoom:
        return self._room

    def now_ms(self) -> int:
        return self._shelf.now_ms()

    def _change(self, fn: Callable[[Shelf], T]) -> T:
        with self._lock:
            self._require_open()
            try:
                return fn(self._shelf)
            finally:
                topics, self._shelf.topics = tuple(self._shelf.topics), []
                if topics:
                    self._room.heard(topics)

    def _look(self, fn: Callable[[Shelf], T]) -> T:
        with self._lock:
            self._require_open()
            return fn(self._shelf)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("this turn store was closed; whoever uses it must stop")

    def close(self) -> None:
        self._is_closed = True
        self._room.close()
