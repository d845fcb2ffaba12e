"""What may become of a turn, as functions of its record. Every store follows them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from afl.ids import new_id, stable_id
from afl.turns.api import (
    Claim,
    Delta,
    Ending,
    Kind,
    NewEntry,
    NewTurn,
    Pause,
    TurnRecord,
    TurnState,
)
from afl.turns.errors import (
    KeyReused,
    StaleText,
    StaleTurn,
    TurnBusy,
    TurnEnded,
    TurnNotReady,
)

#: Remarks: what a turn may write while a model speaks.
_ASIDES = (Kind.NOTE, Kind.MEMORY)


def turn_id_of(new: NewTurn) -> str:
    """Follows from the key, if there is one: so the same key is the same turn, without an index."""
    return new_id() if new.key is None else stable_id("turn", new.loop, new.key)


def accepted(turn_id: str, new: NewTurn, request: str, now: int) -> TurnRecord:
    return TurnRecord(
        turn_id,
        new.loop,
        TurnState.ACCEPTED,
        request,
        key=new.key,
        reply_to=new.reply_to,
        due=now if new.is_due else None,
        created=now,
        changed=now,
    )


def require_same_request(turn: TurnRecord, request: str) -> None:
    if turn.request != request:
        raise KeyReused(turn.key or "")


# Beginning


def began(turn: TurnRecord, owner: str, lease_ms: int, now: int) -> TurnRecord:
    """Raises TurnEnded, TurnBusy, TurnNotReady."""
    _require_open(turn)
    if turn.owner != owner:
        _require_free(turn, now)
    waits = turn.state is TurnState.WAITING and (turn.due is None or turn.due > now)
    if waits or turn.state is TurnState.MISMATCHED:
        raise TurnNotReady(turn)
    return replace(
        turn,
        state=TurnState.RUNNING,
        fence=turn.fence + 1,
        attempt=turn.attempt + 1,
        barren=turn.barren + 1,
        owner=owner,
        lease_ms=lease_ms,
        lease_until=now + lease_ms,
        reason="",
        due=None,
        changed=now,
        carrier=owner,
    )


def claimed(turn: TurnRecord, owner: str, lease_ms: int, now: int) -> TurnRecord:
    """What the store brings back, it brings back again if its owner dies."""
    if turn.state.is_end:
        return replace(turn, fence=turn.fence + 1, due=now + lease_ms)
    begun = began(turn, owner, lease_ms, now)
    return replace(begun, due=begun.lease_until, carrier=turn.carrier)


def extended(turn: TurnRecord, claim: Claim, lease_ms: int, now: int) -> TurnRecord | None:
    """None if the claim is good no more."""
    if turn.fence != claim.fence:
        return None
    due = None if turn.due is None else now + lease_ms
    if turn.state is TurnState.RUNNING:
        return replace(turn, lease_ms=lease_ms, lease_until=now + lease_ms, due=due)
    is_to_be_told = turn.state.is_end and due is not None
    return replace(turn, due=due) if is_to_be_told else None


def holds(until: int, lease_ms: int, now: int) -> bool:
    """A clock that was set back makes no lease longer."""
    return now < until <= now + lease_ms


def _require_free(turn: TurnRecord, now: int) -> None:
    is_held = holds(turn.lease_until, turn.lease_ms, now)
    if turn.state is TurnState.RUNNING and is_held:
        raise TurnBusy(turn, (turn.lease_until - now) / 1000)


def _require_open(turn: TurnRecord) -> None:
    if turn.state.is_end:
        raise TurnEnded(turn)


# Going on, and ends


def require_current(turn: TurnRecord, claim: Claim) -> None:
    if turn.state is not TurnState.RUNNING or turn.fence != claim.fence:
        raise StaleTurn(turn.id, claim.fence, turn.fence)


def written(turn: TurnRecord, kinds: Sequence[Kind], now: int) -> TurnRecord:
    """Who only remarks something gets no further: the next attempt begins at the same place."""
    is_further = any(each not in _ASIDES for each in kinds)
    barren = 0 if is_further else turn.barren
    return replace(turn, seq=turn.seq + len(kinds), barren=barren, changed=now)


def _at_rest(turn: TurnRecord) -> TurnRecord:
    return replace(turn, owner="", lease_ms=0, lease_until=0)


def paused(turn: TurnRecord, pause: Pause, now: int) -> TurnRecord:
    return replace(
        _at_rest(turn),
        state=pause.state,
        reason=pause.reason,
        fence=turn.fence + 1,
        barren=max(turn.barren, pause.barren) if pause.is_failure else 0,
        due=None if pause.due_in is None else now + pause.due_in,
        changed=now,
    )


def finished(turn: TurnRecord, ending: Ending, result: str | None, now: int) -> TurnRecord:
    """Its fence stays: whoever ended it may still say that it was told."""
    due = None if ending.is_answered else now + turn.lease_ms
    return replace(
        _at_rest(turn),
        state=ending.state,
        reason=ending.reason,
        result=result,
        due=due,
        changed=now,
        ended=now,
        relieved="" if ending.is_answered else turn.carrier,
    )


def woken(turn: TurnRecord, now: int) -> TurnRecord:
    _require_open(turn)
    _require_free(turn, now)
    return replace(
        _at_rest(turn),
        state=TurnState.SUSPENDED,
        reason="",
        fence=turn.fence + 1,
        due=now,
        changed=now,
    )


def cancelled(turn: TurnRecord, reason: str, now: int) -> TurnRecord:
    """Whoever the store would have told about the end is told of this one."""
    _require_open(turn)
    raised = replace(turn, fence=turn.fence + 1)
    ending = Ending(TurnState.CANCELLED, reason, is_answered=turn.due is None)
    return replace(finished(raised, ending, None, now), due=None if turn.due is None else now)


def ready(turn: TurnRecord, now: int) -> TurnRecord:
    """What it waited for has come."""
    if turn.state is not TurnState.WAITING:
        return turn
    return replace(turn, reason="has what it waited for, and goes on", due=now, changed=now)


# What a model says before its answer is in the journal


def require_latest(turn: TurnRecord, after: int) -> None:
    if turn.seq != after:
        raise StaleText(turn.id, after, turn.seq)


def said(turn: TurnRecord, call_id: str, text: str | None, now: int) -> tuple[TurnRecord, Delta]:
    """The turn, and what it said, or took back."""
    number = turn.streamed + 1
    delta = Delta(turn.id, turn.seq, number, call_id, text, turn.fence, now)
    saying = "" if text is None else call_id
    return replace(turn, streamed=number, saying=saying, changed=now), delta


def is_whole(turn: TurnRecord, entries: Sequence[NewEntry]) -> bool:
    """Whether these entries have what was being said."""
    return any(each.kind is Kind.MODEL and each.call_id == turn.saying for each in entries)


def is_void(turn: TurnRecord, entries: Sequence[NewEntry], *, is_left: bool) -> bool:
    """Whether nobody will say the rest of what is being said, once these entries are written."""
    if not turn.saying or is_whole(turn, entries):
        return False
    return is_left or any(each.kind not in _ASIDES for each in entries)
