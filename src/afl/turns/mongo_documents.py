"""Records of turns as documents of MongoDB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from afl.db.mongo import Document, Filter
from afl.db.mongo.fields import fields_of
from afl.turns.api import Delta, TurnRecord, TurnState
from afl.turns.rows import (
    DELTA_FIELDS,
    LINE_FIELDS,
    TURN_FIELDS,
    delta_row,
    line_of_row,
    line_row,
    turn_of,
    turn_row,
)
from afl.turns.shelf import Line, Taker

#: When a claimed turn was claimed or renewed: only while the store would bring it back.
_BEGUN = "begun"


def new_turn(turn: TurnRecord, number: int) -> Document:
    return {"_id": turn.id, "number": number, **_there(_facts(turn))}


def changed_turn(turn: TurnRecord) -> tuple[Filter, Document]:
    facts = _facts(turn)
    gone = {name: "" for name, each in facts.items() if each is None}
    change: Document = {"$set": _there(facts)}
    return {"_id": turn.id}, change | ({"$unset": gone} if gone else {})


def _facts(turn: TurnRecord) -> Document:
    _, *values = map(_plain, turn_row(turn))
    is_lent = turn.state is TurnState.RUNNING and turn.due is not None
    begun = (turn.due or 0) - turn.lease_ms if is_lent else None
    return {**dict(zip(TURN_FIELDS[1:], values, strict=True)), _BEGUN: begun}


def turn_of_document(found: Document) -> TurnRecord:
    return turn_of([found["_id"], *fields_of(found, TURN_FIELDS[1:])])


def line_document(line: Line) -> Document:
    turn_id, seq, *values = map(_plain, line_row(line))
    facts = dict(zip(LINE_FIELDS[2:], values, strict=True))
    return {"_id": _place(turn_id, seq), **_there(facts)}


def line_of_document(found: Document) -> Line:
    turn_id, seq = found["_id"].values()
    return line_of_row([turn_id, int(seq), *fields_of(found, LINE_FIELDS[2:])])


def delta_document(delta: Delta) -> Document:
    facts = dict(zip(DELTA_FIELDS, delta_row(delta), strict=True))
    return {"_id": _place(facts.pop("turn_id"), facts.pop("number")), **_there(facts)}


def delta_of_document(found: Document) -> Delta:
    turn_id, number = found["_id"].values()
    facts = {**found, "turn_id": turn_id, "number": number}
    return Delta(*fields_of(facts, DELTA_FIELDS))


def taker_id(loop: str, owner: str) -> Document:
    return {"loop": loop, "owner": owner}


def taker_of_document(found: Document) -> Taker:
    loop, owner = found["_id"].values()
    return Taker(loop, owner, *fields_of(found, ("lease_ms", "until")))


# Places in journals


def _place(turn_id: str, number: float) -> Document:
    return {"turn": turn_id, "at": number}


def after(turn_id: str, number: int) -> Filter:
    """What is behind a place in a turn."""
    return {"_id": {"$gt": _place(turn_id, number), "$lt": _place(turn_id, math.inf)}}


def all_of(turn_ids: Iterable[str]) -> Filter:
    return {"$or": [after(each, 0) for each in turn_ids]}


def _plain(value: Any) -> Any:
    """Drivers know no members of enumerations."""
    return str(value) if isinstance(value, str) else value


def _there(facts: Document) -> Document:
    return {name: each for name, each in facts.items() if each is not None}


def by_due(turns: Sequence[TurnRecord]) -> list[TurnRecord]:
    return sorted(turns, key=lambda each: (each.due or 0, each.created))
