"""What is written into journals, by turns themselves and by people from outside."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from afl.turns import rules
from afl.turns.api import Claim, Entry, Kind, NewEntry, Outcome, TurnRecord
from afl.turns.errors import AlreadyAnswered, NothingAsked, TurnEnded
from afl.turns.shelf import Line, Shelf, entry_of, line_of

_ANSWERS = (Kind.INPUT_GIVEN, Kind.INPUT_EXPIRED)
_SETTLEMENTS = {
    Outcome.DONE: Kind.TOOL_DONE,
    Outcome.FAILED: Kind.TOOL_FAILED,
    Outcome.AGAIN: Kind.TOOL_AGAIN,
}
_TOOL = (
    Kind.TOOL_INTENT,
    Kind.TOOL_DONE,
    Kind.TOOL_FAILED,
    Kind.TOOL_UNKNOWN,
    Kind.TOOL_AGAIN,
    Kind.TOOL_PAUSED,
)


def written(
    shelf: Shelf, turn: TurnRecord, entries: Sequence[NewEntry], fence: int, now: int
) -> TurnRecord:
    """The record after these entries; the caller saves it."""
    lines = [
        line_of(shelf, _entry(each, turn, turn.seq + number, fence, now))
        for number, each in enumerate(entries, start=1)
    ]
    shelf.write(lines)
    return rules.written(turn, [each.kind for each in lines], now)


def was_written(shelf: Shelf, claim: Claim, entries: Sequence[NewEntry], after: int) -> bool:
    """Whether they are in the journal, behind an entry, in one piece and under this claim."""
    later = shelf.lines(claim.turn_id, after)
    known = [_new_of(entry_of(shelf, each)) for each in later if each.fence == claim.fence]
    wanted, size = list(entries), len(entries)
    return any(known[at : at + size] == wanted for at in range(len(known) - size + 1))


def _new_of(entry: Entry) -> NewEntry:
    return NewEntry(entry.kind, entry.name, entry.call_id, entry.arguments, entry.value)


def _entry(new: NewEntry, turn: TurnRecord, seq: int, fence: int, now: int) -> Entry:
    facts = (new.name, new.call_id, new.arguments, new.value, fence, now)
    return Entry(turn.id, seq, new.kind, *facts)


def came_since(shelf: Shelf, turn: TurnRecord, known: int) -> bool:
    """Whether people have written anything behind this entry."""
    return any(each.fence == 0 for each in shelf.lines(turn.id, known))


def require_unanswered(shelf: Shelf, turn: TurnRecord, entries: Sequence[NewEntry]) -> None:
    """An answer that was taken counts, also if the time of its question was over."""
    for expired in (each for each in entries if each.kind is Kind.INPUT_EXPIRED):
        answer = _last(shelf.lines(turn.id, 0), (Kind.INPUT_GIVEN,), expired.call_id)
        if answer is not None:
            raise AlreadyAnswered(f"{answer.call_id} of turn {turn.id} has an answer by now")


def answered(shelf: Shelf, turn: TurnRecord) -> None:
    if turn.state.is_end and turn.due is not None:
        shelf.save(replace(turn, due=None))


def given(shelf: Shelf, turn: TurnRecord, call_id: str, value: bytes, now: int) -> TurnRecord:
    lines = shelf.lines(turn.id, 0)
    asked = _last(lines, (Kind.INPUT_ASKED,), call_id)
    if asked is None:
        raise NothingAsked(f"turn {turn.id} asks no question {call_id}".rstrip())
    answer = _last(lines, _ANSWERS, asked.call_id)
    if answer is not None:
        _require_same(shelf, answer, Kind.INPUT_GIVEN, value)
        return turn
    if turn.state.is_end:
        raise TurnEnded(turn)
    entry = NewEntry(Kind.INPUT_GIVEN, asked.name, asked.call_id, value=value)
    return rules.ready(written(shelf, turn, [entry], 0, now), now)


def settled(
    shelf: Shelf, turn: TurnRecord, call_id: str, outcome: Outcome, value: bytes, now: int
) -> TurnRecord:
    kind = _SETTLEMENTS[outcome]
    lines = shelf.lines(turn.id, 0)
    unknown = _last(lines, (Kind.TOOL_UNKNOWN,), call_id)
    if unknown is None:
        raise NothingAsked(f"turn {turn.id} has no unknown effect {call_id}".rstrip())
    latest = _last(lines, _TOOL, unknown.call_id)
    if latest is not None and latest is not unknown:
        _require_same(shelf, latest, kind, value)
        return turn
    entry = NewEntry(kind, unknown.name, unknown.call_id, unknown.arguments, value)
    return rules.ready(written(shelf, turn, [entry], 0, now), now)


def unsettled(shelf: Shelf, limit: int) -> list[Entry]:
    """TOOL_UNKNOWN entries after which nothing was said about the call."""
    found = [
        line
        for line in shelf.unknown()
        if _last(shelf.lines(line.turn_id, line.seq), _TOOL, line.call_id) is None
    ]
    return [entry_of(shelf, each) for each in found[: max(limit, 0)]]


def _last(lines: Sequence[Line], kinds: Sequence[Kind], call_id: str) -> Line | None:
    """The last one about a call; without an id, about any."""
    chosen = (
        each
        for each in reversed(lines)
        if each.kind in kinds and (not call_id or each.call_id == call_id)
    )
    return next(chosen, None)


def _require_same(shelf: Shelf, line: Line, kind: Kind, value: bytes) -> None:
    if (line.kind, entry_of(shelf, line).value) != (kind, value):
        raise AlreadyAnswered(
            f"{line.call_id} of turn {line.turn_id} was decided before, in another way: {line.kind}"
        )
