"""What people do about turns: look, let them go on, answer, settle, end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from afl.backoff import parse_duration
from afl.errors import UsageError
from afl.ids import new_id
from afl.turns.api import Kind, NewTurn, Outcome, TurnRecord, TurnState, TurnStore
from afl.turns.checkpoints import checkpoint
from afl.turns.errors import TurnEnded
from afl.turns.replay import intent_of
from afl.turns.rules import turn_id_of
from afl.turns.tokens import Tokens
from afl.turns.values import decode, encode

_ALL = 2**31 - 1


@dataclass(frozen=True)
class UnknownEffect:
    """Something that may have been done or not; a person must find out."""

    turn_id: str
    call_id: str
    tool: str
    arguments: Any
    #: Under which the other side knows it, if it does.
    idempotency_key: str
    #: Since when nobody knows, in milliseconds since 1970.
    since: int


@dataclass(frozen=True)
class Question:
    """What a turn waits to be told."""

    call_id: str
    question: Any
    #: When it was asked, and when nobody waits any more, in milliseconds since 1970.
    since: int
    until: int | None


def submit_turn(store: TurnStore, loop: str, request: Any, *, key: str | None = None) -> TurnRecord:
    """Keep a request; whichever loop of this name is free does it. The same key is the same turn.

    Raises KeyReused, and UsageError for what cannot be JSON.
    """
    key = new_id() if key is None else key
    turn_id = turn_id_of(NewTurn(loop, b"", key))
    # Nothing in it but what follows from the key and the request, so that both can come again.
    packed = encode({"request": request, "request_id": turn_id})
    return store.accept(NewTurn(loop, packed, key, is_due=True))


def list_turns(
    store: TurnStore,
    *,
    loop: str | None = None,
    state: str | None = None,
    limit: int = 100,
    before: str | None = None,
) -> Sequence[TurnRecord]:
    """The newest first; with the id of a turn, those that came `before` it. Raises TurnNotFound,
    and UsageError for a state that does not exist."""
    return store.list(loop, None if state is None else state_of(state), limit, before)


def state_of(text: str) -> TurnState:
    try:
        return TurnState(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no state of a turn; expected one of {', '.join(TurnState)}"
        ) from None


def show_turn(store: TurnStore, turn_id: str) -> dict[str, Any]:
    """Its checkpoint. Raises TurnNotFound."""
    return checkpoint(store, turn_id)


def resume_turn(store: TurnStore, turn_id: str) -> TurnRecord:
    """Let it go on wherever a loop of its name runs. Raises TurnNotFound, TurnEnded, TurnBusy."""
    return store.wake(turn_id)


def resume_by_token(store: TurnStore, token: str, tokens: Tokens | None = None) -> TurnRecord:
    """The same for whoever has a token. A turn that goes on already is left alone.

    Raises InvalidToken, TurnNotFound, TurnEnded.
    """
    turn_id = (tokens or Tokens([store.secret()])).turn_id(token)
    record = store.get(turn_id)
    is_going_on = record.state is TurnState.RUNNING or record.due is not None
    return record if is_going_on and not record.state.is_end else store.wake(turn_id)


def cancel_turn(store: TurnStore, turn_id: str, reason: str = "") -> TurnRecord:
    """End it, whoever does it. Raises TurnNotFound, TurnEnded."""
    return store.cancel(turn_id, reason or "an operator cancelled it")


def cancel_once(store: TurnStore, turn_id: str, reason: str = "") -> TurnRecord:
    """The same, however often it is asked for. Raises TurnNotFound; TurnEnded if it came to
    another end."""
    try:
        return cancel_turn(store, turn_id, reason)
    except TurnEnded as end:
        if end.turn.state is not TurnState.CANCELLED:
            raise
        return end.turn


def open_question(store: TurnStore, turn: TurnRecord) -> Question | None:
    """The last one that a turn asked, while it waits for the answer."""
    if turn.state is not TurnState.WAITING:
        return None
    about = (Kind.INPUT_ASKED, Kind.INPUT_GIVEN, Kind.INPUT_EXPIRED)
    last = [each for each in store.read(turn.id) if each.kind in about][-1:]
    if not last or last[0].kind is not Kind.INPUT_ASKED:
        return None
    asked, value = last[0], decode(last[0].value)
    until = None if value["due_in"] is None else asked.at + value["due_in"]
    return Question(asked.call_id, value["question"], asked.at, until)


def answer_turn(store: TurnStore, turn_id: str, answer: Any, *, question: str = "") -> TurnRecord:
    """Answer its question, the last one unless it is named. Raises NothingAsked,
    AlreadyAnswered, TurnNotFound, TurnEnded."""
    return store.give_input(turn_id, question, encode(answer))


def value_of(text: str) -> Any:
    """What somebody typed as an answer or a result: JSON, or else the text as it stands."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def unknown_effects(store: TurnStore, limit: int = 100) -> list[UnknownEffect]:
    """What waits for a person, the oldest first."""
    return [
        UnknownEffect(
            each.turn_id,
            each.call_id,
            each.name,
            intent_of(each).arguments,
            intent_of(each).key,
            each.at,
        )
        for each in store.effects(limit)
    ]


def settle_effect(
    store: TurnStore, turn_id: str, outcome: str, value: Any = None, *, call_id: str = ""
) -> TurnRecord:
    """Say what became of an effect: `done` with what the tool would have returned, `failed` with
    a reason, or `again` if it did not happen. The last one of the turn unless it is named.

    Raises UsageError, NothingAsked, AlreadyAnswered, TurnNotFound.
    """
    try:
        chosen = Outcome(outcome)
    except ValueError:
        raise UsageError(
            f"{outcome!r} says nothing about an effect; expected one of {', '.join(Outcome)}"
        ) from None
    return store.settle(turn_id, call_id, chosen, encode(value))


def result_of(store: TurnStore, turn_id: str) -> Any:
    """What it answered. Raises TurnNotFound; UsageError if it has not."""
    record = store.get(turn_id)
    if record.result is None:
        raise UsageError(f"turn {turn_id} has no answer: it is {record.state}")
    return decode(store.value(record.result))


# Removing


def prune_turns(store: TurnStore, keep: str) -> int:
    """Remove turns that ended longer ago than `keep` says (`30d`); how many. Those that somebody
    must still be told about stay."""
    return store.prune(_ended_before(store, keep))


def prunable_turns(store: TurnStore, keep: str) -> int:
    """How many `prune_turns` would remove. Nothing is changed."""
    before = _ended_before(store, keep)
    ended = (each for state in TurnState if state.is_end for each in store.list(None, state, _ALL))
    return sum(each.due is None and (each.ended or 0) < before for each in ended)


def _ended_before(store: TurnStore, keep: str) -> int:
    return store.now_ms() - round(parse_duration(keep) * 1000)
