"""A turn in whose journal there is something of everything, for tests of who sees what of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from afl.errors import AflError
from afl.turns import NewTurn, OutcomeUnknown, Turn
from afl.turns.api import TurnStore
from afl.turns.values import encode

#: Parts of values that only operators may see.
INSIDE = ("customer-7", "DE89", "remembered-8", "noted-9", "fax-10", "answered-11", "thought-12")
SAID = "I look it up."

_PARTS = [["text", {"text": SAID}], ["thinking", {"thinking": "thought-12"}]]


def secretive_turn(store: TurnStore) -> str:
    """Its id. It waits for a person: nobody knows whether its fax was sent."""
    record = store.accept(NewTurn("shop", encode({"say": "my IBAN?"}), "k"))
    _go_on(Turn(store, store.begin(record.id, "somebody", 30_000)))
    store.give_input(record.id, "", encode("answered-11"))
    _go_on(Turn(store, store.begin(record.id, "somebody", 30_000)))
    return record.id


def _go_on(turn: Turn) -> None:
    """Until it waits for somebody."""
    with suppress(AflError):
        turn.model(lambda: {"parts": _PARTS, "stop": "tool"})
        turn.tool("lookup", {"customer": "customer-7"}, lambda: {"iban": "DE89"})
        turn.remember({"seen": "remembered-8"})
        turn.note("noted-9")
        turn.wait_for_input("Which colour?")
        turn.tool("fax", {"text": "fax-10"}, _fax)


def _fax() -> Any:
    raise OutcomeUnknown("the line broke")
