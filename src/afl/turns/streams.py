"""What models say before it is in a journal, and who is ready to do turns: as a shelf keeps it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from afl.turns import rules
from afl.turns.api import Claim, Delta, Entry, NewEntry, TurnRecord
from afl.turns.shelf import Shelf, Taker, entry_of

T = TypeVar("T")

#: So many rows are asked for at once.
_ROWS = 100
_seq, _number = attrgetter("seq"), attrgetter("number")

# Each function gives the record as it is then; the caller saves it.


def said(shelf: Shelf, turn: TurnRecord, call_id: str, text: str | None, now: int) -> TurnRecord:
    """A call that is given up for another one has said nothing."""
    if turn.saying != call_id:
        if text is None:
            return turn  # there is nothing to take back
        turn = voided(shelf, turn, now)
    said, delta = rules.said(turn, call_id, text, now)
    shelf.stream([delta])
    return said


def unsaid(shelf: Shelf, claim: Claim, call_id: str, text: str, known: int) -> str:
    """What of a text is not in the stream yet, behind so many deltas."""
    later = shelf.deltas(claim.turn_id, 0, known)
    mine = [each for each in later if (each.call_id, each.fence) == (call_id, claim.fence)]
    said = ""
    for each in mine:
        said = "" if each.text is None else said + each.text
    return text.removeprefix(said)


def voided(shelf: Shelf, turn: TurnRecord, now: int) -> TurnRecord:
    """Say so, if anything that was said is not in the journal."""
    if not turn.saying:
        return turn
    voided, mark = rules.said(turn, turn.saying, None, now)
    shelf.stream([mark])
    return voided


def heard(
    shelf: Shelf, turn: TurnRecord, entries: Sequence[NewEntry], now: int, *, is_left: bool
) -> TurnRecord:
    """Before these entries are written; if it `is_left`, nothing more is said after them."""
    if not turn.saying:
        return turn
    if rules.is_void(turn, entries, is_left=is_left):
        return voided(shelf, turn, now)
    return replace(turn, saying="") if rules.is_whole(turn, entries) else turn


def read(
    shelf: Shelf, turn_id: str, after: int, number: int, most_bytes: int | None
) -> list[Entry | Delta]:
    """Up to the first one with which it is more than so many bytes."""
    lines = _in_parts(lambda seq: shelf.lines(turn_id, seq, _ROWS), after, _seq)
    deltas = _in_parts(lambda last: shelf.deltas(turn_id, after, last, _ROWS), number, _number)
    entries = (entry_of(shelf, each) for each in lines)
    found: list[Entry | Delta] = []
    left = math.inf if most_bytes is None else most_bytes
    for each in _merged(entries, deltas):
        found.append(each)
        left -= each.size
        if left < 0:
            break
    return found


def _in_parts(
    ask: Callable[[int], Sequence[T]], start: int, place: Callable[[T], int]
) -> Iterator[T]:
    """All behind a place; nobody asks for the next part before it is needed."""
    while found := ask(start):
        yield from found
        if len(found) < _ROWS:
            return
        start = place(found[-1])


def _merged(*parts: Iterator[Entry | Delta]) -> Iterator[Entry | Delta]:
    return merge(*parts, key=_place)


def _place(event: Entry | Delta) -> tuple[int, int]:
    return (event.seq, 0) if isinstance(event, Entry) else (event.after, event.number)


# Who is ready


def ready(shelf: Shelf, loop: str, since: int) -> list[str]:
    known, now = shelf.takers(loop), shelf.now_ms()
    found = [each for each in known if _is_ready(each, now)]
    return [each.owner for each in found if each.until - each.lease_ms >= since]


def announced(shelf: Shelf, loop: str, owner: str, lease_ms: int) -> bool:
    """Whether that is news. Those who went without a word are forgotten."""
    known, now = shelf.takers(loop), shelf.now_ms()
    gone = [each for each in known if not _is_ready(each, now)]
    shelf.drop_takers([each for each in gone if each.owner != owner])
    shelf.keep_taker(Taker(loop, owner, lease_ms, now + lease_ms))
    return all(each.owner != owner or each in gone for each in known)


def _is_ready(taker: Taker, now: int) -> bool:
    return rules.holds(taker.until, taker.lease_ms, now)
