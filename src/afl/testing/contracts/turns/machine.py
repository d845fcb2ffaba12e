"""A turn store under workers and operators who do anything in any order, next to a model of it.

Workers crash, come too late with old claims, and begin again what they have lost. Hypothesis looks
for an order of events in which the store and the model disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from afl.clock import FakeClock
from afl.testing.contracts.turns.exam import LOOP, note
from afl.turns.api import (
    Claim,
    Delta,
    Ending,
    Entry,
    Kind,
    NewEntry,
    NewTurn,
    Pause,
    TurnRecord,
    TurnState,
    TurnStore,
)
from afl.turns.errors import (
    AlreadyAnswered,
    NothingAsked,
    StaleTurn,
    TurnBusy,
    TurnEnded,
    TurnError,
    TurnNotReady,
)
from afl.turns.values import encode

OWNERS = ["one", "two"]
KEYS = ["a", "b", "c"]
LEASE_MS = 10_000
PAUSES = [
    Pause(TurnState.SUSPENDED, "drained"),
    Pause(TurnState.SUSPENDED, "drained", 0),
    Pause(TurnState.SUSPENDED, "goes on", 0, handed_to="two"),
    Pause(TurnState.WAITING, "sleeps", 15_000),
    Pause(TurnState.MISMATCHED, "changed"),
]
ENDINGS = [
    Ending(TurnState.DONE),
    Ending(TurnState.FAILED),
    Ending(TurnState.DONE, is_answered=False),
]
_LARGE = 1000
CALLS = ["model", "model#2"]

#: A journal entry by its value, or what a call of a model has said.
Heard: TypeAlias = bytes | tuple[str, str | None]


@dataclass(eq=False)
class ModelTurn:
    """What must be true of a turn."""

    id: str
    state: TurnState = TurnState.ACCEPTED
    #: The one that may write; None if nobody may.
    claim: Claim | None = None
    owner: str = ""
    until: int = 0
    due: int | None = None
    stream: list[Heard] = field(default_factory=list)
    #: The call of which a part was heard.
    saying: str = ""
    is_asking: bool = False
    answer: bytes | None = None
    #: Nobody has answered in time.
    is_expired: bool = False
    #: The answer came while somebody did the turn, who does not know of it.
    has_news: bool = False
    claims: int = 0

    def refusal(self, owner: str, now: int) -> type[TurnError] | None:
        """Why it cannot be begun."""
        if self.state.is_end:
            return TurnEnded
        if self.is_held(now) and self.owner != owner:
            return TurnBusy
        is_due = self.due is not None and self.due <= now
        if self.state is TurnState.MISMATCHED or (self.state is TurnState.WAITING and not is_due):
            return TurnNotReady
        return None

    def is_held(self, now: int) -> bool:
        return self.state is TurnState.RUNNING and now < self.until

    @property
    def journal(self) -> list[bytes]:
        return [each for each in self.stream if isinstance(each, bytes)]

    def take_back(self) -> None:
        """Nobody may believe what was said and not answered."""
        if self.saying:
            self.stream.append((self.saying, None))
        self.saying = ""

    def begin(self, record: TurnRecord, owner: str, now: int) -> None:
        assert record.claim != self.claim, "an old claim came back"
        self.take_back()
        self.state, self.owner, self.claim = TurnState.RUNNING, owner, record.claim
        self.until, self.due, self.has_news = now + LEASE_MS, None, False
        self.claims += 1

    def rest(self, state: TurnState, due: int | None) -> None:
        self.take_back()
        self.state, self.claim, self.owner, self.due = state, None, "", due

    def wait(self, due: int | None, now: int) -> None:
        self.rest(TurnState.WAITING, now if self.has_news else due)


class TurnMachine(RuleBasedStateMachine):
    """Give it stores by `open_store`; it closes them in the end."""

    def open_store(self, clock: FakeClock) -> TurnStore:
        """Another object on the same turns, of which there are none at first."""
        raise NotImplementedError("return a store on this clock")

    @initialize()
    def start(self) -> None:
        self.clock = FakeClock()
        self.stores = [self.open_store(self.clock) for _ in OWNERS]
        self.turns: dict[str, ModelTurn] = {}
        #: Claims that workers believe to have: they never learn that they lost one.
        self.believed: list[Claim] = []
        #: How far whoever has such a claim has read.
        self.known: dict[Claim, int] = {}
        self.written = 0
        for key in KEYS[:2]:
            self.accept(key, is_due=key == "a")
            self.begin(key, OWNERS[0])
        self.say(0, CALLS[0], "a", is_late=False)
        self._begin_while_asking()

    def _begin_while_asking(self) -> None:
        """The last of them is done again, although nobody has answered what it asks."""
        self.ask(len(self.believed) - 1)
        self.wake(KEYS[1])
        self.begin(KEYS[1], OWNERS[1])

    def teardown(self) -> None:
        for each in getattr(self, "stores", ()):
            each.close()

    @property
    def store(self) -> TurnStore:
        """The workers are in different processes."""
        self.written += 1
        return self.stores[self.written % len(self.stores)]

    @property
    def now(self) -> int:
        return self.stores[0].now_ms()

    # Workers

    @rule(key=st.sampled_from(KEYS), is_due=st.booleans())
    def accept(self, key: str, is_due: bool) -> None:
        record = self.store.accept(NewTurn(LOOP, encode(key), key, is_due=is_due))
        if key not in self.turns:
            self.turns[key] = ModelTurn(record.id, due=self.now if is_due else None)
        assert record.id == self.turns[key].id

    @rule(key=st.sampled_from(KEYS), owner=st.sampled_from(OWNERS))
    def begin(self, key: str, owner: str) -> None:
        turn = self.turns.get(key)
        if turn is None:
            return
        refusal = turn.refusal(owner, self.now)
        record = self._tried(lambda: self.store.begin(turn.id, owner, LEASE_MS), refusal)
        if record is not None:
            self._began(turn, record, owner)

    @rule(owner=st.sampled_from(OWNERS), limit=st.integers(1, 3))
    def claim_due(self, owner: str, limit: int) -> None:
        now = self.now
        due = [each for each in self.turns.values() if each.due is not None and each.due <= now]
        found = self.store.claim_due(LOOP, owner, LEASE_MS, limit)
        by_id = {each.id: each for each in due}
        assert len(found) == min(limit, len(due))
        assert {each.id for each in found} <= by_id.keys()
        for record in found:
            turn = by_id[record.id]
            if turn.state.is_end:
                assert record.state is turn.state
            else:
                self._began(turn, record, owner)
            turn.due = now + LEASE_MS

    def _began(self, turn: ModelTurn, record: TurnRecord, owner: str) -> None:
        turn.begin(record, owner, self.now)
        self.believed.append(record.claim)
        self.known[record.claim] = record.seq

    @rule(number=st.integers(0, 99), is_large=st.booleans())
    def append(self, number: int, is_large: bool) -> None:
        self.written += 1
        entry = note(f"{self.written}" * (_LARGE if is_large else 1))
        self._write(number, lambda claim: self.store.append(claim, [entry]), entry)

    @rule(
        number=st.integers(0, 99),
        call_id=st.sampled_from(CALLS),
        text=st.sampled_from(["a", "b", "c", None]),
        is_late=st.booleans(),
    )
    def say(self, number: int, call_id: str, text: str | None, is_late: bool) -> None:
        claim = self._claim(number)
        after = 0 if claim is None else len(self._of(claim).journal) - is_late
        is_refused = StaleTurn if is_late else None
        turn = self._write(
            number,
            lambda claim: self.store.stream(claim, after, call_id, text),
            refusal=is_refused,
        )
        if turn is None or (text is None and turn.saying != call_id):
            return
        if turn.saying != call_id:
            turn.take_back()
        turn.stream.append((call_id, text))
        turn.saying = "" if text is None else call_id

    @rule(number=st.integers(0, 99), call_id=st.sampled_from(CALLS))
    def answer(self, number: int, call_id: str) -> None:
        entry = NewEntry(Kind.MODEL, call_id=call_id, value=encode(self.written))
        turn = self._write(number, lambda claim: self.store.append(claim, [entry]))
        if turn is not None:
            if turn.saying != call_id:
                turn.take_back()
            turn.saying = ""
            turn.stream.append(entry.value)

    @rule(number=st.integers(0, 99), pause=st.sampled_from(PAUSES))
    def pause(self, number: int, pause: Pause) -> None:
        turn = self._write(
            number, lambda claim: self.store.pause(claim, self._knowing(claim, pause))
        )
        if turn is None:
            return
        due = None if pause.due_in is None else self.now + pause.due_in
        turn.take_back()
        if pause.state is TurnState.SUSPENDED:
            turn.stream.append(encode(pause.handed_to or pause.reason))
        if pause.state is TurnState.WAITING:
            turn.wait(due, self.now)
        else:
            turn.rest(pause.state, due)

    def _knowing(self, claim: Claim, pause: Pause) -> Pause:
        return replace(pause, known=self.known[claim])

    @rule(number=st.integers(0, 99))
    def ask(self, number: int) -> None:
        asked = NewEntry(Kind.INPUT_ASKED, call_id="input", value=encode({"due_in": None}))
        pause = Pause(TurnState.WAITING, "asks")
        claim = self._claim(number)
        turn = self._of(claim) if claim is not None else None
        if turn is None or turn.is_asking:
            return
        if self._write(
            number, lambda each: self.store.pause(each, self._knowing(each, pause), [asked])
        ):
            turn.is_asking = True
            turn.take_back()
            turn.stream.append(asked.value)
            turn.wait(None, self.now)

    @rule(number=st.integers(0, 99))
    def expire(self, number: int) -> None:
        claim = self._claim(number)
        turn = self._of(claim) if claim is not None else None
        if turn is None or not turn.is_asking or turn.is_expired:
            return
        expired = NewEntry(Kind.INPUT_EXPIRED, call_id="input")
        refusal = None if turn.answer is None else AlreadyAnswered
        if self._write(number, lambda each: self.store.append(each, [expired]), refusal=refusal):
            turn.is_expired = True
            turn.take_back()
            turn.stream.append(expired.value)

    @rule(number=st.integers(0, 99), ending=st.sampled_from(ENDINGS))
    def finish(self, number: int, ending: Ending) -> None:
        turn = self._write(number, lambda claim: self.store.finish(claim, ending))
        if turn is not None:
            turn.rest(ending.state, None if ending.is_answered else self.now + LEASE_MS)

    @rule(number=st.integers(0, 99))
    def seal(self, number: int) -> None:
        turn = self._write(number, lambda claim: self.store.seal(claim, "drained"))
        if turn is not None:
            turn.take_back()
            turn.stream.append(encode("drained"))
            turn.rest(TurnState.SUSPENDED, None)

    @rule()
    def extend(self) -> None:
        turns = [self._of(each) for each in self.believed]
        good = [turn.claim == claim for turn, claim in zip(turns, self.believed, strict=True)]
        # An end that somebody must be told of can be held, too; by whom is not asked here.
        ends = [turn.state.is_end for turn in turns]
        found = self.store.extend(self.believed, LEASE_MS)
        for turn, is_good, is_end, was_good in zip(turns, good, ends, found, strict=True):
            assert is_end or was_good == is_good
            if was_good:
                turn.until = self.now + LEASE_MS
                turn.due = None if turn.due is None else turn.until

    # Operators and time

    @rule(key=st.sampled_from(KEYS))
    def wake(self, key: str) -> None:
        turn = self.turns.get(key)
        if turn is None:
            return
        refusal = TurnEnded if turn.state.is_end else TurnBusy if turn.is_held(self.now) else None
        if self._tried(lambda: self.store.wake(turn.id), refusal) is not None:
            turn.rest(TurnState.SUSPENDED, self.now)

    @rule(key=st.sampled_from(KEYS))
    def cancel(self, key: str) -> None:
        turn = self.turns.get(key)
        if turn is None:
            return
        refusal = TurnEnded if turn.state.is_end else None
        if self._tried(lambda: self.store.cancel(turn.id, "not wanted"), refusal) is not None:
            turn.rest(TurnState.CANCELLED, None if turn.due is None else self.now)

    @rule(key=st.sampled_from(KEYS), answer=st.sampled_from([b"1", b"2"]))
    def give_input(self, key: str, answer: bytes) -> None:
        turn = self.turns.get(key)
        if turn is None:
            return
        refusal = self._answer_refusal(turn, answer)
        if self._tried(lambda: self.store.give_input(turn.id, "", answer), refusal) is None:
            return
        if turn.answer is None:
            turn.answer = answer
            turn.stream.append(answer)
            turn.has_news = turn.state is TurnState.RUNNING
            if turn.state is TurnState.WAITING:
                turn.due = self.now

    def _answer_refusal(self, turn: ModelTurn, answer: bytes) -> type[TurnError] | None:
        if not turn.is_asking:
            return NothingAsked
        if turn.is_expired:
            return AlreadyAnswered
        if turn.answer is not None:
            return None if turn.answer == answer else AlreadyAnswered
        return TurnEnded if turn.state.is_end else None

    @rule(key=st.sampled_from(KEYS))
    def answered(self, key: str) -> None:
        turn = self.turns.get(key)
        if turn is not None:
            self.store.answered(turn.id)
            turn.due = None if turn.state.is_end else turn.due

    @rule(seconds=st.sampled_from([1, 10, 40]))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def prune(self) -> None:
        over = [
            key
            for key, turn in self.turns.items()
            if turn.state.is_end and turn.due is None and self.store.get(turn.id).ended != self.now
        ]
        assert self.store.prune(self.now) == len(over)
        for each in over:
            gone = self.turns.pop(each)
            self.believed = [claim for claim in self.believed if claim.turn_id != gone.id]

    # What always holds

    @invariant()
    def is_as_the_model_says(self) -> None:
        for turn in getattr(self, "turns", {}).values():
            record = self.store.get(turn.id)
            assert (record.state, record.due) == (turn.state, turn.due)
            entries = self.store.read(turn.id)
            assert [each.value for each in entries] == turn.journal
            assert [each.seq for each in entries] == list(range(1, record.seq + 1))
            events = self.store.read_stream(turn.id)
            assert [_heard(each) for each in events] == turn.stream
            said = [each.number for each in events if isinstance(each, Delta)]
            assert said == list(range(1, record.streamed + 1))
            assert record.attempt == turn.claims

    def _claim(self, number: int) -> Claim | None:
        return self.believed[number % len(self.believed)] if self.believed else None

    def _of(self, claim: Claim) -> ModelTurn:
        return next(each for each in self.turns.values() if each.id == claim.turn_id)

    def _write(
        self,
        number: int,
        write: Callable[[Claim], TurnRecord],
        entry: NewEntry | None = None,
        refusal: type[TurnError] | None = None,
    ) -> ModelTurn | None:
        """The turn, if a worker with one of its claims could write."""
        claim = self._claim(number)
        if claim is None:
            return None
        turn = self._of(claim)
        refusal = refusal if turn.claim == claim else StaleTurn
        if self._tried(lambda: write(claim), refusal) is None:
            return None
        if entry is not None:
            turn.stream.append(entry.value)
        return turn

    def _tried(
        self, act: Callable[[], TurnRecord], refusal: type[TurnError] | None
    ) -> TurnRecord | None:
        found: TurnError | None = None
        record: TurnRecord | None = None
        try:
            record = act()
        except TurnError as error:
            found = error
        is_as_said = isinstance(found, refusal) if refusal else found is None
        assert is_as_said, repr(found)
        return record


def _heard(event: Entry | Delta) -> Heard:
    return event.value if isinstance(event, Entry) else (event.call_id, event.text)
