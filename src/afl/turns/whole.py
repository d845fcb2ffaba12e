"""All of a turn at once: how turns move from one store to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afl.turns.api import Delta, TurnRecord
from afl.turns.shelf import Line, Shelf


@dataclass(frozen=True, slots=True)
class WholeTurn:
    record: TurnRecord
    lines: Sequence[Line]
    deltas: Sequence[Delta]
    #: Those that are kept under their hashes.
    values: Mapping[str, bytes]


def read(shelf: Shelf, turn_id: str) -> WholeTurn | None:
    record = shelf.turn(turn_id)
    if record is None:
        return None
    lines = list(shelf.lines(turn_id, 0))
    found = {key: shelf.value(key) for key in _keys(record, lines)}
    values = {key: value for key, value in found.items() if value is not None}
    return WholeTurn(record, lines, list(shelf.deltas(turn_id, 0, 0)), values)


def put(shelf: Shelf, turn: WholeTurn) -> bool:
    """Whether it was not there; one that is stays as it is."""
    if shelf.turn(turn.record.id) is not None:
        return False
    shelf.save(turn.record)
    # One use for each that needs it, so that the last one who goes takes the value along.
    for key in _keys(turn.record, turn.lines):
        shelf.keep(turn.values[key], key)
    shelf.write(turn.lines)
    shelf.stream(turn.deltas)
    return True


def _keys(record: TurnRecord, lines: Sequence[Line]) -> list[str]:
    keys = (record.request, record.result, *(each.digest for each in lines))
    return [each for each in keys if each is not None]
