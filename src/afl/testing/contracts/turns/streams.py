"""Streams: what models say comes in its order, once, and what is void is called so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from afl.clock import FakeClock
from afl.testing.contracts.turns.exam import (
    LEASE_MS,
    LOOP,
    Stores,
    TurnExam,
    begin,
    intent,
    note,
)
from afl.turns.api import (
    Delta,
    Ending,
    Entry,
    Kind,
    NewEntry,
    Pause,
    TurnRecord,
    TurnState,
    TurnStore,
)
from afl.turns.errors import StaleTurn, TurnNotFound
from afl.turns.values import encode

Ways = Callable[[TurnStore, TurnRecord], object]


def model(call_id: str = "model", text: str = "hello") -> NewEntry:
    return NewEntry(Kind.MODEL, call_id=call_id, value=encode(text))


def say(store: TurnStore, turn: TurnRecord, *words: str | None) -> TurnRecord:
    for each in words:
        turn = store.stream(turn.claim, turn.seq, "model", each)
    return turn


def events(
    store: TurnStore, turn_id: str, place: tuple[int, int] = (0, 0)
) -> list[str | Kind | None]:
    found = store.read_stream(turn_id, *place)
    return [each.text if isinstance(each, Delta) else each.kind for each in found]


def long_stream(store: TurnStore) -> TurnRecord:
    """With more rows of each kind than anybody reads at once."""
    turn = begin(store)
    for number in range(120):
        turn = store.stream(turn.claim, 0, "model", f"{number}")
    large = [NewEntry(Kind.NOTE, value=encode(f"{number}" * 400)) for number in range(60)]
    turn = store.append(turn.claim, [*large, *(note(f"{number}") for number in range(60))])
    return say(store, turn, *map(str, range(10)))


def place_of(event: Entry | Delta) -> tuple[int, int]:
    """As whoever has seen nothing but this event would say it."""
    return (event.seq, 0) if isinstance(event, Entry) else (event.after, event.number)


#: How a turn is taken from whoever does it, or left.
ENDS: dict[str, Ways] = {
    "begun": lambda store, turn: store.begin(turn.id, turn.owner, LEASE_MS),
    "sealed": lambda store, turn: store.seal(turn.claim, "drained"),
    "paused": lambda store, turn: store.pause(turn.claim, Pause(TurnState.WAITING, "sleeps")),
    "failed": lambda store, turn: store.pause(
        turn.claim, Pause(TurnState.SUSPENDED, "failed", 0, is_failure=True)
    ),
    "handed over": lambda store, turn: store.pause(
        turn.claim, Pause(TurnState.SUSPENDED, "goes on", 0, handed_to="bob")
    ),
    "finished": lambda store, turn: store.finish(turn.claim, Ending(TurnState.FAILED)),
    "cancelled": lambda store, turn: store.cancel(turn.id, "not wanted"),
}


class StreamContract(TurnExam):
    def test_words_that_are_said_again_are_heard_once(self, store: TurnStore) -> None:
        """Nobody said what became of them; meanwhile there are more."""
        turn = begin(store)
        say(store, turn, "hel")
        store.append(turn.claim, [note("aside")])
        for _ in range(2):
            store.stream(turn.claim, 1, "model", "hello", turn.streamed)
        assert events(store, turn.id) == ["hel", Kind.NOTE, "lo"]

    def test_words_that_were_void_may_be_said_again(self, store: TurnStore) -> None:
        turn = begin(store)
        say(store, turn, "hel", None)
        store.stream(turn.claim, 0, "model", "hello", turn.streamed)
        assert events(store, turn.id) == ["hel", None, "hello"]

    def test_any_text_can_be_said_and_kept(self, store: TurnStore) -> None:
        odd = "nothing \0, \ue000, \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")
        turn = say(store, begin(store), odd, "$a.b")
        entry = NewEntry(Kind.NOTE, odd, "$call.id", odd, encode({"$a.b": odd}))
        ended = store.finish(turn.claim, Ending(TurnState.FAILED, odd), [entry])
        (kept,) = store.read(turn.id)
        assert (kept.name, kept.call_id, kept.arguments) == (odd, "$call.id", odd)
        assert (kept.value, store.get(turn.id)) == (entry.value, ended)
        assert events(store, turn.id)[:2] == [odd, "$a.b"]

    def test_words_come_back_as_they_were_said(self, store: TurnStore, stores: Stores) -> None:
        turn = say(store, begin(store), "hel", "lo ü")
        first, second = stores().read_stream(turn.id)
        now = store.now_ms()
        assert first == Delta(turn.id, 0, 1, "model", "hel", turn.fence, now)
        assert second == Delta(turn.id, 0, 2, "model", "lo ü", turn.fence, now)
        assert (turn.streamed, turn.seq) == (2, 0)

    def test_deltas_come_between_the_entries_around_them(self, store: TurnStore) -> None:
        turn = store.append(begin(store).claim, [note("x")])
        turn = say(store, turn, "a", "b")
        turn = say(store, store.append(turn.claim, [model()]), "c")
        assert events(store, turn.id) == [Kind.NOTE, "a", "b", Kind.MODEL, "c"]
        assert [each.seq for each in store.read(turn.id)] == [1, 2]

    def test_who_has_lost_the_turn_says_nothing(self, store: TurnStore, clock: FakeClock) -> None:
        lost = begin(store)
        clock.advance(30)
        begin(store, owner="bob")
        with pytest.raises(StaleTurn):
            say(store, lost, "zombie")
        assert events(store, lost.id) == []

    def test_a_turn_that_is_left_says_nothing(self, store: TurnStore) -> None:
        turn = begin(store)
        store.seal(turn.claim, "drained")
        with pytest.raises(StaleTurn):
            say(store, turn, "zombie")

    def test_words_that_come_after_the_answer_are_refused(self, store: TurnStore) -> None:
        turn = say(store, begin(store), "a")
        store.append(turn.claim, [model()])
        with pytest.raises(StaleTurn):
            say(store, turn, "late")
        assert events(store, turn.id) == ["a", Kind.MODEL]

    # What is void

    @pytest.mark.parametrize("way", ENDS)
    def test_words_without_an_answer_are_void_once_the_turn_is(
        self, store: TurnStore, way: str
    ) -> None:
        turn = say(store, begin(store), "a", "b")
        ENDS[way](store, turn)
        said = [each for each in store.read_stream(turn.id) if isinstance(each, Delta)]
        assert [(each.call_id, each.text) for each in said] == [
            ("model", "a"),
            ("model", "b"),
            ("model", None),
        ]
        assert {each.after for each in said} == {0}
        assert store.get(turn.id).streamed == 3

    def test_they_are_void_for_whoever_comes_when_the_owner_is_dead(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        turn = say(store, begin(store), "a")
        clock.advance(30)
        taken = begin(store, owner="bob")
        mark = store.read_stream(turn.id)[-1]
        assert isinstance(mark, Delta)
        assert (mark.text, mark.fence) == (None, taken.fence)
        say(store, taken, "anew")
        assert events(store, turn.id) == ["a", None, "anew"]

    def test_they_are_void_when_the_store_brings_the_turn_back(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        store.pause(begin(store).claim, Pause(TurnState.WAITING, "sleeps", 0))
        (turn,) = store.claim_due(LOOP, "ann", LEASE_MS, 1)
        say(store, turn, "a")
        clock.advance(30)
        store.claim_due(LOOP, "bob", LEASE_MS, 1)
        assert events(store, turn.id) == ["a", None]

    def test_they_are_void_when_an_operator_wakes_the_turn(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        turn = say(store, begin(store), "a")
        clock.advance(30)
        store.wake(turn.id)
        assert events(store, turn.id) == ["a", None]

    def test_void_is_said_once(self, store: TurnStore) -> None:
        turn = say(store, begin(store), "a")
        store.seal(turn.claim, "drained")
        begin(store)
        begin(store)
        assert events(store, turn.id) == ["a", None, Kind.SEAL]

    def test_an_answer_in_the_journal_makes_its_words_good(self, store: TurnStore) -> None:
        turn = say(store, begin(store), "hel")
        store.append(turn.claim, [model()])
        begin(store)
        assert events(store, turn.id) == ["hel", Kind.MODEL]

    def test_a_remark_in_the_middle_changes_nothing(self, store: TurnStore) -> None:
        turn = say(store, begin(store), "a")
        turn = say(store, store.append(turn.claim, [note("x")]), "b")
        assert events(store, turn.id) == ["a", Kind.NOTE, "b"]
        begin(store)
        assert events(store, turn.id) == ["a", Kind.NOTE, "b", None]

    @pytest.mark.parametrize("entry", [intent("c1"), model("model#2")])
    def test_who_goes_on_without_an_answer_has_said_nothing(
        self, store: TurnStore, entry: NewEntry
    ) -> None:
        turn = say(store, begin(store), "a")
        store.append(turn.claim, [entry])
        assert events(store, turn.id) == ["a", None, entry.kind]

    def test_another_call_makes_the_words_of_the_last_one_void(self, store: TurnStore) -> None:
        turn = say(store, begin(store), "a")
        store.stream(turn.claim, turn.seq, "model#2", "b")
        found = store.read_stream(turn.id)
        said = [(each.call_id, each.text) for each in found if isinstance(each, Delta)]
        assert said == [("model", "a"), ("model", None), ("model#2", "b")]

    def test_a_model_that_begins_anew_says_so(self, store: TurnStore) -> None:
        turn = say(store, begin(store), None, "a", None, None, "b")
        store.stream(turn.claim, turn.seq, "another", None)
        store.append(turn.claim, [model()])
        assert events(store, turn.id) == ["a", None, "b", Kind.MODEL]

    def test_words_alone_are_no_progress(self, store: TurnStore) -> None:
        for _ in range(2):
            say(store, begin(store), "a")
        assert begin(store).barren == 3

    # News, and what it costs

    def test_who_follows_a_turn_hears_each_word(self, stores: Stores, clock: FakeClock) -> None:
        store = stores()
        turn = begin(store)
        waiting = self.begin_background(lambda: stores().wait_news(turn, None, threading.Event()))
        clock.wait_for_waiters(1)
        say(store, turn, "a")
        assert waiting.answer()

    def test_a_stream_is_pruned_with_its_turn(self, store: TurnStore, clock: FakeClock) -> None:
        empty = store.size()
        turn = begin(store)
        before = store.size().bytes
        turn = say(store, turn, "four", "ü")
        assert store.size().bytes == before + 6
        store.finish(turn.claim, Ending(TurnState.DONE), [model()])
        clock.advance(1)
        assert store.prune(store.now_ms()) == 1
        assert store.size() == empty
        assert events(store, begin(store).id) == []


class StreamPlaceContract(TurnExam):
    """From where on it is read, and how far."""

    def test_a_stream_is_read_from_any_place(self, store: TurnStore) -> None:
        turn = say(store, begin(store), "a", "b")
        turn = say(store, store.append(turn.claim, [model(), note("x")]), "c", "d")
        store.append(turn.claim, [model()])
        whole = store.read_stream(turn.id)
        assert len(whole) == 7
        for index, each in enumerate(whole, start=1):
            assert list(store.read_stream(turn.id, *place_of(each))) == whole[index:]

    def test_a_stream_is_read_in_parts_as_large_as_they_may_be(self, store: TurnStore) -> None:
        turn = long_stream(store)
        whole = list(store.read_stream(turn.id))
        seen = [(each.number if isinstance(each, Delta) else -each.seq) for each in whole]
        assert seen == [*range(1, 121), *range(-1, -121, -1), *range(121, 131)]
        for most_bytes in (0, 5_000, whole[0].size * 110, 10_000_000):
            place, parts = (0, 0), list[Entry | Delta]()
            while part := store.read_stream(turn.id, *place, most_bytes=most_bytes):
                assert sum(each.size for each in part[:-1]) <= most_bytes
                parts += part
                place = place_of(part[-1])
                is_last = len(parts) == len(whole)
                assert is_last or sum(each.size for each in part) > most_bytes
            assert parts == whole

    def test_deltas_before_an_entry_may_be_known_with_it(self, store: TurnStore) -> None:
        turn = say(store, begin(store), "a", "b")
        turn = say(store, store.append(turn.claim, [model()]), "c")
        assert events(store, turn.id, (1, 2)) == events(store, turn.id, (1, 0)) == ["c"]

    def test_a_stream_of_nobody_is_not_found(self, store: TurnStore) -> None:
        with pytest.raises(TurnNotFound):
            store.read_stream("nobody")


class TakerContract(TurnExam):
    def test_who_is_ready_is_named_until_it_withdraws(self, stores: Stores) -> None:
        store = stores()
        assert list(store.takers(LOOP)) == []
        store.announce(LOOP, "bob", LEASE_MS)
        store.announce(LOOP, "ann", LEASE_MS)
        store.announce("another loop", "cy", LEASE_MS)
        assert list(stores().takers(LOOP)) == ["ann", "bob"]
        store.withdraw(LOOP, "ann")
        store.withdraw(LOOP, "ann")
        assert list(stores().takers(LOOP)) == ["bob"]

    def test_who_is_silent_is_ready_no_more(self, store: TurnStore, clock: FakeClock) -> None:
        store.announce(LOOP, "ann", LEASE_MS)
        store.announce(LOOP, "bob", LEASE_MS)
        clock.advance(20)
        store.announce(LOOP, "bob", LEASE_MS)
        clock.advance(10)
        assert list(store.takers(LOOP)) == ["bob"]

    def test_who_has_said_so_before_somebody_asked_is_told_from_who_answers(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        store.announce(LOOP, "ann", LEASE_MS)
        store.announce(LOOP, "bob", LEASE_MS)
        clock.advance(1)
        asked = store.now_ms()
        waiting = self.begin_background(
            lambda: store.wait_takers(LOOP, [], None, threading.Event(), asked)
        )
        clock.wait_for_waiters(1)
        assert list(store.takers(LOOP, asked)) == []
        store.announce(LOOP, "bob", LEASE_MS, is_news=True)
        assert waiting.answer()
        assert list(store.takers(LOOP, asked)) == ["bob"]

    def test_a_clock_that_is_set_back_makes_nobody_ready_for_longer(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        store.announce(LOOP, "ann", LEASE_MS)
        clock.set_wall(clock.now() - timedelta(days=1))
        assert list(store.takers(LOOP)) == []

    def test_who_waits_hears_of_a_taker_at_once(self, stores: Stores, clock: FakeClock) -> None:
        store = stores()
        store.announce(LOOP, "ann", LEASE_MS)

        def wait(known: list[str]) -> bool:
            return stores().wait_takers(LOOP, known, None, threading.Event())

        waiting = self.begin_background(lambda: wait(["ann"]))
        clock.wait_for_waiters(1)
        store.announce(LOOP, "bob", LEASE_MS)
        assert waiting.answer()
        waiting = self.begin_background(lambda: wait(["bob", "ann"]))
        clock.wait_for_waiters(1)
        store.withdraw(LOOP, "ann")
        assert waiting.answer()

    def test_the_wait_for_takers_ends_with_its_time_and_with_a_stop(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        timed = self.begin_background(lambda: store.wait_takers(LOOP, [], 0.5, threading.Event()))
        clock.wait_for_waiters(1)
        clock.advance(0.5)
        assert not timed.answer()
        stop = threading.Event()
        stopped = self.begin_background(lambda: store.wait_takers(LOOP, [], None, stop))
        clock.wait_for_waiters(1)
        stop.set()
        assert not stopped.answer()
