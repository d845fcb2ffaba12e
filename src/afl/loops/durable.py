"""Turns of an agent loop that are kept in a store: they survive the process.

A message brings a turn, and carries it as long as it can go on: who receives the message again
goes on with the turn. A turn that waits is left in the store and the message ends; the store
brings it back, as a message of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar

from afl.agents.calling import Calling
from afl.clock import Clock
from afl.error_text import kind_of, text_of
from afl.errors import StoreMisused, StoreUnavailable, UsageError
from afl.log import get_logger
from afl.loops.durable_requests import accept
from afl.loops.durable_requests import new_turn as new_turn
from afl.loops.requests import AgentLoopResult, TurnStatus
from afl.loops.turn import Turn
from afl.loops.turn_message import TurnMessage
from afl.mailbox.api import Message
from afl.turns.api import Claim, Ending, NewTurn, TurnRecord, TurnState, TurnStore
from afl.turns.checkpoints import tell_checkpointed
from afl.turns.errors import (
    JournalMismatch,
    JournalUnavailable,
    StaleTurn,
    TurnBusy,
    TurnCancelled,
    TurnEnded,
    TurnError,
    TurnNotReady,
    TurnSuspended,
)
from afl.turns.journal import Turn as JournaledTurn
from afl.turns.rules import turn_id_of
from afl.turns.tokens import Tokens
from afl.turns.values import as_kept, decode
from afl.work.source import ClaimLost

_log = get_logger(__name__)

#: How long a turn waits before it is begun again after an outage of its store.
_OUTAGE_S = 1.0

T = TypeVar("T")
OnMismatch = Literal["wait", "restart"]
Results = AgentLoopResult[Any]
Perform = Callable[[Turn], Awaitable[Results]]


@dataclass(frozen=True)
class Durability:
    """How the turns of a loop are kept."""

    store: TurnStore
    #: What becomes of a turn that does not fit the code any more: it waits for a person, or goes
    #: on from the last point that fits.
    on_mismatch: OnMismatch = "wait"
    #: None: signed with a key that is kept in the store.
    tokens: Tokens | None = None
    #: How long turns that are over are kept; None: for ever.
    retention: timedelta | None = timedelta(days=30)
    #: Whether those who follow a turn can read what its models say before their answers are whole.
    is_streaming: bool = True
    #: What requests of this loop are, for those that the store brings back.
    request_type: Any = Any


@dataclass(eq=False)
class _InHand:
    message: Message[Any, Any]
    turn: JournaledTurn
    cancellation: threading.Event


class DurableTurns:
    """All turns that a loop has in hand. Safe from any thread."""

    def __init__(self, options: Durability, loop: str, lease_s: float, clock: Clock) -> None:
        self.options = options
        self.store = options.store
        self.tokens = options.tokens or Tokens([self.store.secret()], clock=clock)
        self.lease_ms = round(lease_s * 1000)
        self._loop = loop
        self._clock = clock
        self._lock = threading.Condition(threading.Lock())
        #: By the id of the message that carries them.
        self._in_hand: dict[str, _InHand] = {}
        #: Why no turn is begun any more, and all are left.
        self._suspension: str | None = None
        #: Who goes on with turns that are left now.
        self.successor: str | None = None

    # Doing one

    async def answer(
        self, message: Message[Any, Any], turn: Turn, calling: Calling, perform: Perform
    ) -> Results | None:
        """Bring the turn of a message to its end, or raise TurnSuspended. None if the store has
        brought it to its end, and tells of it."""
        while True:
            try:
                return await self._brought_to_its_end(message, turn, calling, perform)
            except _Restarted:
                continue
            except JournalUnavailable as problem:
                await calling.function(partial(self._outage, turn, problem))

    async def _brought_to_its_end(
        self, message: Message[Any, Any], turn: Turn, calling: Calling, perform: Perform
    ) -> Results | None:
        try:
            return await self._attempt(message, turn, calling, perform)
        except TurnEnded as end:
            return await _asked(calling, partial(self._told, message, end.turn))
        except TurnNotReady as waiting:
            raise self._still_waiting(waiting.turn) from None
        except (StaleTurn, TurnCancelled):
            # It was ended, sealed or taken from outside.
            record = await _asked(calling, lambda: self.store.get(self._turn_id(message)))
            if record.state.is_end:
                return await _asked(calling, partial(self._told, message, record))
            self._require_wanted(record, message, turn)
            raise _Restarted from None

    async def _attempt(
        self, message: Message[Any, Any], turn: Turn, calling: Calling, perform: Perform
    ) -> Results:
        record = await self._begun(message, turn, calling)
        journal = await _asked(calling, lambda: self._journal(message, record, calling))
        with self._lock:
            if self._suspension is not None:
                journal.request_suspend(self._suspension)
            self._in_hand[message.id] = _InHand(message, journal, turn.cancellation)
        try:
            result = await self._performed(message, replace(turn, journal=journal), perform)
        except BaseException as error:
            if isinstance(message, TurnMessage):
                message.is_left = isinstance(error, TurnSuspended)
            if not turn.is_cancelled:  # else somebody decides what becomes of it
                self._let_go(message)
                _put_claim_on(error, journal.record.claim)
            raise
        self._let_go(message)
        return result

    def _outage(self, turn: Turn, problem: JournalUnavailable) -> None:
        """Its lease runs on, or somebody else has it then: both are found out by beginning."""
        if turn.is_cancelled:
            raise problem
        _log.warning("turn_waits_for_its_store", error=str(problem))
        self._clock.wait(turn.cancellation, _OUTAGE_S)

    async def _performed(self, message: Message[Any, Any], turn: Turn, perform: Perform) -> Results:
        journal = turn.journal
        assert journal is not None, "it was begun"
        try:
            result = await perform(turn)
        except JournalMismatch as problem:
            await self._mismatched(journal, problem)
        is_answered = not isinstance(message, TurnMessage)
        value, kept = as_kept(result.output)
        await journal.finish(Ending(TurnState.DONE, "", value, is_answered))
        # Of texts, what is kept may be all that can be told.
        return replace(result, output=kept) if isinstance(result.output, str) else result

    def _journal(
        self, message: Message[Any, Any], record: TurnRecord, calling: Calling
    ) -> JournaledTurn:
        return JournaledTurn(
            self.store,
            record,
            tokens=self.tokens,
            through=calling,
            clock=self._clock,
            is_detached=isinstance(message, TurnMessage),
            successor=lambda: self.successor,
        )

    async def _begun(self, message: Message[Any, Any], turn: Turn, calling: Calling) -> TurnRecord:
        """The record, once nobody else has it. Raises TurnEnded, TurnNotReady, TurnCancelled."""
        if isinstance(message, TurnMessage):
            if message.record.state.is_end:
                raise TurnEnded(message.record)
            return message.record
        new = new_turn(self._loop, message)
        while not turn.is_cancelled:
            try:
                return await _asked(calling, partial(self._begin, new, message.id))
            except TurnBusy as busy:
                await _asked(calling, partial(self._wait_for_news, busy, turn))
        raise TurnCancelled(f"the turn of message {message.id} was cancelled")

    def _begin(self, new: NewTurn, owner: str) -> TurnRecord:
        return self.store.begin(self._accepted(new).id, owner, self.lease_ms)

    def _accepted(self, new: NewTurn) -> TurnRecord:
        return accept(self.store, new, self.options.request_type)

    def _wait_for_news(self, busy: TurnBusy, turn: Turn) -> None:
        """Since it was found busy: it may have ended by now."""
        turn.beat()
        self.store.wait_news(busy.turn, busy.seconds_left, turn.cancellation)

    async def _mismatched(self, journal: JournaledTurn, problem: JournalMismatch) -> NoReturn:
        _log.warning("journal_mismatch", turn=journal.id, problem=str(problem))
        if self.options.on_mismatch == "restart":
            await journal.restart(problem)
            raise _Restarted from problem
        await journal.mismatched(problem)

    def _require_wanted(self, record: TurnRecord, message: Message[Any, Any], turn: Turn) -> None:
        """Returns if the turn can be begun again."""
        if turn.is_cancelled:
            raise TurnCancelled(f"turn {record.id} was cancelled")
        if self._suspension is not None:
            token = self.tokens.issue(record.id)
            raise TurnSuspended(f"turn {record.id} {record.reason}", token, is_detached=False)
        if isinstance(message, TurnMessage):
            raise ClaimLost(f"turn {record.id} has moved on")

    def _turn_id(self, message: Message[Any, Any]) -> str:
        if isinstance(message, TurnMessage):
            return message.record.id
        return turn_id_of(new_turn(self._loop, message))

    # What came of one

    def _told(self, message: Message[Any, Any], record: TurnRecord) -> Results | None:
        return None if record.relieved == message.id else self.result_of(record)

    def result_of(self, record: TurnRecord) -> Results:
        """The answer that a turn had when it ended."""
        request_id = record.key or record.id
        completed_at = self._clock.now()
        if record.state is TurnState.DONE:
            value = b"null" if record.result is None else self.store.value(record.result)
            return AgentLoopResult(request_id, decode(value), completed_at=completed_at)
        error = record.reason or str(record.state)
        return AgentLoopResult(
            request_id, error=error, completed_at=completed_at, status=TurnStatus.FAILED
        )

    def _still_waiting(self, record: TurnRecord) -> TurnSuspended:
        return TurnSuspended(f"turn {record.id} {record.reason}", self.tokens.issue(record.id))

    def failed(self, message: Message[Any, Any], error: BaseException, reason: str) -> None:
        """It failed for good, or its message is given up."""
        if isinstance(error, TurnSuspended):
            return
        ending = Ending(TurnState.FAILED, reason, is_answered=not isinstance(message, TurnMessage))
        try:
            self._end(self._claim_of(message, error), ending, error)
        except (TurnError, UsageError) as problem:
            _log.info("turn_not_failed", message=message.id, reason=str(problem))

    def _end(self, claim: Claim, ending: Ending, error: BaseException) -> None:
        try:
            self.store.finish(claim, ending)
        except StoreMisused as problem:
            # Whatever is wrong with the reason: a turn that nobody ends would go on for ever.
            plain = f"failed with {kind_of(error)}; why cannot be kept: {text_of(problem)}"
            self.store.finish(claim, replace(ending, reason=plain))

    def _claim_of(self, message: Message[Any, Any], error: BaseException) -> Claim:
        claim = getattr(error, "afl_turn_claim", None)
        if isinstance(claim, Claim):
            return claim
        held = self._let_go(message)
        if held is not None:
            return held.turn.record.claim
        if isinstance(message, TurnMessage):
            return message.record.claim
        return self._begin(new_turn(self._loop, message), message.id).claim

    # Leases, and leaving

    def extend(self, messages: Sequence[Message[Any, Any]]) -> None:
        """Renew the leases of these turns; those that were lost are told to end."""
        with self._lock:
            held = [self._in_hand[each.id] for each in messages if each.id in self._in_hand]
        claims = [each.turn.record.claim for each in held]
        if not claims:
            return
        for each, is_good in zip(held, self.store.extend(claims, self.lease_ms), strict=True):
            if not is_good and not self._is_over(each.turn):
                each.cancellation.set()

    def _is_over(self, turn: JournaledTurn) -> bool:
        """Of those that have just ended by themselves."""
        with self._lock:
            return all(each.turn is not turn for each in self._in_hand.values())

    def request_suspend(self, reason: str) -> None:
        """Let each turn be left at its next boundary, and begin no more."""
        with self._lock:
            self._suspension = reason
            held = list(self._in_hand.values())
        for each in held:
            each.turn.request_suspend(reason)

    def allow(self) -> None:
        """Turns may be begun: a new run goes on."""
        self._suspension = self.successor = None

    @property
    def messages(self) -> list[Message[Any, Any]]:
        """Of the turns in hand."""
        with self._lock:
            return [each.message for each in self._in_hand.values()]

    def wait_until_none(self, timeout: float) -> bool:
        with self._lock:
            return self._clock.wait_for(self._lock, lambda: not self._in_hand, timeout)

    def seal(self, message: Message[Any, Any], reason: str) -> TurnSuspended | None:
        """Take the turn of a message from whoever does it; None if nobody does."""
        held = self._let_go(message)
        if held is None:
            return None
        is_detached = isinstance(message, TurnMessage)
        try:
            due_in = 0 if is_detached else None
            record = self.store.seal(held.turn.record.claim, reason, due_in)
        except StaleTurn:
            return None  # it has left by itself
        tell_checkpointed(record, self._clock)
        return held.turn.suspended(reason, is_detached=is_detached)

    def _let_go(self, message: Message[Any, Any]) -> _InHand | None:
        with self._lock:
            held = self._in_hand.pop(message.id, None)
            self._lock.notify_all()
            return held


class _Restarted(Exception):  # noqa: N818 - never leaves this module
    """The turn is begun again: from what fits the code, or by whoever may."""


async def _asked(calling: Calling, ask: Callable[[], T]) -> T:
    """Ask the store. Raises JournalUnavailable in an outage."""
    try:
        return await calling.function(ask)  # type: ignore[no-any-return]
    except StoreUnavailable as problem:
        raise JournalUnavailable(str(problem)) from problem


def _put_claim_on(error: BaseException, claim: Claim) -> None:
    """Whoever records the failure needs it."""
    with suppress(AttributeError):  # of classes that allow no attributes
        error.afl_turn_claim = claim  # type: ignore[attr-defined]
