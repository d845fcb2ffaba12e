"""A mailbox whose receivers also get turns that a store brings back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from afl.agents.recording import TurnSuspended
from afl.log import get_logger
from afl.loops.durable import DurableTurns, request_in
from afl.loops.turn_message import TurnMessage, message_of
from afl.mailbox.api import DeadLetter, Mailbox, Message, Peeked
from afl.turns.api import Ending, TurnRecord, TurnState

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

    # Both

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
        messages = self._inner.receive(
            max_messages=max_messages - len(due),
            visibility_timeout=visibility_timeout,
            wait_time_seconds=0 if due else wait_time_seconds,
            stop=stop,
        )
        self.has_received.set()
        return [*due, *messages]

    def _due(self, limit: int) -> list[Message[Any, Any]]:
        claimed = self._store.claim_due(self._loop, self._owner, self._turns.lease_ms, limit)
        messages = (self._message(each) for each in claimed)
        return [each for each in messages if each is not None]

    def _message(self, record: TurnRecord) -> TurnMessage | None:
        try:
            request = request_in(self._store, record, self._turns.options.request_type)
        except msgspec.MsgspecError as problem:
            ending = Ending(TurnState.FAILED, f"its request cannot be read: {problem}")
            self._store.finish(record.claim, ending)
            return None
        reply_to = None if record.reply_to is None else self._resolve(record.reply_to)
        return message_of(self._store, record, request, reply_to)

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
