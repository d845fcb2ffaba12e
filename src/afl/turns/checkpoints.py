"""Checkpoints: what is known about a turn, in one piece that people and programs can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl import telemetry
from afl.clock import Clock
from afl.turns.api import Entry, Kind, TurnRecord, TurnStore
from afl.turns.replay import intent_of
from afl.turns.values import decode

#: Its form; grows when that changes.
VERSION = 1

_RESULTS = (Kind.TOOL_DONE, Kind.TOOL_FAILED)
_OPEN = (Kind.TOOL_INTENT, Kind.TOOL_UNKNOWN, Kind.TOOL_AGAIN, Kind.TOOL_PAUSED)


def checkpoint_id(turn: TurnRecord) -> str:
    """Names the turn, and how far its journal went."""
    return f"{turn.id}@{turn.seq}"


def checkpoint(store: TurnStore, turn_id: str) -> dict[str, Any]:
    """Trace, results of tools, calls of tools that are open with their keys, and memory deltas, as
    values that can be JSON. Raises TurnNotFound."""
    turn, entries = store.get(turn_id), store.read(turn_id)
    tools = _last_of_tools(entries)
    return {
        "version": VERSION,
        "id": checkpoint_id(turn),
        "turn": _shown(turn),
        "request": decode(store.value(turn.request)),
        "result": None if turn.result is None else decode(store.value(turn.result)),
        "trace": [_traced(each) for each in entries],
        "tool_results": [_traced(each) for each in tools.values() if each.kind in _RESULTS],
        "pending": [_pending(entries, each) for each in tools.values() if each.kind in _OPEN],
        "memory": [decode(each.value) for each in entries if each.kind is Kind.MEMORY],
    }


def tell_checkpointed(turn: TurnRecord, clock: Clock) -> None:
    telemetry.emit(
        telemetry.TurnCheckpointed(
            at=clock.now(),
            turn=turn.id,
            loop=turn.loop,
            checkpoint=checkpoint_id(turn),
            state=turn.state,
            reason=turn.reason,
        )
    )


def tell_handed_over(turn: TurnRecord, taker: str, clock: Clock) -> None:
    telemetry.emit(
        telemetry.TurnHandedOver(
            at=clock.now(),
            turn=turn.id,
            loop=turn.loop,
            checkpoint=checkpoint_id(turn),
            taker=taker,
        )
    )


def _last_of_tools(entries: Sequence[Entry]) -> dict[str, Entry]:
    return {each.call_id: each for each in entries if each.kind in (*_RESULTS, *_OPEN)}


def _pending(entries: Sequence[Entry], last: Entry) -> dict[str, Any]:
    first = next(
        each for each in entries if each.kind is Kind.TOOL_INTENT and each.call_id == last.call_id
    )
    intent = intent_of(first)
    return {
        "call_id": last.call_id,
        "name": last.name,
        "arguments": intent.arguments,
        "idempotency_key": intent.key,
        "state": last.kind.value,
    }


def _traced(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "kind": entry.kind.value,
        "name": entry.name,
        "call_id": entry.call_id,
        "value": decode(entry.value),
        "fence": entry.fence,
        "at": entry.at,
    }


def _shown(turn: TurnRecord) -> dict[str, Any]:
    hidden = ("request", "result")
    return {each: getattr(turn, each) for each in turn.__struct_fields__ if each not in hidden}
