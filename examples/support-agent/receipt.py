"""What came of a deploy: the books of all who took part, compared."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.gateway import StreamEvent, TurnClient
from afl.turns import Kind, TurnState, TurnStore


class Customer:
    """Complains about an order, and follows the turn to its end."""

    def __init__(self, client: TurnClient, order: int) -> None:
        self._client = client
        self.order = order
        self.turn_id = ""
        self.seen: list[StreamEvent] = []
        self.seen_at: list[float] = []
        self.is_under_way = threading.Event()
        self.is_over = threading.Event()

    def follow(self) -> None:
        try:
            request = {"order": self.order, "text": "It came in pieces."}
            turn = self._client.submit("support", request, key=f"complaint-{self.order}")
            self.turn_id = turn.id
            for event in turn.stream():
                self.seen.append(event)
                self.seen_at.append(SYSTEM_CLOCK.monotonic())
                self.is_under_way.set()
        finally:
            self.is_under_way.set()
            self.is_over.set()

    @property
    def has_answer(self) -> bool:
        return any(each.name == "done" for each in self.seen)

    @property
    def longest_pause_s(self) -> float:
        return max((later - sooner for sooner, later in pairwise(self.seen_at)), default=0.0)

    def gaps(self) -> int:
        """Events that were missed, came twice, or in another order than they are kept in."""
        kept = [each.id for each in self._client.turn(self.turn_id).stream()]
        seen = [each.id for each in self.seen]
        return 0 if seen == kept else max(1, len(set(kept) ^ set(seen)))


@dataclass(frozen=True)
class Receipt:
    """The README says how each line is counted."""

    turns: int
    finished_before: int
    handed_over: int
    resumed: int
    lost: int
    doubled: int
    stream_gaps: int
    answers_paid_twice: int
    longest_pause_s: float
    exit_code: int

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.doubled or self.stream_gaps or self.exit_code)

    def __str__(self) -> str:
        rows = [(each.name.replace("_", " "), getattr(self, each.name)) for each in fields(self)]
        return "\n".join(f"{name:<20}{value:>6}" for name, value in rows)


def receipt_of(
    customers: Sequence[Customer],
    turns: TurnStore,
    *,
    ledger: list[dict[str, Any]],
    model: dict[str, Any],
    exit_code: int,
) -> Receipt:
    records = [turns.get(each.turn_id) for each in customers if each.turn_id]
    journals = {each.id: [entry.kind for entry in turns.read(each.id)] for each in records}
    done = {each.id for each in records if each.state is TurnState.DONE}
    answers = sum(kinds.count(Kind.MODEL) for kinds in journals.values())
    effects = Counter((each["effect"], each["order"]) for each in ledger)
    wanted = {(effect, each.order) for each in customers for effect in ("refund", "mail")}
    unanswered = sum(each.turn_id not in done or not each.has_answer for each in customers)
    return Receipt(
        turns=len(customers),
        finished_before=sum(each.attempt == 1 for each in records),
        handed_over=sum(Kind.HANDED_OVER in kinds for kinds in journals.values()),
        resumed=sum(each.attempt > 1 for each in records),
        lost=unanswered + len(wanted - effects.keys()),
        doubled=sum(count - 1 for count in effects.values()),
        stream_gaps=sum(each.gaps() for each in customers if each.turn_id),
        answers_paid_twice=model["calls"] - answers,
        longest_pause_s=round(max(each.longest_pause_s for each in customers), 2),
        exit_code=exit_code,
    )
