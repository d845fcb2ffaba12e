"""The port of mailboxes: queues whose messages come back if nobody finishes them.

- **Leases.** A received message is hidden from others for its visibility timeout. It ends in one
  of `acknowledge`, `nack`, `release` and `dead_letter`, or comes back when the time is over.
- **Handles are fences.** Each delivery has a receipt handle of its own. It is good until the
  message ends or somebody else receives it; after that everything is refused with
  `ReceiptHandleExpiredError`, and nothing happens.
- **Order.** Messages are received in the order in which they were sent. One that comes back comes
  back to its place.
- **Deliveries** are counted when they happen, so a message that kills its receivers is found.
  `release` takes the count back.
- **Waiting** ends within milliseconds of a send in any process, at the end of a lease or a delay,
  and at once when `stop` is set or the mailbox is closed. Nobody polls.
- **Dead letters** stay with the mailbox: a message moves there, and back, in one commit.
- **Outages** raise `MailboxConnectionError`, which is a `StoreUnavailable`: try again.

All methods may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import index
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from afl.mailbox.errors import (
    InvalidParameterError,
    MessageFinalizedError,
    ReplyNotAvailableError,
    SerializationError,
)

T = TypeVar("T")
R = TypeVar("R")

MAX_MESSAGES = 10
#: Twelve hours.
MAX_VISIBILITY_S = 43_200
#: What every backend can count to.
_MOST = 2**31 - 1


@runtime_checkable
class Mailbox(Protocol[T, R]):
    """Messages with bodies of type `T`, whose senders expect replies of type `R`."""

    @property
    def name(self) -> str:
        """As other processes know it, and logs name it."""

    @property
    def closed(self) -> bool: ...

    def send(self, body: T, *, reply_to: Mailbox[R, Any] | None = None) -> str:
        """The id of the message, once it is kept.

        Raises MailboxFullError, SerializationError, MailboxClosedError; MailboxResolutionError if
        the receivers could not find `reply_to` by its name.
        """

    def receive(
        self,
        *,
        max_messages: int = 1,
        visibility_timeout: float = 30,
        wait_time_seconds: float = 0,
        stop: threading.Event | None = None,
    ) -> Sequence[Message[T, R]]:
        """What is there, at most `max_messages` (held to 1 to 10).

        If nothing is, waits for the first up to `wait_time_seconds`, and less if `stop` is set or
        the mailbox is closed. A message whose body cannot be read becomes a dead letter, except
        inside `afl.mailbox.unread.unread_too`. Raises InvalidParameterError.
        """

    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        """Wait until `receive` may find something: True. False at the timeout, and at once when
        `stop` is set or the mailbox is closed."""

    def extend_all(
        self, messages: Sequence[Message[T, R]], visibility_timeout: float
    ) -> list[bool]:
        """Extend these leases, in one commit; False for each that was lost."""

    def release_all(self, messages: Sequence[Message[T, R]]) -> None:
        """Release all of them, in one commit. Says nothing about those that were lost."""

    def dead_letter(
        self, message: Message[T, R], reason: str, error: BaseException | None = None
    ) -> None:
        """End a message that cannot be handled: it waits for a person among the dead letters.

        Raises ReceiptHandleExpiredError.
        """

    def dead_letters(self, limit: int = 100) -> Sequence[DeadLetter[Any]]:
        """The oldest dead letters first."""

    def redrive(self, ids: Sequence[str] | None = None) -> int:
        """Send dead letters again, all or those with these ids; how many it were.

        They go to the end of the queue, and their deliveries are counted anew.
        """

    def peek(self, limit: int = 100) -> Sequence[Peeked[Any]]:
        """The first messages in their order, whether they can be received now or not."""

    def purge(self) -> int:
        """Delete all messages, also received ones, but no dead letters; how many it were."""

    def approximate_count(self) -> int:
        """How many messages there are, received or not, without dead letters."""

    def close(self) -> None:
        """Use it no more in this process. Waits end; messages stay. May be called again."""


class Holder(Protocol):
    """What a delivery can be ended or prolonged with: the mailbox that it came from."""

    def acknowledge(self, handle: str) -> None: ...

    def nack(self, handle: str, delay_s: float) -> None: ...

    def release(self, handle: str) -> None: ...

    def extend(self, handle: str, timeout_s: float) -> None: ...


class _Nobody:
    """Of messages that were made by hand: whatever is said about them is fine."""

    def acknowledge(self, handle: str) -> None: ...

    def nack(self, handle: str, delay_s: float) -> None: ...

    def release(self, handle: str) -> None: ...

    def extend(self, handle: str, timeout_s: float) -> None: ...


_NOBODY = _Nobody()


@dataclass(slots=True, weakref_slot=True)
class Message(Generic[T, R]):
    """One delivery of a message. The same message delivered again is another object."""

    #: Stays the same over all deliveries.
    id: str
    body: T
    #: Of this delivery alone.
    receipt_handle: str
    #: 1 at the first delivery.
    delivery_count: int
    #: When it was sent, by the clock of the place where it is kept.
    enqueued_at: datetime
    #: Where replies go; None if none was asked for, or it cannot be found (see `reply_error`).
    reply_to: Mailbox[R, Any] | None = None
    #: Why a reply that was asked for cannot be sent.
    reply_error: Exception | None = None
    #: When it was delivered for the first time.
    first_received_at: datetime | None = None
    #: Why the body cannot be read: then it is the plain value that was sent, or its raw text. Only
    #: for receivers who ask for such messages.
    body_error: SerializationError | None = field(default=None, kw_only=True)
    _holder: Holder = field(default=_NOBODY, repr=False, compare=False)
    _is_finalized: bool = field(default=False, repr=False, compare=False)

    @property
    def is_finalized(self) -> bool:
        """Whether this delivery was ended here."""
        return self._is_finalized

    def reply(self, body: R) -> str:
        """Send to whoever waits for the outcome; any number of times, before the end.

        Raises MessageFinalizedError after the end, ReplyNotAvailableError if no reply was asked
        for, `reply_error` if it was but cannot be sent, and what `Mailbox.send` raises.
        """
        if self._is_finalized:
            raise MessageFinalizedError(
                f"message {self.id} has ended; reply before you acknowledge it"
            )
        if self.reply_error is not None:
            raise self.reply_error
        if self.reply_to is None:
            raise ReplyNotAvailableError(
                f"message {self.id} has no reply_to: its sender did not ask for a reply"
            )
        return self.reply_to.send(body)

    def acknowledge(self) -> None:
        """It is done: delete it. Raises ReceiptHandleExpiredError."""
        self._holder.acknowledge(self.receipt_handle)
        self._is_finalized = True

    def nack(self, *, visibility_timeout: float = 0) -> None:
        """It failed: give it back, hidden for so many seconds. The delivery stays counted.

        Raises ReceiptHandleExpiredError, InvalidParameterError.
        """
        self._holder.nack(self.receipt_handle, require_visibility(visibility_timeout))
        self._is_finalized = True

    def release(self) -> None:
        """It was not begun, or interrupted: give it back at once. The delivery is not counted.

        Raises ReceiptHandleExpiredError.
        """
        self._holder.release(self.receipt_handle)
        self._is_finalized = True

    def extend_visibility(self, timeout: float) -> None:
        """Keep it hidden for so many seconds from now, or as long as it already is.

        Raises ReceiptHandleExpiredError, InvalidParameterError.
        """
        self._holder.extend(self.receipt_handle, require_visibility(timeout))

    def mark_finalized(self) -> None:
        """For mailboxes, which end deliveries in other ways than by these methods."""
        self._is_finalized = True


@dataclass(frozen=True)
class DeadLetter(Generic[T]):
    """A message that could not be handled, and why."""

    message_id: str
    #: As it was sent; the raw text if it is no body of the mailbox's type.
    body: T
    source_mailbox: str
    delivery_count: int
    last_error: str
    #: `module.qualname` of the error; None if there was none.
    last_error_type: str | None
    dead_lettered_at: datetime
    #: None if nobody ever received it.
    first_received_at: datetime | None
    enqueued_at: datetime
    request_id: str | None = None
    #: Name of the mailbox that waits for an answer.
    reply_to: str | None = None
    trace_id: str | None = None


@dataclass(frozen=True)
class Peeked(Generic[T]):
    """A message in its place, which nobody has received by this."""

    message_id: str
    #: As it was sent; the raw text if it is no body of the mailbox's type.
    body: T
    delivery_count: int
    enqueued_at: datetime
    #: Seconds until it can be received; 0: now.
    hidden_s: float
    #: Name of the mailbox that waits for an answer.
    reply_to: str | None = None


def require_visibility(seconds: float) -> float:
    """Raises InvalidParameterError for what is no visibility timeout."""
    if not 0 <= seconds <= MAX_VISIBILITY_S:
        raise InvalidParameterError(
            f"a visibility timeout is 0 to {MAX_VISIBILITY_S} seconds, not {seconds}"
        )
    return seconds


def require_wait(seconds: float) -> float:
    """Raises InvalidParameterError for what is no time to wait."""
    if not seconds >= 0:
        raise InvalidParameterError(f"wait_time_seconds is 0 or more, not {seconds}")
    return seconds


def require_count(parameter: str, count: int) -> int:
    """What every backend takes for it. Raises InvalidParameterError for what is no whole number."""
    try:
        return min(int(index(count)), _MOST)
    except TypeError:
        raise InvalidParameterError(f"{parameter} is a whole number, not {count!r}") from None
