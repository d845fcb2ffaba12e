"""What people do about turns: look, let them go on, answer, settle, end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from afl.errors import UsageError
from afl.turns.api import Outcome, TurnRecord, TurnState, TurnStore
from afl.turns.checkpoints import checkpoint
from afl.turns.replay import intent_of
from afl.turns.tokens import Tokens
from afl.turns.values import decode, encode


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


def list_turns(
    store: TurnStore, *, loop: str | None = None, state: str | None = None, limit: int = 100
) -> Sequence[TurnRecord]:
    """The newest first. Raises UsageError for a state that does not exist."""
    return store.list(loop, None if state is None else state_of(state), limit)


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


def answer_turn(store: TurnStore, turn_id: str, answer: Any, *, question: str = "") -> TurnRecord:
    """Answer its question, the last one unless it is named. Raises NothingAsked,
    AlreadyAnswered, TurnNotFound, TurnEnded."""
    return store.give_input(turn_id, question, encode(answer))


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
