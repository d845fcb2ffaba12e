"""Records of turns as rows of a table, whatever database has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import ne
from typing import Any, TypeAlias

from msgspec.structs import astuple

from afl.turns.api import Delta, Kind, TurnRecord, TurnState
from afl.turns.shelf import Line

Row: TypeAlias = Sequence[Any]

TURN_FIELDS = TurnRecord.__struct_fields__
LINE_FIELDS = Line.__struct_fields__
DELTA_FIELDS = Delta.__struct_fields__
_STATE, _KIND = TURN_FIELDS.index("state"), LINE_FIELDS.index("kind")

turn_row: Callable[[TurnRecord], Row] = astuple
line_row: Callable[[Line], Row] = astuple
delta_row: Callable[[Delta], Row] = astuple


def changed_fields(turn: TurnRecord, was: Row) -> list[str]:
    """Which are not as they were."""
    return list(compress(TURN_FIELDS, map(ne, turn_row(turn), was)))


def turn_of(row: Row) -> TurnRecord:
    facts = list(row)
    facts[_STATE] = TurnState(facts[_STATE])
    return TurnRecord(*facts)


def line_of_row(row: Row) -> Line:
    facts = list(row)
    facts[_KIND] = Kind(facts[_KIND])
    return Line(*facts)
