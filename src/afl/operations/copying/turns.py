"""Turns with their journals, streams and values, from one turn store to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.errors import UsageError
from afl.operations.copying.progress import Pace, Part, PartReport, facts_of
from afl.turns.api import TurnRecord, TurnState
from afl.turns.rules import holds
from afl.turns.stored import StoredTurns
from afl.turns.whole import WholeTurn

_ALL = 2**31 - 1


def turns_in_hand(store: StoredTurns) -> list[str]:
    """Ids of turns that somebody is doing now."""
    now = store.now_ms()
    running = store.list(None, TurnState.RUNNING, _ALL)
    return [each.id for each in running if holds(each.lease_until, each.lease_ms, now)]


def copy_turns(source: StoredTurns, target: StoredTurns, pace: Pace) -> PartReport:
    """Each turn in one commit. Raises Differs, and UsageError if the destination signs with a
    secret of its own, or the source was in use meanwhile."""

    def find(ids: Sequence[str]) -> dict[str, WholeTurn]:
        found = map(target.whole, ids)
        return {each.record.id: each for each in found if each is not None}

    def add(turns: Sequence[WholeTurn]) -> None:
        for each in turns:
            target.take_over(each)

    part, before = Part("turn"), _all(source)
    pace.began("turns", len(before))
    if before:
        _share_secret(source, target)
    for turn_id in before:
        turn = source.whole(turn_id)
        if turn is not None:  # else it is gone, which shows in the end
            part.bring({turn_id: turn}, find, add, _facts)
        pace.went_on(1)
    if _all(source) != before:
        raise UsageError(
            "turns at the source have gone on while they were copied; stop whoever does them, and "
            "copy into an empty database"
        )
    return part.report()


def _all(store: StoredTurns) -> dict[str, TurnRecord]:
    """Oldest first."""
    return {each.id: each for each in reversed(store.list(None, None, _ALL))}


def _share_secret(source: StoredTurns, target: StoredTurns) -> None:
    """Tokens that were given out stay good."""
    secret = source.secret()
    if target.share_secret(secret) != secret:
        raise UsageError(
            "the destination signs resume tokens with a secret of its own, and would refuse those "
            "of the turns that are copied; copy into an empty database"
        )


def _facts(turn: WholeTurn) -> dict[str, Any]:
    facts = facts_of(turn)
    return {**facts.pop("record"), **facts}
