"""What a database must be able to do so that turns can be kept in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from afl.turns.api import Delta, Entry, Kind, Size, TurnRecord, TurnState
from afl.turns.values import digest

#: Larger values are kept under their hash.
INLINE_BYTES = 512


class Line(msgspec.Struct, frozen=True, gc=False):
    """A journal entry as it is kept: a value, or the hash of one."""

    turn_id: str
    seq: int
    kind: Kind
    name: str
    call_id: str
    arguments: str
    fence: int
    at: int
    value: bytes | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class Taker:
    """Who is ready to do turns of a loop, until when."""

    loop: str
    owner: str
    lease_ms: int
    until: int


class Shelf(Protocol):
    """One transaction. What a function that changes something raises undoes all of it."""

    def now_ms(self) -> int:
        """The time of the store: not before anything was written that could be read here. So ask
        for it after what is compared with it: who has just written was not set back."""

    def turn(self, turn_id: str) -> TurnRecord | None:
        """Nobody else changes it until the transaction is over."""

    def turns(self, turn_ids: Collection[str]) -> Sequence[TurnRecord]:
        """The same for many: those that are there."""

    def save(self, turn: TurnRecord) -> None:
        """In the place of the one with this id, if there is one."""

    def write(self, lines: Sequence[Line]) -> None: ...

    def lines(self, turn_id: str, after: int, limit: int | None = None) -> Sequence[Line]:
        """Those behind this entry, in their order; the first so many."""

    def stream(self, deltas: Sequence[Delta]) -> None: ...

    def deltas(
        self, turn_id: str, after: int, number: int, limit: int | None = None
    ) -> Sequence[Delta]:
        """Those with larger numbers that follow this entry, or later ones, in their order; the
        first so many."""

    def keep(self, value: bytes, key: str) -> None:
        """Under a hash; what is there already is the same."""

    def value(self, key: str) -> bytes | None: ...

    def due(self, loop: str, limit: int) -> Sequence[TurnRecord]:
        """What is due, the longest first, and nobody else just takes."""

    def next_due(self, loop: str) -> int | None: ...

    def listed(
        self, loop: str | None, state: TurnState | None, limit: int, before: str | None
    ) -> Sequence[TurnRecord]:
        """The newest first; of those that came before the turn of this id."""

    def ids(self, prefix: str, limit: int) -> Sequence[str]: ...

    def unknown(self) -> Sequence[Line]:
        """All TOOL_UNKNOWN entries, the oldest first."""

    def over(self, ended_before: int, limit: int) -> Sequence[TurnRecord]:
        """Turns that ended before this time, of which nobody must be told, and which nobody else
        just drops."""

    def drop(self, turns: Sequence[TurnRecord]) -> None:
        """Delete them, their journals and deltas, and values that nobody else needs."""

    def takers(self, loop: str) -> Sequence[Taker]:
        """Also those whose time is over; by owner."""

    def keep_taker(self, taker: Taker) -> None:
        """In the place of the one of this loop and owner, if there is one."""

    def drop_takers(self, takers: Sequence[Taker]) -> None:
        """Those that are as they were when they were read."""

    def size(self) -> Size: ...

    def secret(self) -> bytes | None: ...

    def keep_secret(self, fresh: bytes) -> None:
        """Unless there is one."""

    def announce(self, topic: str) -> None:
        """Heard of by all who wait for it, once the transaction is over."""


def kept(shelf: Shelf, value: bytes) -> str:
    key = digest(value)
    shelf.keep(value, key)
    return key


def line_of(shelf: Shelf, entry: Entry) -> Line:
    """The form in which an entry is kept; its value is, if it is large."""
    is_small = len(entry.value) <= INLINE_BYTES
    key = None if is_small else kept(shelf, entry.value)
    return Line(
        entry.turn_id,
        entry.seq,
        entry.kind,
        entry.name,
        entry.call_id,
        entry.arguments,
        entry.fence,
        entry.at,
        entry.value if is_small else None,
        key,
    )


def entry_of(shelf: Shelf, line: Line) -> Entry:
    value = line.value
    if value is None:
        value = shelf.value(line.digest or "")
        assert value is not None, "values stay as long as entries that have them"
    facts = (line.name, line.call_id, line.arguments, value, line.fence, line.at)
    return Entry(line.turn_id, line.seq, line.kind, *facts)
