"""How one attempt at a turn writes its journal, and how it leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

from afl.backoff import Backoff
from afl.clock import Clock
from afl.errors import StoreUnavailable
from afl.turns.api import Entry, Kind, NewEntry, Pause, TurnRecord, TurnState, TurnStore
from afl.turns.checkpoints import tell_checkpointed, tell_handed_over
from afl.turns.driving import run_blocking
from afl.turns.effects import Effect, current_effect
from afl.turns.errors import JournalUnavailable, TurnHandedOver, TurnSuspended
from afl.turns.speech import Speech
from afl.turns.tokens import Tokens

T = TypeVar("T")

#: How often, and how long apart, a write is tried in an outage: for about half a minute.
_BACKOFF = Backoff(initial=0.05, factor=2.0, maximum=5.0, jitter=0.2)
_TRIES = 12


class Through(Protocol):
    """How a turn calls what may block: on its thread, or beside an event loop."""

    async def function(self, call: Callable[[], Any]) -> Any: ...


class OnThisThread:
    async def function(self, call: Callable[[], Any]) -> Any:
        return call()


#: Set while code that knows no coroutines uses the turn: whatever it asks for blocks its thread,
#: also if that is one of many beside an event loop.
_is_blocking: ContextVar[bool] = ContextVar("afl_turn_is_blocking", default=False)


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end on this thread."""
    token = _is_blocking.set(True)
    try:
        return run_blocking(work)
    finally:
        _is_blocking.reset(token)


#: Who goes on with a turn if it is left now; None if nobody is ready to.
Successor: TypeAlias = Callable[[], str | None]


class JournalWriter:
    """Writes under the claim of `record`, after the entries up to `known` were read. If it is
    `detached`, the store brings a suspended turn back; else whoever brought it does. As soon as
    there is a successor, the turn is left."""

    def __init__(
        self,
        store: TurnStore,
        record: TurnRecord,
        tokens: Tokens,
        through: Through,
        clock: Clock,
        *,
        known: int,
        is_detached: bool,
        successor: Successor,
    ) -> None:
        self.store = store
        self.record = record
        self.clock = clock
        self.is_detached = is_detached
        self._known = known
        self._tokens = tokens
        self._through = through
        self._successor = successor
        self._suspension = threading.Event()
        self._suspend_reason = ""

    async def do(self, call: Callable[[], Any]) -> Any:
        """Call what may block."""
        return call() if _is_blocking.get() else await self._through.function(call)

    async def end(self, write: Callable[[], TurnRecord]) -> TurnRecord:
        """Write the last that this attempt does. Raises JournalUnavailable: another attempt comes
        to the same end, or finds it."""
        return await self._asked(write)

    async def now_ms(self) -> int:
        """The time of the store. Raises JournalUnavailable."""
        return await self._asked(self.store.now_ms)

    async def read(self, after: int) -> Sequence[Entry]:
        """The journal as it is now, behind an entry. Raises JournalUnavailable."""
        return await self._asked(lambda: self.store.read(self.record.id, after))

    async def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return await self.do(ask)  # type: ignore[no-any-return]
        except StoreUnavailable as problem:
            raise JournalUnavailable(str(problem)) from problem

    async def append(self, *entries: NewEntry) -> list[Entry]:
        """Raises StaleTurn."""
        return await self.do(lambda: self.append_now(*entries))  # type: ignore[no-any-return]

    def append_now(self, *entries: NewEntry) -> list[Entry]:
        """What a tool returned is nowhere else: in an outage this tries again for a while, and
        raises JournalUnavailable in the end."""
        write = partial(self.store.append, self.record.claim, entries)
        # Nobody may have said that it was done: so it is not done twice.
        self._keep_trying(write, partial(write, self.record.seq))
        first = self.record.seq - len(entries) + 1
        return [self._entry(each, first + index) for index, each in enumerate(entries)]

    def _keep_trying(
        self, write: Callable[[], TurnRecord], write_again: Callable[[], TurnRecord]
    ) -> None:
        for tries in count(1):
            try:
                self.record = write() if tries == 1 else write_again()
            except StoreUnavailable as problem:
                if tries == _TRIES:
                    raise JournalUnavailable(str(problem)) from problem
                self.clock.sleep(_BACKOFF.delay(tries))
            else:
                return

    async def take_back(self, call_id: str) -> None:
        """What this call has said so far is void. Raises StaleTurn, JournalUnavailable."""
        await self.do(lambda: self._take_back_now(call_id))

    def _take_back_now(self, call_id: str) -> None:
        def write() -> TurnRecord:
            # Others may have written: an answer that was given from outside.
            after = self.store.get(self.record.id).seq
            return self.store.stream(self.record.claim, after, call_id, None)

        self._keep_trying(write, write)

    def speech(self, call_id: str) -> Speech:
        """For the words of a call to a model."""
        return Speech(self.store, self.record, call_id, self.clock)

    def _entry(self, new: NewEntry, seq: int) -> Entry:
        facts = (new.name, new.call_id, new.arguments, new.value)
        return Entry(self.record.id, seq, new.kind, *facts, self.record.fence, self.record.changed)

    # Leaving

    @property
    def suspend_requested(self) -> bool:
        return self._suspension.is_set() or self._successor() is not None

    def request_suspend(self, reason: str) -> None:
        self._suspend_reason = reason
        self._suspension.set()

    async def boundary(self) -> None:
        """Before anything that costs. Raises TurnSuspended if the turn is to be left here."""
        if self._suspension.is_set():
            await self.suspend(self._suspend_reason)
        taker = self._successor()
        if taker is not None:
            await self._hand_over(taker)

    async def suspend(self, reason: str) -> NoReturn:
        pause = Pause(TurnState.SUSPENDED, reason, 0 if self.is_detached else None)
        await self._leave(pause, (), is_detached=self.is_detached)

    async def _hand_over(self, taker: str) -> NoReturn:
        due_in = 0 if self.is_detached else None
        pause = Pause(TurnState.SUSPENDED, f"is handed over to {taker}", due_in, handed_to=taker)
        record = await self._paused(pause, ())
        tell_handed_over(record, taker, self.clock)
        raise TurnHandedOver(record.id, taker, is_detached=self.is_detached)

    async def wait(
        self,
        reason: str,
        due_in: int | None,
        *entries: NewEntry,
        state: TurnState = TurnState.WAITING,
    ) -> NoReturn:
        """Leave the turn in the store until what it waits for has come. That may be there since
        the journal was read: then the turn goes on at once."""
        pause = Pause(state, reason, due_in, known=self._known)
        await self._leave(pause, entries, is_detached=True)

    async def _leave(
        self, pause: Pause, entries: Sequence[NewEntry], *, is_detached: bool
    ) -> NoReturn:
        record = await self._paused(pause, entries)
        tell_checkpointed(record, self.clock)
        raise self.suspended(pause.reason, is_detached=is_detached)

    async def _paused(self, pause: Pause, entries: Sequence[NewEntry]) -> TurnRecord:
        last = [*entries, *_interrupted()]
        return await self.end(lambda: self.store.pause(self.record.claim, pause, last))

    def suspended(self, reason: str, *, is_detached: bool) -> TurnSuspended:
        token = self._tokens.issue(self.record.id)
        return TurnSuspended(f"turn {self.record.id} {reason}", token, is_detached=is_detached)


def _interrupted() -> Iterator[NewEntry]:
    """Tools that leave the turn from within have not done their work: they are entered again."""
    effect: Effect | None = current_effect()
    while effect is not None and effect.call_id:
        yield NewEntry(Kind.TOOL_PAUSED, effect.name, effect.call_id)
        effect = effect.outer
