"""One look at the stream of a turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from afl.gateway.events import Event, View, end_of, event_of, piece_of
from afl.gateway.places import START, Place, place_of
from afl.turns.api import Delta, Entry, Kind, TurnRecord, TurnState, TurnStore
from afl.turns.tokens import Tokens
from afl.turns.values import decode

#: So much is in memory for one reader, however slow it is and however long the turn.
_PAGE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Page:
    events: Sequence[Event]
    #: Up to where the stream was read.
    place: Place
    #: There is more now.
    is_full: bool = False
    #: There will never be more.
    is_end: bool = False


def read_page(
    store: TurnStore, turn_id: str, place: Place, view: View, tokens: Tokens | None
) -> Page:
    """What is behind a place; `tokens` if whoever reads may let turns go on. Raises TurnNotFound,
    StoreUnavailable."""
    # First the record: what is read after it is at least as new, so nothing is behind an end.
    turn = store.get(turn_id)
    items = _items(store, turn_id, place)
    if tokens is not None:
        view = _with_token(view, _sealed(store, turn, items), tokens)
    events: list[Event] = []
    size = 0
    for item in items:
        place = _behind(item, place)
        if event := _shown(store, item, view):
            events.append(event)
        size += item.size
        if size > _PAGE_BYTES:
            return Page(events, place, is_full=True)
    if not turn.state.is_end:
        return Page(events, place)
    result = None if turn.result is None else decode(store.value(turn.result))
    return Page([*events, end_of(turn, result)], place, is_end=True)


def _items(store: TurnStore, turn_id: str, place: Place) -> Sequence[Entry | Delta]:
    return store.read_stream(turn_id, place.seq, place.number, most_bytes=_PAGE_BYTES)


def _behind(item: Entry | Delta, known: Place) -> Place:
    """Deltas before an entry are known, too: the next look does not search them again."""
    place = place_of(item)
    return Place(place.seq, max(place.number, known.number))


def _sealed(store: TurnStore, turn: TurnRecord, items: Sequence[Entry | Delta]) -> TurnRecord:
    """The record at the last seal: one that came after the first look at it needs another."""
    seals = [each.seq for each in items if isinstance(each, Entry) and each.kind is Kind.SEAL]
    return store.get(turn.id) if seals and seals[-1] > turn.seq else turn


def _with_token(view: View, turn: TurnRecord, tokens: Tokens) -> View:
    if turn.state is not TurnState.SUSPENDED:
        return view
    return replace(view, resume_token=tokens.issue(turn.id), suspended_at=turn.seq)


def _shown(store: TurnStore, item: Entry | Delta, view: View) -> Event | None:
    if isinstance(item, Entry):
        return event_of(item, view)
    return piece_of(item, _void_from(store, item) if item.text is None else None)


def _void_from(store: TurnStore, mark: Delta) -> str | None:
    """The first piece that a mark makes void. Marks are rare, so looking back may take long."""
    first: Delta | None = None
    for each in _pieces(store, mark):
        if each.text is None:
            first = None
        elif first is None:
            first = each
    return None if first is None else str(place_of(first))


def _pieces(store: TurnStore, mark: Delta) -> Iterator[Delta]:
    for each in _all_before(store, mark):
        if isinstance(each, Delta) and each.call_id == mark.call_id:
            yield each


def _all_before(store: TurnStore, mark: Delta) -> Iterator[Entry | Delta]:
    place, end = START, place_of(mark)
    while items := _items(store, mark.turn_id, place):
        for each in items:
            if place_of(each) >= end:
                return
            place = _behind(each, place)
            yield each
