"""Journals: in order, fenced, and no larger than what happened."""

from __future__ import annotations

import pytest

from afl.clock import FakeClock
from afl.testing.contracts.turns.exam import LEASE_MS, Stores, TurnExam, begin, note, values
from afl.turns.api import Claim, Ending, Kind, NewEntry, Pause, TurnState, TurnStore
from afl.turns.errors import StaleTurn, TurnEnded
from afl.turns.values import encode

LARGE = encode("x" * 10_000)


class JournalContract(TurnExam):
    def test_entries_come_back_as_they_were_written(self, store: TurnStore, stores: Stores) -> None:
        turn = begin(store)
        entry = NewEntry(Kind.MODEL, "a model", "call-1", "hash", encode({"a": [1, "ü"]}))
        store.append(turn.claim, [entry, note("x")])
        first, second = stores().read(turn.id)
        facts = (first.kind, first.name, first.call_id, first.arguments, first.value)
        assert facts == (entry.kind, "a model", "call-1", "hash", entry.value)
        assert (first.seq, second.seq, first.fence) == (1, 2, turn.fence)
        assert first.at == store.now_ms()

    def test_a_journal_is_read_from_any_place(self, store: TurnStore) -> None:
        turn = begin(store)
        record = store.append(turn.claim, [note(str(number)) for number in range(5)])
        assert record.seq == 5
        assert [each.seq for each in store.read(turn.id, after=3)] == [4, 5]
        assert list(store.read(turn.id, after=5)) == []

    def test_a_large_value_comes_back_and_is_kept_once(self, store: TurnStore) -> None:
        turn = begin(store)
        store.append(turn.claim, [NewEntry(Kind.MODEL, value=LARGE)])
        size = store.size()
        store.append(turn.claim, [NewEntry(Kind.MODEL, value=LARGE)] * 10)
        assert values(store, turn.id) == [LARGE] * 11
        assert store.size().bytes == size.bytes
        assert store.size().values == size.values

    def test_a_journal_grows_with_what_happened_and_not_with_its_square(
        self, store: TurnStore
    ) -> None:
        def grown(entries: int) -> int:
            turn = begin(store, f"turn of {entries}")
            before = store.size().bytes
            for number in range(entries):
                store.append(turn.claim, [NewEntry(Kind.MODEL, value=encode(f"{number:01000}"))])
            return store.size().bytes - before

        small, large = grown(20), grown(80)
        assert large <= 4 * small

    def test_what_is_tried_again_is_written_once(self, store: TurnStore) -> None:
        """Nobody said what became of it; others may have written meanwhile."""
        turn = begin(store)
        entries = [note("one"), NewEntry(Kind.MODEL, value=LARGE)]
        store.append(turn.claim, entries)
        store.append(turn.claim, [note("of another thread")])
        again = store.append(turn.claim, entries, turn.seq)
        assert (again, again.seq) == (store.get(turn.id), 3)

    def test_what_was_not_written_is_when_it_is_tried_again(self, store: TurnStore) -> None:
        turn = begin(store)
        store.append(turn.claim, [note("one"), note("of another thread"), note("two")])
        record = store.append(turn.claim, [note("one"), note("two")], turn.seq)
        assert (record.seq, store.append(turn.claim, [note("two")], record.seq).seq) == (5, 6)

    def test_whoever_has_lost_the_turn_does_not_learn_what_became_of_a_write(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        lost = begin(store)
        store.append(lost.claim, [note("one")])
        clock.advance(30)
        begin(store, owner="bob")
        with pytest.raises(StaleTurn):
            store.append(lost.claim, [note("one")], lost.seq)

    def test_whoever_has_lost_the_turn_writes_nothing(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        lost = begin(store)
        clock.advance(30)
        begin(store, owner="bob")
        self._refuses(store, lost.claim)

    def test_who_is_late_but_alone_may_write(self, store: TurnStore, clock: FakeClock) -> None:
        turn = begin(store)
        clock.advance(60)
        assert store.append(turn.claim, [note("late")]).seq == 1

    def test_a_sealed_turn_is_closed_to_whoever_does_it(self, store: TurnStore) -> None:
        turn = begin(store)
        store.append(turn.claim, [note("before")])
        sealed = store.seal(turn.claim, "the time is over")
        assert (sealed.state, sealed.reason) == (TurnState.SUSPENDED, "the time is over")
        self._refuses(store, turn.claim)
        assert [each.kind for each in store.read(turn.id)] == [Kind.NOTE, Kind.SEAL]

    def test_a_paused_turn_is_closed_too(self, store: TurnStore) -> None:
        turn = begin(store)
        store.pause(turn.claim, Pause(TurnState.WAITING, "for a person"), [note("last")])
        self._refuses(store, turn.claim)
        assert values(store, turn.id) == [encode("last")]

    def test_an_old_seal_takes_nothing_from_the_next_one(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        lost = begin(store)
        clock.advance(30)
        current = begin(store, owner="bob")
        with pytest.raises(StaleTurn):
            store.seal(lost.claim, "too late")
        assert store.append(current.claim, [note("goes on")]).state is TurnState.RUNNING

    @pytest.mark.parametrize("state", [TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED])
    def test_ends_are_final(self, store: TurnStore, state: TurnState) -> None:
        turn = begin(store)
        ended = store.finish(turn.claim, Ending(state, "why"), [note("last")])
        assert (ended.state, ended.reason, ended.ended) == (state, "why", store.now_ms())
        self._refuses(store, turn.claim)
        for act in (store.wake, lambda each: store.cancel(each, "now")):
            with pytest.raises(TurnEnded):
                act(turn.id)
        assert store.get(turn.id) == ended

    def test_a_refused_write_leaves_no_trace(self, store: TurnStore) -> None:
        turn = begin(store)
        size = store.size()
        with pytest.raises(StaleTurn):
            store.append(Claim(turn.id, turn.fence + 1), [NewEntry(Kind.MODEL, value=LARGE)])
        assert store.size() == size

    def _refuses(self, store: TurnStore, claim: Claim) -> None:
        before = store.get(claim.turn_id), values(store, claim.turn_id)
        pause, end = Pause(TurnState.WAITING, "x"), Ending(TurnState.DONE)
        with pytest.raises(StaleTurn):
            store.append(claim, [note("zombie")])
        with pytest.raises(StaleTurn):
            store.pause(claim, pause, [note("zombie")])
        with pytest.raises(StaleTurn):
            store.finish(claim, end, [note("zombie")])
        with pytest.raises(StaleTurn):
            store.seal(claim, "zombie")
        assert list(store.extend([claim], LEASE_MS)) == [False]
        assert (store.get(claim.turn_id), values(store, claim.turn_id)) == before
