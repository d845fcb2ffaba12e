"""Due turns: the store brings each of them back, once, in time, and wakes who waits."""

from __future__ import annotations

import threading

import pytest

from afl.clock import FakeClock
from afl.testing.contracts.turns.exam import (
    LEASE_MS,
    LOOP,
    Stores,
    TurnExam,
    accept,
    begin,
    note,
)
from afl.turns.api import Ending, Kind, NewEntry, Pause, TurnRecord, TurnState, TurnStore
from afl.turns.errors import StaleTurn
from afl.turns.values import encode


def claim(store: TurnStore, owner: str = "bob", limit: int = 10) -> list[TurnRecord]:
    return list(store.claim_due(LOOP, owner, LEASE_MS, limit))


class DueContract(TurnExam):
    def test_a_turn_that_the_store_brings_is_claimed_once(self, stores: Stores) -> None:
        turn = accept(stores(), is_due=True)
        assert [each.id for each in claim(stores())] == [turn.id]
        assert claim(stores(), "cy") == []

    def test_others_are_not_claimed(self, store: TurnStore) -> None:
        accept(store)
        accept(store, "two", is_due=True)
        assert list(store.claim_due("another loop", "bob", LEASE_MS, 10)) == []
        assert [each.key for each in claim(store)] == ["two"]

    def test_a_sleeping_turn_is_due_when_its_time_has_come(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        turn = begin(store)
        store.pause(turn.claim, Pause(TurnState.WAITING, "sleeps", 5_000))
        clock.advance(4.9)
        assert claim(store) == []
        clock.advance(0.1)
        assert [each.attempt for each in claim(store)] == [2]

    def test_the_longest_due_comes_first(self, store: TurnStore, clock: FakeClock) -> None:
        for key, due_in in (("late", 3000), ("first", 1000), ("second", 2000)):
            pause = Pause(TurnState.WAITING, "sleeps", due_in)
            store.pause(begin(store, key).claim, pause)
        clock.advance(10)
        assert [each.key for each in claim(store, limit=2)] == ["first", "second"]
        assert [each.key for each in claim(store)] == ["late"]

    def test_what_a_dead_owner_claimed_is_brought_back(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        accept(store, is_due=True)
        (lost,) = claim(store)
        clock.advance(20)
        assert list(store.extend([lost.claim], LEASE_MS)) == [True]
        clock.advance(20)
        assert claim(store, "cy") == []
        clock.advance(10)
        (again,) = claim(store, "cy")
        assert (again.owner, again.attempt) == ("cy", 2)
        with pytest.raises(StaleTurn):
            store.append(lost.claim, [note("zombie")])

    def test_what_was_begun_by_its_message_is_not(self, store: TurnStore, clock: FakeClock) -> None:
        begin(store)
        clock.advance(60)
        assert claim(store) == []

    def test_an_end_that_nobody_was_told_about_is_brought_back_until_somebody_was(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        accept(store, is_due=True)
        (turn,) = claim(store)
        store.finish(turn.claim, Ending(TurnState.DONE, is_answered=False))
        assert claim(store) == []
        assert store.prune(store.now_ms() + 1) == 0
        clock.advance(30)
        (untold,) = claim(store)
        assert (untold.state, untold.attempt) == (TurnState.DONE, 1)
        store.answered(turn.id)
        clock.advance(60)
        assert claim(store) == []
        assert store.prune(store.now_ms()) == 1

    def test_a_message_whose_turn_the_store_brought_to_its_end_is_relieved(
        self, store: TurnStore
    ) -> None:
        store.seal(begin(store, owner="message 1").claim, "drained")
        store.wake(store.list()[0].id)
        (turn,) = claim(store)
        ended = store.finish(turn.claim, Ending(TurnState.DONE, is_answered=False))
        assert ended.relieved == "message 1"

    def test_a_message_that_brings_its_turn_to_its_end_is_not(self, store: TurnStore) -> None:
        turn = accept(store, is_due=True)
        (held,) = claim(store)
        store.seal(held.claim, "drained")
        begun = store.begin(turn.id, "message 1", LEASE_MS)
        ended = store.finish(begun.claim, Ending(TurnState.DONE))
        assert (ended.relieved, ended.due) == ("", None)

    def test_whoever_the_store_would_tell_hears_of_a_cancellation(self, store: TurnStore) -> None:
        turn = accept(store, is_due=True)
        claim(store)
        store.cancel(turn.id, "not wanted")
        assert [each.state for each in claim(store)] == [TurnState.CANCELLED]

    def test_a_failure_that_is_tried_again_counts(self, store: TurnStore, clock: FakeClock) -> None:
        accept(store, is_due=True)
        counts = []
        for _ in range(3):
            (turn,) = claim(store)
            counts.append(turn.barren)
            pause = Pause(TurnState.SUSPENDED, "failed", 1000, is_failure=True)
            store.pause(turn.claim, pause)
            clock.advance(1)
        store.seal(claim(store)[0].claim, "drained", 0)
        assert (counts, claim(store)[0].barren) == ([1, 2, 3], 1)

    def test_a_failure_counts_also_if_the_attempt_got_further(self, store: TurnStore) -> None:
        accept(store, is_due=True)
        counts = []
        for number in range(3):
            (turn,) = claim(store)
            counts.append(turn.barren)
            store.append(turn.claim, [NewEntry(Kind.MODEL, value=encode(number))])
            pause = Pause(TurnState.SUSPENDED, "failed", 0, is_failure=True, barren=turn.barren)
            store.pause(turn.claim, pause)
        assert counts == [1, 2, 3]

    # Waiting

    def test_who_waits_hears_of_a_due_turn_at_once(self, stores: Stores, clock: FakeClock) -> None:
        waiting = self.begin_background(lambda: stores().wait_due(LOOP, None, threading.Event()))
        clock.wait_for_waiters(1)
        accept(stores(), is_due=True)
        assert waiting.answer()

    def test_who_waits_hears_of_a_time_that_comes(self, stores: Stores, clock: FakeClock) -> None:
        store = stores()
        store.pause(begin(store).claim, Pause(TurnState.WAITING, "sleeps", 500))
        waiting = self.begin_background(lambda: store.wait_due(LOOP, None, threading.Event()))
        clock.wait_for_waiters(1)
        clock.advance(0.5)
        assert waiting.answer()

    def test_a_wait_ends_with_its_time_and_with_a_stop(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        stop = threading.Event()
        timed = self.begin_background(lambda: store.wait_due(LOOP, 0.5, threading.Event()))
        clock.wait_for_waiters(1)
        clock.advance(0.5)
        assert not timed.answer()
        stopped = self.begin_background(lambda: store.wait_due(LOOP, None, stop))
        clock.wait_for_waiters(1)
        stop.set()
        assert not stopped.answer()

    def test_a_wait_ends_with_the_store(self, stores: Stores, clock: FakeClock) -> None:
        store = stores()
        waiting = self.begin_background(lambda: store.wait_due(LOOP, None, threading.Event()))
        clock.wait_for_waiters(1)
        store.close()
        assert not waiting.answer()

    def test_who_follows_a_turn_hears_of_each_change(
        self, stores: Stores, clock: FakeClock
    ) -> None:
        store = stores()
        turn = begin(store)
        waiting = self.begin_background(lambda: stores().wait_news(turn, None, threading.Event()))
        clock.wait_for_waiters(1)
        store.append(turn.claim, [note("news")])
        assert waiting.answer()
        assert store.wait_news(turn, None, threading.Event())

    def test_who_watches_a_turn_is_called_until_that_is_enough(self, stores: Stores) -> None:
        store, other = stores(), stores()
        turn, beside = begin(store), begin(store, "two")
        told, told_beside = threading.Event(), threading.Event()
        end = other.watch(turn.id, told.set)
        other.watch(beside.id, told_beside.set)
        turn = store.append(turn.claim, [note("news")])
        assert told.wait(self.patience_s)
        assert self.has_late_news or not told_beside.is_set()
        end()
        for _ in range(2):  # once for what was just being told
            told.clear()
            told_beside.clear()
            turn = store.append(turn.claim, [note("more")])
            beside = store.append(beside.claim, [note("news")])
            # One after the other: the second is heard, so the first would have been.
            assert told_beside.wait(self.patience_s)
        assert not told.is_set()

    def test_who_watches_a_turn_is_called_when_the_store_is_closed(self, stores: Stores) -> None:
        store = stores()
        told = threading.Event()
        end = store.watch(begin(store).id, told.set)
        store.close()
        assert told.wait(self.patience_s)
        end()
