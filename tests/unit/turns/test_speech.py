"""What a model says on the way to its answer: soon, in few pieces, and never in anybody's way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import StoreUnavailable, UsageError
from afl.runtime.lifecycle import wait_until
from afl.turns import Delta, Kind, MemoryTurns, NewTurn, StaleTurn, Turn, TurnRecord
from afl.turns.speech import OUTAGE_S, PACE_S
from afl.turns.values import encode

PATIENCE_S = 20.0


class Life:
    """A turn whose model speaks as a test tells it to."""

    def __init__(self, store: MemoryTurns, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.id = store.accept(NewTurn("loop", encode("hello"))).id
        self.turn = self.begin()

    def begin(self) -> Turn:
        record = self.store.begin(self.id, "ann", 30_000)
        return Turn(self.store, record, clock=self.clock)

    @property
    def events(self) -> list[Any]:
        found = self.store.read_stream(self.id)
        return [each.text if isinstance(each, Delta) else each.kind for each in found]

    def comes_to(self, *events: Any) -> None:
        assert wait_until(
            lambda: self.events == list(events), timeout=PATIENCE_S, poll_interval=0.002
        ), self.events

    def pass_time(self, seconds: float = PACE_S) -> None:
        """Once somebody waits for it."""
        self.clock.wait_for_waiters(1)
        self.clock.advance(seconds)


def come_to_rest() -> None:
    """Nobody is left who would write words."""

    def is_over() -> bool:
        return all(each.name != "turn-words" for each in threading.enumerate())

    assert wait_until(is_over, timeout=PATIENCE_S, poll_interval=0.002)


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    clock = FakeClock()
    yield clock
    # Who waits for the time of words that nobody wants any more.
    clock.advance(60)
    come_to_rest()


@pytest.fixture
def life(clock: FakeClock) -> Life:
    return Life(MemoryTurns(clock=clock), clock)


def test_the_first_words_are_there_at_once_and_the_others_come_together(life: Life) -> None:
    def ask() -> str:
        life.turn.stream("a")
        life.comes_to("a")
        for each in "bcd":
            life.turn.stream(each)
        life.pass_time()
        life.comes_to("a", "bcd")
        return "abcd"

    assert life.turn.model(ask) == "abcd"
    assert life.events == ["a", "bcd", Kind.MODEL]


def test_words_have_the_name_that_their_answer_has(life: Life) -> None:
    def ask() -> str:
        life.turn.stream("a")
        life.comes_to(Kind.MODEL, "a")
        return "a"

    life.turn.model(lambda: "first")
    life.turn.model(ask)
    _, said, answer = life.store.read_stream(life.id)
    assert isinstance(said, Delta)
    assert said.call_id == answer.call_id == "model#2"


def test_what_was_not_written_in_time_is_never_written(life: Life) -> None:
    def ask() -> str:
        life.turn.stream("a")
        life.comes_to("a")
        life.turn.stream("b")
        life.clock.wait_for_waiters(1)
        return "ab"

    life.turn.model(ask)
    life.clock.advance(PACE_S)
    come_to_rest()
    assert life.events == ["a", Kind.MODEL]


def test_a_model_that_begins_anew_takes_its_words_back(life: Life) -> None:
    def ask() -> str:
        life.turn.stream("wrong")
        life.comes_to("wrong")
        life.turn.stream(" and more")
        life.turn.hear_again()
        life.turn.stream("right")
        life.pass_time()
        life.comes_to("wrong", None, "right")
        return "right"

    life.turn.model(ask)
    assert life.events == ["wrong", None, "right", Kind.MODEL]


def test_what_is_void_is_called_so_before_the_answer_is_there(life: Life) -> None:
    def ask() -> str:
        life.turn.stream("wrong")
        life.comes_to("wrong")
        life.turn.hear_again()
        life.turn.stream("right")
        life.clock.wait_for_waiters(1)
        return "right"

    life.turn.model(ask)
    assert life.events == ["wrong", None, Kind.MODEL]


def test_words_of_a_call_that_fails_are_void_soon(life: Life) -> None:
    def ask() -> str:
        life.turn.stream("half")
        life.comes_to("half")
        raise ValueError("cut")

    with pytest.raises(ValueError, match="cut"):
        life.turn.model(ask)
    life.pass_time()
    life.comes_to("half", None)


def test_an_answer_that_cannot_be_kept_has_said_nothing(life: Life) -> None:
    def ask() -> object:
        life.turn.stream("half")
        life.comes_to("half")
        return object()

    with pytest.raises(UsageError):
        life.turn.model(ask)
    life.pass_time()
    life.comes_to("half", None)


def test_remarks_may_come_in_between(life: Life) -> None:
    def ask() -> str:
        life.turn.stream("a")
        life.comes_to("a")
        life.turn.note("x")
        life.turn.stream("b")
        life.pass_time()
        life.comes_to("a", Kind.NOTE, "b")
        return "ab"

    life.turn.model(ask)
    assert life.events == ["a", Kind.NOTE, "b", Kind.MODEL]


def test_only_models_speak(life: Life) -> None:
    with pytest.raises(UsageError, match="within the call of model"):
        life.turn.stream("a")
    life.turn.model(lambda: "x")
    with pytest.raises(UsageError):
        life.turn.stream("a")


def test_an_answer_from_the_journal_says_nothing(life: Life) -> None:
    life.turn.model(lambda: "answer")
    again = life.begin()
    assert again.model(lambda: again.stream("never")) == "answer"
    assert life.events == [Kind.MODEL]


# What must not be disturbed


def test_who_has_lost_the_turn_learns_it_from_the_journal_and_not_from_words(life: Life) -> None:
    others: list[Turn] = []

    def ask() -> str:
        others.append(life.begin())
        for each in "abc":
            life.turn.stream(each)
        return "abc"

    with pytest.raises(StaleTurn):
        life.turn.model(ask)
    others[0].model(lambda: "answer")
    assert life.events == [Kind.MODEL]


class Broken(MemoryTurns):
    """Takes words only while it is whole; may take its time for them."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.problem: Exception | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.tries = threading.Semaphore(0)

    def stream(self, *args: Any) -> TurnRecord:
        self.tries.release()
        assert self.may_go_on.wait(PATIENCE_S)
        if self.problem is not None:
            raise self.problem
        return super().stream(*args)


@pytest.fixture
def broken(clock: FakeClock) -> Iterator[Life]:
    store = Broken(clock)
    yield Life(store, clock)
    store.may_go_on.set()


def store_of(life: Life) -> Broken:
    assert isinstance(life.store, Broken)
    return life.store


def test_words_that_cannot_be_written_for_a_while_come_later(broken: Life) -> None:
    store = store_of(broken)

    def ask() -> str:
        store.problem = StoreUnavailable("away")
        broken.turn.stream("a")
        assert store.tries.acquire(timeout=PATIENCE_S)
        broken.turn.stream("b")
        store.problem = None
        broken.pass_time(OUTAGE_S)
        broken.comes_to("ab")
        return "ab"

    assert broken.turn.model(ask) == "ab"


@pytest.mark.parametrize("problem", [StoreUnavailable("away"), ValueError("a mistake")])
def test_a_call_does_not_fail_because_of_its_words(broken: Life, problem: Exception) -> None:
    store = store_of(broken)

    def ask() -> str:
        store.problem = problem
        broken.turn.stream("a")
        assert store.tries.acquire(timeout=PATIENCE_S)
        broken.turn.stream("b")
        return "ab"

    assert broken.turn.model(ask) == "ab"
    assert broken.events == [Kind.MODEL]


def test_nobody_waits_for_a_store_that_is_slow(broken: Life) -> None:
    store = store_of(broken)

    def ask() -> str:
        store.may_go_on.clear()
        broken.turn.stream("a")
        assert store.tries.acquire(timeout=PATIENCE_S)
        for _ in range(1000):
            broken.turn.stream("b")
        return "answer"

    broken.turn.model(ask)
    assert broken.events == [Kind.MODEL]
    store.may_go_on.set()
    come_to_rest()
    assert broken.events == [Kind.MODEL]


def test_many_speak_at_once_with_few_threads(clock: FakeClock) -> None:
    store = MemoryTurns(clock=clock)
    lives = [Life(store, clock) for _ in range(50)]

    def speaking(index: int) -> Callable[[], str]:
        def ask() -> str:
            lives[index].turn.stream("a")
            if index + 1 < len(lives):
                lives[index + 1].turn.model(speaking(index + 1))
            else:
                writers = [each.name == "turn-words" for each in threading.enumerate()]
                assert sum(writers) <= 4
                for each in lives:
                    each.comes_to("a", *each.events[1:])
            return "a"

        return ask

    lives[0].turn.model(speaking(0))
    assert all(each.events == ["a", Kind.MODEL] for each in lives)
    come_to_rest()
