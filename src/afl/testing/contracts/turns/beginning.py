"""Accepting and beginning: the same key is the same turn, and one does it at a time."""

from __future__ import annotations

import pytest

from afl.clock import FakeClock
from afl.testing.contracts.turns.exam import LEASE_MS, LOOP, Stores, TurnExam, accept, begin
from afl.turns.api import Ending, Kind, NewEntry, NewTurn, Pause, TurnState, TurnStore
from afl.turns.errors import (
    KeyReused,
    TurnBusy,
    TurnEnded,
    TurnNotFound,
    TurnNotReady,
)
from afl.turns.values import encode


class BeginningContract(TurnExam):
    def test_a_turn_is_accepted_as_it_was_asked(self, store: TurnStore) -> None:
        turn = accept(store, reply_to="answers")
        assert (turn.state, turn.key, turn.reply_to) == (TurnState.ACCEPTED, "one", "answers")
        assert store.value(turn.request) == encode("hello")
        assert store.get(turn.id) == turn

    def test_the_same_key_is_the_same_turn_whoever_asks(self, stores: Stores) -> None:
        first, second = accept(stores()), accept(stores())
        assert first.id == second.id
        assert accept(stores(), "two").id != first.id

    def test_without_a_key_each_request_is_a_turn(self, store: TurnStore) -> None:
        assert accept(store, None).id != accept(store, None).id

    def test_a_key_stands_for_one_request_of_one_loop(self, store: TurnStore) -> None:
        accept(store)
        with pytest.raises(KeyReused):
            store.accept(NewTurn(LOOP, encode("other"), "one"))
        assert store.accept(NewTurn("another loop", encode("other"), "one")).seq == 0

    def test_a_turn_that_is_not_there_is_not_found(self, store: TurnStore) -> None:
        for ask in (store.get, store.read, store.wake, lambda each: store.begin(each, "ann", 1)):
            with pytest.raises(TurnNotFound):
                ask("nobody")

    def test_each_beginning_raises_the_fence(self, store: TurnStore) -> None:
        first = begin(store)
        again = begin(store)
        assert (first.state, first.owner, first.attempt) == (TurnState.RUNNING, "ann", 1)
        assert (again.attempt, again.fence > first.fence) == (2, True)

    def test_while_one_does_it_others_are_told_how_long(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        begin(store)
        clock.advance(10)
        with pytest.raises(TurnBusy) as busy:
            begin(store, owner="bob")
        assert busy.value.seconds_left == 20

    def test_when_the_lease_is_over_anybody_may_begin(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        begin(store)
        clock.advance(30)
        assert begin(store, owner="bob").owner == "bob"

    def test_a_lease_that_is_renewed_holds(self, store: TurnStore, clock: FakeClock) -> None:
        turn = begin(store)
        clock.advance(20)
        assert list(store.extend([turn.claim], LEASE_MS)) == [True]
        clock.advance(20)
        with pytest.raises(TurnBusy):
            begin(store, owner="bob")

    def test_only_the_current_claim_is_renewed(self, store: TurnStore) -> None:
        old = begin(store)
        new = begin(store)
        other = begin(store, "two")
        claims = [old.claim, new.claim, other.claim]
        assert list(store.extend(claims, LEASE_MS)) == [False, True, True]

    def test_a_clock_that_is_set_back_makes_no_lease_longer(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        from datetime import timedelta

        begin(store)
        clock.set_wall(clock.now() - timedelta(days=1))
        assert begin(store, owner="bob").owner == "bob"

    def test_an_owner_takes_its_turn_back_at_once(self, store: TurnStore) -> None:
        lost = begin(store)
        begin(store)
        assert list(store.extend([lost.claim], LEASE_MS)) == [False]

    def test_beginnings_in_vain_are_counted_until_one_gets_further(self, store: TurnStore) -> None:
        assert [begin(store).barren for _ in range(3)] == [1, 2, 3]
        turn = store.append(begin(store).claim, [NewEntry(Kind.MODEL, value=encode("hi"))])
        assert (turn.barren, begin(store).barren) == (0, 1)

    def test_remarks_get_a_turn_no_further(self, store: TurnStore) -> None:
        for kind in (Kind.NOTE, Kind.MEMORY):
            turn = begin(store)
            assert store.append(turn.claim, [NewEntry(kind)]).barren == turn.barren
        assert begin(store).barren == 3

    def test_a_turn_that_is_over_is_not_begun(self, store: TurnStore) -> None:
        done = store.finish(begin(store).claim, Ending(TurnState.DONE, result=encode(42)))
        with pytest.raises(TurnEnded) as end:
            begin(store)
        assert end.value.turn == done
        assert store.value(done.result or "") == b"42"

    @pytest.mark.parametrize("state", [TurnState.WAITING, TurnState.MISMATCHED])
    def test_a_turn_that_waits_is_not_begun(self, store: TurnStore, state: TurnState) -> None:
        store.pause(begin(store).claim, Pause(state, "for a person"))
        with pytest.raises(TurnNotReady, match="for a person"):
            begin(store)

    def test_a_suspended_turn_is_begun_by_anybody(self, store: TurnStore) -> None:
        store.pause(begin(store).claim, Pause(TurnState.SUSPENDED, "drained"))
        assert begin(store, owner="bob").attempt == 2
