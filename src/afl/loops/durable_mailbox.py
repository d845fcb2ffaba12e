"""A mailbox whose receivers also get turns that a store brings back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from afl.agents.recording import TurnSuspended
from afl.errors import StoreUnavailable
from afl.log import get_logger, redact
from afl.loops.durable import DurableTurns
from afl.loops.durable_requests import UnreadableRequest, request_in
from afl.loops.requests import AgentLoopRequest
from afl.loops.turn_message import TurnHolder, TurnMessage, message_of
from afl.mailbox.api import DeadLetter, Mailbox, Message, Peeked
from afl.turns.api import Ending, TurnRecord, TurnState
from afl.turns.errors import StaleTurn, TurnNotFound

_log = get_logger(__name__)

Reply = Callable[[Message[Any, Any], TurnSuspended], object]


class DurableMailbox:
    """Implements `Mailbox` over another one. `tell` tells a sender that its turn is suspended."""

    def __init__(
        self,
        inner: Mailbox[Any, Any],
        turns: DurableTurns,
        loop: str,
        owner: str,
        resolve: Callable[[str], Mailbox[Any, Any] | None],
        tell: Reply,
    ) -> None:
        self._inner = inner
        self._turns = turns
        self._store = turns.store
        self._loop = loop
        self._owner = owner
        self._resolve = resolve
        self._tell = tell
        #: Whether anything could be received.
        self.has_received = threading.Event()
        #: Why there are no messages now, although there may be turns; or None.
        self.outage: str | None = None
        #: Claimed from the store, and handed to nobody: they are given back.
        self._unbegun: list[TurnRecord] = []

    # Messages and turns

    def receive(
        self,
        *,
        max_messages: int = 1,
        visibility_timeout: float = 30,
        wait_time_seconds: float = 0,
        stop: threading.Event | None = None,
    ) -> Sequence[Message[Any, Any]]:
        due = self._due(max_messages)
        if len(due) >= max_messages:
            self.has_received.set()
            return due
        try:
            messages = self._inner.receive(
                max_messages=max_messages - len(due),
                visibility_timeout=visibility_timeout,
                wait_time_seconds=0 if due else wait_time_seconds,
                stop=stop,
            )
        except (StoreUnavailable, OSError) as problem:
            self.outage = f"messages cannot be received: {problem}"
            if not due:
                raise
            _log.warning("mailbox_unavailable", mailbox=self.name, error=str(problem))
            return due  # which need no mailbox
        except BaseException:
            self._leave(each.record for each in due)
            raise
        self.outage = None
        self.has_received.set()
        return [*due, *messages]

    # Turns that are due

    def _due(self, limit: int) -> list[TurnMessage]:
        self._give_back()
        claimed = self._store.claim_due(self._loop, self._owner, self._turns.lease_ms, limit)
        try:
            messages = [self._message(each) for each in claimed]
        except BaseException:
            self._leave(claimed)
            raise
        return [each for each in messages if each is not None]

    def _message(self, record: TurnRecord) -> TurnMessage | None:
        """None if the turn has moved on: then it comes again, or is somebody else's."""
        try:
            record, request = self._read(record)
        except (StaleTurn, TurnNotFound) as problem:
            _log.info("turn_not_failed", turn=record.id, reason=str(problem))
            return None
        reply_to = None if record.reply_to is None else self._resolve(record.reply_to)
        return message_of(self._store, record, request, reply_to)

    def _read(self, record: TurnRecord) -> tuple[TurnRecord, AgentLoopRequest[Any]]:
        """The turn, and what it was asked. One that nobody can read has failed."""
        if not record.state.is_end:
            try:
                return record, request_in(self._store, record, self._turns.options.request_type)
            except UnreadableRequest as problem:
                record = self._failed(record, problem)
        # To be told of an end, nobody needs to know what was asked.
        return record, AgentLoopRequest(None, request_id=record.key or record.id)

    def _failed(self, record: TurnRecord, problem: UnreadableRequest) -> TurnRecord:
        _log.warning("request_unreadable", turn=record.id, error=str(problem))
        reason = redact(f"its request cannot be read by the code that runs now: {problem}")
        # Its sender is told by whoever gets it from here; if that one dies, by the next.
        ending = Ending(TurnState.FAILED, reason, is_answered=False)
        return self._store.finish(record.claim, ending)

    def _leave(self, records: Iterable[TurnRecord]) -> None:
        """Give them back, now or before the next claim."""
        self._unbegun.extend(records)
        try:
            self._give_back()
        except StoreUnavailable as problem:
            _log.warning("turns_not_given_back", count=len(self._unbegun), error=str(problem))

    def _give_back(self) -> None:
        """Nobody has begun with them, so nothing is counted. Raises StoreUnavailable."""
        while self._unbegun:
            with suppress(TurnNotFound):
                TurnHolder(self._store, self._unbegun[0]).release("")
            del self._unbegun[0]

    # What becomes of both

    def extend_all(
        self, messages: Sequence[Message[Any, Any]], visibility_timeout: float
    ) -> list[bool]:
        turns = [each for each in messages if isinstance(each, TurnMessage)]
        others = [each for each in messages if not isinstance(each, TurnMessage)]
        of_turns = iter(self._extend_turns(turns))
        of_others = iter(self._inner.extend_all(others, visibility_timeout) if others else ())
        self._turns.extend(others)
        return [
            next(of_turns) if isinstance(each, TurnMessage) else next(of_others)
            for each in messages
        ]

    def _extend_turns(self, turns: Sequence[TurnMessage]) -> list[bool]:
        if not turns:
            return []
        found = self._store.extend([each.record.claim for each in turns], self._turns.lease_ms)
        return [is_held or each.is_left for each, is_held in zip(turns, found, strict=True)]

    def release_all(self, messages: Sequence[Message[Any, Any]]) -> None:
        for each in messages:
            suspended = self._turns.seal(each, "is suspended: the process that did it stops")
            if suspended is not None:
                self._tell(each, suspended)
            if isinstance(each, TurnMessage):
                each.release()
        self._inner.release_all([each for each in messages if not isinstance(each, TurnMessage)])

    def dead_letter(
        self, message: Message[Any, Any], reason: str, error: BaseException | None = None
    ) -> None:
        if isinstance(message, TurnMessage):
            message.acknowledge()  # it has failed, and stays in the store
        else:
            self._inner.dead_letter(message, reason, error)

    # The other one

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def send(self, body: Any, *, reply_to: Mailbox[Any, Any] | None = None) -> str:
        return self._inner.send(body, reply_to=reply_to)

    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        """For messages. Who looks after turns sets `stop` when one is due."""
        return self._inner.wait(timeout, stop)

    def dead_letters(self, limit: int = 100) -> Sequence[DeadLetter[Any]]:
        return self._inner.dead_letters(limit)

    def redrive(self, ids: Sequence[str] | None = None) -> int:
        return self._inner.redrive(ids)

    def peek(self, limit: int = 100) -> Sequence[Peeked[Any]]:
        return self._inner.peek(limit)

    def purge(self) -> int:
        return self._inner.purge()

    def approximate_count(self) -> int:
        return self._inner.approximate_count()

    def close(self) -> None:
        self._inner.close()
