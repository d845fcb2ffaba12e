"""Turns that come from another store: all of them, once, as they were."""

from __future__ import annotations

from typing import Any

from afl.clock import FakeClock
from afl.testing.contracts.turns.exam import LEASE_MS, TurnExam, begin, note
from afl.turns.api import Ending, Kind, NewEntry, TurnState
from afl.turns.memory import MemoryTurns
from afl.turns.values import encode
from afl.turns.whole import WholeTurn


def _elsewhere(clock: FakeClock) -> tuple[MemoryTurns, WholeTurn]:
    """A turn in the middle of its work, with values of all sizes."""
    elsewhere = MemoryTurns(clock=clock)
    claim = begin(elsewhere).claim
    large = NewEntry(Kind.MODEL, value=encode("x" * 10_000))
    elsewhere.append(claim, [note("small"), large, large])
    elsewhere.stream(claim, 3, "call", "half a wo")
    turn = elsewhere.whole(claim.turn_id)
    assert turn is not None
    return elsewhere, turn


class MovingContract(TurnExam):
    def test_a_turn_is_taken_over_as_it_was(self, store: Any, clock: FakeClock) -> None:
        elsewhere, turn = _elsewhere(clock)
        assert store.whole(turn.record.id) is None
        assert store.take_over(turn)
        assert store.whole(turn.record.id) == turn
        assert store.read_stream(turn.record.id) == elsewhere.read_stream(turn.record.id)
        assert MemoryTurns(clock=clock).take_over(store.whole(turn.record.id))

    def test_a_turn_that_is_there_stays_as_it_is(self, store: Any, clock: FakeClock) -> None:
        _, turn = _elsewhere(clock)
        store.take_over(turn)
        store.cancel(turn.record.id, "enough")
        assert not store.take_over(turn)
        assert store.get(turn.record.id).state is TurnState.CANCELLED
        assert len(store.list()) == 1

    def test_a_turn_that_was_taken_over_goes_on_and_goes_away(
        self, store: Any, clock: FakeClock
    ) -> None:
        _, turn = _elsewhere(clock)
        store.take_over(turn)
        clock.advance(LEASE_MS / 1000 + 1)
        claim = store.begin(turn.record.id, "bob", LEASE_MS).claim
        store.finish(claim, Ending(TurnState.DONE, result=encode("answer")), [note("more")])
        clock.advance(1)
        assert store.prune(store.now_ms()) == 1
        size = store.size()
        assert (size.turns, size.entries, size.values) == (0, 0, 0)

    def test_the_first_secret_stays(self, store: Any) -> None:
        assert store.share_secret(b"a" * 32) == b"a" * 32
        assert store.share_secret(b"b" * 32) == b"a" * 32
        assert store.secret() == b"a" * 32
