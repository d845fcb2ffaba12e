"""Records of turns as rows of a table, whatever database has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from afl.turns.api import Delta, Kind, TurnRecord, TurnState
from afl.turns.shelf import Line

Row: TypeAlias = Sequence[Any]

TURN_FIELDS = tuple(TurnRecord.__dataclass_fields__)
LINE_FIELDS = tuple(Line.__dataclass_fields__)
DELTA_FIELDS = tuple(Delta.__dataclass_fields__)
_STATE, _KIND = TURN_FIELDS.index("state"), LINE_FIELDS.index("kind")


def turn_row(turn: TurnRecord) -> list[Any]:
    return [getattr(turn, each) for each in TURN_FIELDS]


def turn_of(row: Row) -> TurnRecord:
    facts = list(row)
    facts[_STATE] = TurnState(facts[_STATE])
    return TurnRecord(*facts)


def line_row(line: Line) -> list[Any]:
    return [getattr(line, each) for each in LINE_FIELDS]


def line_of_row(row: Row) -> Line:
    facts = list(row)
    facts[_KIND] = Kind(facts[_KIND])
    return Line(*facts)


def delta_row(delta: Delta) -> list[Any]:
    return [getattr(delta, each) for each in DELTA_FIELDS]
