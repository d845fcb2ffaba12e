"""Turns as somebody may see them. Who may not see what is inside sees each as its caller does: the
rows of the stream say what that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from afl.gateway.events import View, event_of
from afl.operations import turns
from afl.operations.turns import UnknownEffect
from afl.turns.api import Entry, TurnStore

#: What an event says that the trace has beside the value.
_BESIDE = ("at", "call_id", "tool", "model")

Facts = dict[str, Any]


def seen_turn(store: TurnStore, turn_id: str, *, is_inside: bool) -> Facts:
    """Its checkpoint. Raises TurnNotFound."""
    shown = turns.show_turn(store, turn_id)
    return shown if is_inside else _from_outside(shown, store.read(turn_id))


def seen_effects(store: TurnStore, limit: int = 100, *, is_inside: bool) -> list[UnknownEffect]:
    """Those that wait for a person, the oldest first."""
    found = turns.unknown_effects(store, limit)
    return found if is_inside else [_effect(each) for each in found]


def _from_outside(shown: Facts, journal: Sequence[Entry]) -> Facts:
    """A checkpoint with what the stream of the turn tells its caller, and no more."""
    return {
        **shown,
        "trace": _trace(shown["trace"], journal),
        "tool_results": [_without(each, "value") for each in shown["tool_results"]],
        "pending": [_without(each, "arguments", "idempotency_key") for each in shown["pending"]],
        "memory": [],
    }


def _effect(effect: UnknownEffect) -> UnknownEffect:
    return replace(effect, arguments=None, idempotency_key="")


def _trace(trace: Sequence[Facts], journal: Sequence[Entry]) -> list[Facts]:
    told = {each.seq: event.data for each in journal if (event := event_of(each, View()))}
    return [_entry(each, told[each["seq"]]) for each in trace if each["seq"] in told]


def _entry(traced: Facts, told: Mapping[str, Any]) -> Facts:
    value = {name: each for name, each in told.items() if name not in _BESIDE}
    return {**traced, "value": value} if value else _without(traced, "value")


def _without(facts: Facts, *names: str) -> Facts:
    return {name: each for name, each in facts.items() if name not in names}
