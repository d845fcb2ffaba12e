"""Messages of a mailbox as leased work, and how each of them ends.

- A reply goes out before the message is acknowledged, so a crash in between repeats a reply and
  never loses one.
- Right before the reply the lease is extended: who has lost it says nothing.
- Replies tell ends. A message that is tried again is not answered yet. One that failed, and whose
  sender cannot be told so, is a dead letter.
- A body that does not fit the type of the mailbox has failed for good: its sender is told what does
  not fit, and then the message is a dead letter. In this order for the same reason as above.
- A message without an end after many deliveries, whatever became of its receivers, is a dead
  letter.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from afl import telemetry
from afl.agents.recording import TurnSuspended
from afl.clock import SYSTEM_CLOCK, Clock
from afl.error_text import text_of as text_of
from afl.errors import AflError, Conflict, StoreClosed, StoreUnavailable
from afl.log import get_logger
from afl.mailbox.api import Mailbox, Message
from afl.mailbox.errors import (
    MailboxConnectionError,
    ReceiptHandleExpiredError,
    SerializationError,
)
from afl.mailbox.failure import DLQPolicy, give_up
from afl.mailbox.unread import unread_too
from afl.turns.errors import TurnHandedOver
from afl.work.source import ClaimLost, Job, Room

T = TypeVar("T")
R = TypeVar("R")

_log = get_logger(__name__)

#: How long a message is hidden unless its lease is renewed.
LEASE_S = 15.0
#: Doubles and mailboxes of others may not wait at all: then a loop must not spin.
_SHORTEST_WAIT_S = 0.02
#: How long a mailbox may not take a reply before the message is given back.
REPLY_PATIENCE_S = 60.0


class GivenUp(AflError):  # noqa: N818 - what happened is what people read
    """No loop tries this message again by itself: it becomes a dead letter."""


class ReplyNotSent(AflError):  # noqa: N818 - what happened is what people read
    """The turn is over, but the mailbox that waits for its reply took it at no time."""


@dataclass(eq=False, slots=True)
class MessageWork(Generic[T, R]):
    """A received message."""

    message: Message[T, R]
    mailbox: str
    #: Its reply is on its way: a second try to end it sends no second one.
    is_answered: bool = False
    #: Since when its reply cannot be sent, by the monotonic clock.
    unsent_since: float | None = None

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def label(self) -> str:
        return f"{self.mailbox}/{self.message.id}"


class Handling(Protocol[T, R]):
    """How messages are done, and what their senders hear if that fails."""

    def job(self, message: Message[T, R]) -> Job:
        """What this raises is the failure of the message."""

    def failure(self, message: Message[T, R], error: BaseException, reason: str) -> R | None:
        """The reply for a message that failed for good; None for none."""


class MessageSource(Generic[T, R]):
    """Lends the messages of `mailbox`. Sets `stop` when that is closed.

    `responses` gets replies to messages that name no mailbox for them. Without a `policy`, a
    failure is answered and never tried again. With a `wait_s`, each claim waits so long for a first
    message, and nobody waits between claims.
    """

    def __init__(
        self,
        mailbox: Mailbox[T, R],
        handling: Handling[T, R],
        stop: threading.Event,
        *,
        responses: Mailbox[R, Any] | None = None,
        policy: DLQPolicy[T] | None = None,
        lease_s: float = LEASE_S,
        wait_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._mailbox = mailbox
        self._handling = handling
        self._stop = stop
        self._responses = responses
        self._is_answering = policy is None
        self._policy: DLQPolicy[T] = policy or DLQPolicy()
        self._lease_s = lease_s
        self._wait_s = wait_s
        self._clock = clock

    # Claims

    @property
    def lease_s(self) -> float:
        return self._lease_s

    def claim(self, limit: int) -> list[MessageWork[T, R]]:
        with reaching(), unread_too():
            messages = self._mailbox.receive(
                max_messages=limit,
                visibility_timeout=self._lease_s,
                wait_time_seconds=self._wait_s or 0,
                stop=self._stop,
            )
        if not messages:
            self._stop_if_closed()
        return [MessageWork(each, self._mailbox.name) for each in messages]

    def wait(self, timeout: float | None, stop: threading.Event) -> bool:
        if self._wait_s is not None:
            return False
        began = self._clock.monotonic()
        with reaching():
            is_found = self._mailbox.wait(timeout, stop)
        if not is_found:
            self._stop_if_closed()
            if self._clock.monotonic() - began < _SHORTEST_WAIT_S and not self._stop.is_set():
                self._clock.wait(stop, _SHORTEST_WAIT_S)
        return is_found

    def extend(self, works: Sequence[MessageWork[T, R]]) -> list[bool]:
        with reaching():
            return self._mailbox.extend_all([each.message for each in works], self._lease_s)

    def release(self, works: Sequence[MessageWork[T, R]]) -> None:
        with reaching():
            self._mailbox.release_all([each.message for each in works])

    def _stop_if_closed(self) -> None:
        if self._mailbox.closed:
            self._stop.set()

    # How a message is done

    def job(self, work: MessageWork[T, R]) -> Job:
        message = work.message
        if message.body_error is not None:
            raise message.body_error
        if message.delivery_count > _most_deliveries(self._policy):
            raise GivenUp(
                f"message {message.id} was delivered {message.delivery_count} times without an "
                "end: handling it seems to end the process; correct that, then redrive it"
            )
        if message.reply_error is not None and self._responses is None:
            raise GivenUp(
                f"nobody could be told what comes of message {message.id}: {message.reply_error}"
            ) from message.reply_error
        return self._handling.job(message)

    # Ends

    def complete(self, work: MessageWork[T, R], result: R | None, room: Room) -> Recorded:  # noqa: ARG002 - nothing follows from a message
        with reaching(), holding():
            self._reply(work, result)
            work.message.acknowledge()
        return RECORDED

    def fail(self, work: MessageWork[T, R], error: BaseException) -> Recorded:
        with reaching(), holding():
            try:
                self._end_failed(work, error)
            except ReplyNotSent as unsent:
                self._end_failed(work, unsent)
        return RECORDED

    def _end_failed(self, work: MessageWork[T, R], error: BaseException) -> None:
        message, policy = work.message, self._policy
        if isinstance(error, GivenUp) or error is message.body_error:
            self._give_up(work, error)
        elif isinstance(error, TurnSuspended):
            self._leave(work, error)
        elif self._is_answering and not is_unsent(error):
            self._answer_failure(work, error)
        elif work.is_answered or policy.should_dead_letter(message, error):
            self._give_up(work, error)
        else:
            delay_s = policy.delay_s(message)
            message.nack(visibility_timeout=delay_s)
            _log.warning(
                "message_tried_again", message=work.label, delay_s=delay_s, error=text_of(error)
            )

    def _leave(self, work: MessageWork[T, R], suspended: TurnSuspended) -> None:
        """Its end is still to come: that nobody can be told of the wait is no reason to end it."""
        if not isinstance(suspended, TurnHandedOver):  # the answer is on its way
            self._reply_failure(work, suspended, text_of(suspended))
        if suspended.is_detached:
            work.message.acknowledge()
        else:
            work.message.release()  # whoever receives it next goes on with the turn

    def _answer_failure(self, work: MessageWork[T, R], error: BaseException) -> None:
        problem = self._reply_failure(work, error, text_of(error))
        if problem is None:
            work.message.acknowledge()
        else:
            untold = f"{text_of(error)}; and nobody could be told: {text_of(problem)}"
            self._bury(work, GivenUp(untold))

    def _give_up(self, work: MessageWork[T, R], error: BaseException) -> None:
        if not is_unsent(error):
            count = work.message.delivery_count
            deliveries = "1 delivery" if count == 1 else f"{count} deliveries"
            reason = f"given up after {deliveries}: {text_of(error)}"
            self._reply_failure(work, error, reason)
        self._bury(work, error)

    def _bury(self, work: MessageWork[T, R], error: BaseException) -> None:
        give_up(self._mailbox, work.message, error, self._policy, clock=self._clock)

    # Replies

    def _reply_failure(
        self, work: MessageWork[T, R], error: BaseException, reason: str
    ) -> Exception | None:
        """None if it was told; else why nobody can be told, now or later."""
        try:
            self._reply(work, self._handling.failure(work.message, error, reason))
        except (Conflict, StoreClosed, StoreUnavailable, ReplyNotSent):
            raise
        except Exception as problem:
            _log.exception("failure_not_answered", message=work.label)
            self._tell_unsent(work, problem)
            return problem
        return None

    def _reply(self, work: MessageWork[T, R], reply: R | None) -> None:
        """Raises ClaimLost, SerializationError; StoreUnavailable if it can be tried again."""
        named = work.message.reply_to
        target = self._responses if named is None else named
        if work.is_answered or reply is None or target is None:
            return
        self._require_lease(work)
        try:
            target.send(reply)
        except (StoreUnavailable, OSError) as problem:
            raise self._unsent(work, problem) from problem
        except SerializationError:
            raise
        except AflError as problem:  # closed, or nowhere: nobody can be told any more
            self._tell_unsent(work, problem)
        work.is_answered = True

    def _require_lease(self, work: MessageWork[T, R]) -> None:
        (is_held,) = self._mailbox.extend_all([work.message], self._lease_s)
        if not is_held:
            raise ClaimLost(f"the lease of {work.label} has run out: somebody else may answer it")

    def _unsent(self, work: MessageWork[T, R], problem: Exception) -> AflError:
        now = self._clock.monotonic()
        if work.unsent_since is None:
            work.unsent_since = now
        if now - work.unsent_since < REPLY_PATIENCE_S:
            return MailboxConnectionError(f"the reply to {work.label} cannot be sent: {problem}")
        self._tell_unsent(work, problem)
        return ReplyNotSent(f"the reply to {work.label} could not be sent: {problem}")

    def _tell_unsent(self, work: MessageWork[T, R], problem: Exception) -> None:
        telemetry.emit(
            telemetry.ReplyNotSent(
                at=self._clock.now(),
                mailbox=self._mailbox.name,
                message=work.message.id,
                reason=text_of(problem),
            )
        )


class Recorded:
    """An end that was written before anybody asked."""

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> Sequence[Any]:  # noqa: ARG002
        return ()


RECORDED = Recorded()


@contextmanager
def reaching() -> Iterator[None]:
    """Mailboxes of others may let errors of the network through: they are outages."""
    try:
        yield
    except OSError as error:
        raise MailboxConnectionError(str(error)) from error


@contextmanager
def holding() -> Iterator[None]:
    """A handle that is good no more is a claim that is lost."""
    try:
        yield
    except ReceiptHandleExpiredError as error:
        raise ClaimLost(str(error)) from error


def _most_deliveries(policy: DLQPolicy[Any]) -> int:
    """After how many a message is taken for one that ends its receivers: more than those after
    which the policy would have ended one that failed."""
    is_usual = type(policy).should_dead_letter is DLQPolicy.should_dead_letter
    if is_usual and not policy.exclude_errors:
        return policy.max_delivery_count
    return policy.max_excluded_count


def is_unsent(error: BaseException) -> bool:
    return isinstance(error, ReplyNotSent)
