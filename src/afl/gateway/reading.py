"""One look at the stream of a turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from afl.gateway.events import Event, View, end_of, event_of, piece_of
from afl.gateway.places import Place, place_of
from afl.turns.api import Delta, Entry, TurnRecord, TurnState, TurnStore
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
    items = store.read_stream(turn_id, place.seq, place.number)
    view = _with_token(view, turn, tokens)
    events: list[Event] = []
    size = 0
    for item in items:
        place = place_of(item)
        if event := _shown(store, item, view):
            events.append(event)
        size += _size(item)
        if size > _PAGE_BYTES:
            return Page(events, place, is_full=True)
    if not turn.state.is_end:
        return Page(events, place)
    result = None if turn.result is None else decode(store.value(turn.result))
    return Page([*events, end_of(turn, result)], place, is_end=True)


def _with_token(view: View, turn: TurnRecord, tokens: Tokens | None) -> View:
    if tokens is None or turn.state is not TurnState.SUSPENDED:
        return view
    return replace(view, resume_token=tokens.issue(turn.id), suspended_at=turn.seq)


def _shown(store: TurnStore, item: Entry | Delta, view: View) -> Event | None:
    if isinstance(item, Entry):
        return event_of(item, view)
    return piece_of(item, _void_from(store, item) if item.text is None else None)


def _size(item: Entry | Delta) -> int:
    if isinstance(item, Entry):
        return len(item.value)
    return len(item.text or "")


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
    for each in store.read_stream(mark.turn_id):
        if isinstance(each, Delta) and each.call_id == mark.call_id and each.number < mark.number:
            yield each
