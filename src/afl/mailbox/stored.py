"""A mailbox on a box: everything that is the same for all backends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError, StoreClosed
from afl.ids import new_id
from afl.log import get_logger
from afl.mailbox.api import (
    MAX_MESSAGES,
    DeadLetter,
    Mailbox,
    Message,
    Peeked,
    require_count,
    require_visibility,
    require_wait,
)
from afl.mailbox.box import Box, Burial, Delivery, Depth, Entry, Handle
from afl.mailbox.deliveries import Deliveries, handle_text, reaching
from afl.mailbox.errors import (
    MailboxClosedError,
    MailboxFullError,
    SerializationError,
)
from afl.mailbox.packing import Packing, Reply
from afl.mailbox.records import dead_letter_of, moment, peeked_of, type_name
from afl.mailbox.texts import is_storable, storable
from afl.mailbox.unread import unread_are_wanted

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P")

_log = get_logger(__name__)

_NO_REPLY = Reply(None)


class BoxMailbox(Generic[T, R, P]):
    """Implements `afl.mailbox.Mailbox`. `max_size` is how many messages it may hold, received
    ones too; None for any number. `clock` counts how long a receive waits."""

    def __init__(
        self,
        box: Box[P],
        packing: Packing[T, P],
        *,
        max_size: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if max_size is not None and max_size < 1:
            raise ConfigurationError(f"max_size is {max_size}; expected 1 or more, or None")
        self.box = box
        self.name: str = box.name
        self._packing = packing
        self._max_size = max_size
        self._clock = clock
        self._is_closed = False
        self._deliveries = Deliveries(box, self._let_go)

    @property
    def place(self) -> str:
        """Where the messages are, for people."""
        return self.box.place

    @property
    def closed(self) -> bool:
        return self._is_closed

    # Sending and receiving

    @reaching
    def send(self, body: T, *, reply_to: Mailbox[R, Any] | None = None) -> str:
        self._require_open()
        payload = self._packing.pack(body, reply_to)
        message_id = new_id()
        entry = Entry(message_id, payload, None if reply_to is None else reply_to.name)
        if not self.box.put(entry, self._max_size):
            raise MailboxFullError(
                f"the mailbox {self.name} holds {self._max_size} messages, as many as it may; "
                "try again when some were acknowledged, or raise max_size"
            )
        return message_id

    def receive(
        self,
        *,
        max_messages: int = 1,
        visibility_timeout: float = 30,
        wait_time_seconds: float = 0,
        stop: threading.Event | None = None,
    ) -> list[Message[T, R]]:
        limit = min(max(require_count("max_messages", max_messages), 1), MAX_MESSAGES)
        require_visibility(visibility_timeout)
        require_wait(wait_time_seconds)
        if stop is not None and stop.is_set():
            return []
        found = self.take(limit, visibility_timeout)
        if found or not wait_time_seconds:
            return found
        deadline = self._clock.monotonic() + wait_time_seconds
        while not found and self.wait(deadline - self._clock.monotonic(), stop):
            found = self.take(limit, visibility_timeout)
        return found

    @reaching
    def take(self, limit: int, visibility_timeout: float) -> list[Message[T, R]]:
        """Like `receive` without waiting, for any number of messages."""
        try:
            messages: list[Message[T, R]] = []
            is_open = self._deliveries.begin_receiving()
            while is_open and not messages:
                deliveries = self.box.take(limit, round(visibility_timeout * 1000))
                if not deliveries:
                    break
                messages = [each for each in map(self._opened, deliveries) if each is not None]
            return messages
        finally:
            self._deliveries.end_receiving()

    def _opened(self, delivery: Delivery[P]) -> Message[T, R] | None:
        """None for a body that cannot be read, unless it is wanted all the same: it waits for a
        person, and disturbs nobody."""
        message_id, fence, payload, reply_name, enqueued_ms, first_ms, count = delivery
        error: SerializationError | None = None
        try:
            body = self._packing.body(payload)
        except SerializationError as problem:
            if not unread_are_wanted():
                self._bury_unread(delivery, problem)
                return None
            # Without the frames that it came through: they would keep the message.
            body, error = self._packing.plain(payload), problem.with_traceback(None)
        reply = _NO_REPLY if reply_name is None else self._reply(delivery, reply_name)
        message: Message[T, R] = Message(
            message_id,
            body,
            handle_text(message_id, fence),
            count,
            moment(enqueued_ms),
            reply.to,
            reply.error,
            moment(first_ms),
            self._deliveries,
            body_error=error,
        )
        self._deliveries.add(message)
        return message

    def _reply(self, delivery: Delivery[P], name: str) -> Reply:
        reply = self._packing.reply(delivery.payload, name)
        if reply.error is not None:
            telemetry.emit(
                telemetry.ReplyUnresolved(
                    at=self._clock.now(),
                    mailbox=self.name,
                    message=delivery.id,
                    reply_to=name,
                    reason=str(reply.error),
                )
            )
        return reply

    def _bury_unread(self, delivery: Delivery[P], error: SerializationError) -> None:
        handle, burial = Handle(delivery.id, delivery.fence), _burial(str(error), error)
        try:
            is_good = self.box.bury(handle, burial)
        except Exception:
            # The others that were taken with it must not suffer. It comes back after its lease.
            _log.exception("message_not_dead_lettered", mailbox=self.name, message=delivery.id)
            return
        if is_good:
            self._tell_dead(delivery.id, delivery.deliveries, burial.reason)

    # Waiting

    @reaching
    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        try:
            return not self._is_closed and self.box.wait(timeout, stop)
        except StoreClosed:
            return False  # meanwhile

    # Many at once

    @reaching
    def extend_all(
        self, messages: Sequence[Message[T, R]], visibility_timeout: float
    ) -> list[bool]:
        timeout = require_visibility(visibility_timeout)
        return self._deliveries.extend_all([each.receipt_handle for each in messages], timeout)

    @reaching
    def release_all(self, messages: Sequence[Message[T, R]]) -> None:
        self._deliveries.release_all([each.receipt_handle for each in messages])
        for each in messages:
            each.mark_finalized()

    # Dead letters

    @reaching
    def dead_letter(
        self, message: Message[T, R], reason: str, error: BaseException | None = None
    ) -> None:
        burial = _burial(reason, error)
        self._deliveries.bury(message.receipt_handle, burial)
        message.mark_finalized()
        self._tell_dead(message.id, message.delivery_count, burial.reason)

    def _tell_dead(self, message_id: str, deliveries: int, reason: str) -> None:
        telemetry.emit(
            telemetry.MessageDeadLettered(
                at=self._clock.now(),
                mailbox=self.name,
                message=message_id,
                deliveries=deliveries,
                reason=reason,
            )
        )

    @reaching
    def dead_letters(self, limit: int = 100) -> list[DeadLetter[Any]]:
        found = self.box.buried(require_count("limit", limit))
        return [dead_letter_of(each, self._packing.show(each.payload), self.name) for each in found]

    @reaching
    def redrive(self, ids: Sequence[str] | None = None) -> int:
        count = self.box.revive(_possible(ids))
        if count:
            at = self._clock.now()
            telemetry.emit(telemetry.DeadLettersRedriven(at=at, mailbox=self.name, count=count))
        return count

    @reaching
    def discard_dead_letters(self, ids: Sequence[str] | None = None) -> int:
        """Delete dead letters, all or those with these ids; how many it were."""
        return self.box.discard_buried(_possible(ids))

    # Looking after it

    @reaching
    def peek(self, limit: int = 100) -> list[Peeked[Any]]:
        found = self.box.peek(require_count("limit", limit))
        return [peeked_of(each, self._packing.show(each.payload)) for each in found]

    @reaching
    def depth(self) -> Depth:
        """How many messages can be received now, are hidden, and are dead letters."""
        return self.box.depth()

    @reaching
    def approximate_count(self) -> int:
        return self.box.depth().total

    @reaching
    def purge(self) -> int:
        return self.box.purge()

    def close(self) -> None:
        self._is_closed = True
        self.box.end_waits()
        self._deliveries.close()

    def _let_go(self) -> None:
        self._packing.close()
        self.box.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise MailboxClosedError(f"the mailbox {self.name} was closed in this process")

    def __enter__(self) -> BoxMailbox[T, R, P]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _burial(reason: str, error: BaseException | None) -> Burial:
    return Burial(storable(reason), None if error is None else storable(type_name(error)))


def _possible(ids: Sequence[str] | None) -> list[str] | None:
    """Not all places can even be asked for what is the id of nothing."""
    return None if ids is None else [each for each in ids if is_storable(each)]
