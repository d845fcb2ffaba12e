"""How one attempt at a turn writes its journal, and how it leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from itertools import count
from typing import Any, NoReturn, Protocol, TypeVar

from afl.backoff import Backoff
from afl.clock import Clock
from afl.errors import StoreUnavailable
from afl.turns.api import Entry, Kind, NewEntry, Pause, TurnRecord, TurnState, TurnStore
from afl.turns.checkpoints import tell_checkpointed
from afl.turns.driving import run_blocking
from afl.turns.effects import Effect, current_effect
from afl.turns.errors import JournalUnavailable, TurnSuspended
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


class JournalWriter:
    """Writes under the claim of `record`. If it is `detached`, the store brings a suspended turn
    back; else whoever brought it does."""

    def __init__(
        self,
        store: TurnStore,
        record: TurnRecord,
        tokens: Tokens,
        through: Through,
        clock: Clock,
        *,
        is_detached: bool,
    ) -> None:
        self.store = store
        self.record = record
        self.clock = clock
        self.is_detached = is_detached
        self._tokens = tokens
        self._through = through
        self._suspension = threading.Event()
        self._suspend_reason = ""

    async def do(self, call: Callable[[], Any]) -> Any:
        """Call what may block."""
        return call() if _is_blocking.get() else await self._through.function(call)

    async def end(self, write: Callable[[], TurnRecord]) -> TurnRecord:
        """Write the last that this attempt does. Raises JournalUnavailable: another attempt comes
        to the same end, or finds it."""
        try:
            return await self.do(write)  # type: ignore[no-any-return]
        except StoreUnavailable as problem:
            raise JournalUnavailable(str(problem)) from problem

    async def append(self, *entries: NewEntry) -> list[Entry]:
        """Raises StaleTurn."""
        return await self.do(lambda: self.append_now(*entries))  # type: ignore[no-any-return]

    def append_now(self, *entries: NewEntry) -> list[Entry]:
        """What a tool returned is nowhere else: in an outage this tries again for a while, and
        raises JournalUnavailable in the end."""
        for tries in count(1):
            try:
                self.record = self.store.append(self.record.claim, entries)
            except StoreUnavailable as problem:
                if self._was_written(len(entries)):
                    break
                if tries == _TRIES:
                    raise JournalUnavailable(str(problem)) from problem
                self.clock.sleep(_BACKOFF.delay(tries))
            else:
                break
        first = self.record.seq - len(entries) + 1
        return [self._entry(each, first + index) for index, each in enumerate(entries)]

    def _was_written(self, wanted: int) -> bool:
        """Whether a write was done though nobody said so."""
        try:
            record = self.store.get(self.record.id)
            later = self.store.read(self.record.id, self.record.seq)
        except StoreUnavailable:
            return False
        mine = [each for each in later if each.fence == self.record.fence]
        if len(mine) < wanted or record.fence != self.record.fence:
            return False
        self.record = record
        return True

    def _entry(self, new: NewEntry, seq: int) -> Entry:
        facts = (new.name, new.call_id, new.arguments, new.value)
        return Entry(self.record.id, seq, new.kind, *facts, self.record.fence, self.record.changed)

    # Leaving

    @property
    def suspend_requested(self) -> bool:
        return self._suspension.is_set()

    def request_suspend(self, reason: str) -> None:
        self._suspend_reason = reason
        self._suspension.set()

    async def boundary(self) -> None:
        """Before anything that costs. Raises TurnSuspended if the turn is to be left here."""
        if self.suspend_requested:
            await self.suspend(self._suspend_reason)

    async def suspend(self, reason: str) -> NoReturn:
        pause = Pause(TurnState.SUSPENDED, reason, 0 if self.is_detached else None)
        await self._leave(pause, (), is_detached=self.is_detached)

    async def wait(
        self,
        reason: str,
        due_in: int | None,
        *entries: NewEntry,
        state: TurnState = TurnState.WAITING,
    ) -> NoReturn:
        """Leave the turn in the store until what it waits for has come."""
        await self._leave(Pause(state, reason, due_in), entries, is_detached=True)

    async def _leave(
        self, pause: Pause, entries: Sequence[NewEntry], *, is_detached: bool
    ) -> NoReturn:
        last = [*entries, *_interrupted()]
        record = await self.end(lambda: self.store.pause(self.record.claim, pause, last))
        tell_checkpointed(record, self.clock)
        raise self.suspended(pause.reason, is_detached=is_detached)

    def suspended(self, reason: str, *, is_detached: bool) -> TurnSuspended:
        token = self._tokens.issue(self.record.id)
        return TurnSuspended(f"turn {self.record.id} {reason}", token, is_detached=is_detached)


def _interrupted() -> Iterator[NewEntry]:
    """Tools that leave the turn from within have not done their work: they are entered again."""
    effect: Effect | None = current_effect()
    while effect is not None:
        yield NewEntry(Kind.TOOL_PAUSED, effect.name, effect.call_id)
        effect = effect.outer
