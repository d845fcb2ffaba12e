"""What happens to a message whose handling failed, as a value: try again, or give up."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from afl import telemetry
from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError
from afl.mailbox.api import MAX_VISIBILITY_S, DeadLetter, Mailbox, Message
from afl.mailbox.records import request_id_of, trace_id_of, type_name
from afl.mailbox.texts import storable

T = TypeVar("T")
R = TypeVar("R")

#: A minute after the first failure, a quarter of an hour after many.
DEFAULT_BACKOFF = Backoff(initial=60.0, factor=2.0, maximum=900.0)


@dataclass(frozen=True)
class DLQPolicy(Generic[T]):
    """When a message is given up, and where it goes then.

    An error that is an instance of one of `include_errors` ends a message at once, one of
    `exclude_errors` only with delivery number `max_excluded_count`, so that nothing is tried for
    ever. Others end it with delivery number `max_delivery_count`. What is in both is excluded.

    `mailbox` gets the dead letters; None leaves them with the mailbox that the message came from,
    where `dead_letters` and `redrive` find them. `backoff` says how long to wait before the next
    delivery. Subclasses may decide in other ways.
    """

    mailbox: Mailbox[DeadLetter[T], Any] | None = None
    max_delivery_count: int = 5
    include_errors: Collection[type[BaseException]] | None = None
    exclude_errors: Collection[type[BaseException]] | None = None
    backoff: Backoff = DEFAULT_BACKOFF
    max_excluded_count: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.max_delivery_count <= self.max_excluded_count:
            raise ConfigurationError(
                f"max_delivery_count is {self.max_delivery_count}, max_excluded_count "
                f"{self.max_excluded_count}; expected 1 or more, and no fewer than that"
            )
        _require_errors("include_errors", self.include_errors)
        _require_errors("exclude_errors", self.exclude_errors)
        if self.backoff.maximum > MAX_VISIBILITY_S:
            raise ConfigurationError(
                f"the backoff grows to {self.backoff.maximum} s; a message can be hidden for at "
                f"most {MAX_VISIBILITY_S} s"
            )

    def should_dead_letter(self, message: Message[Any, Any], error: BaseException) -> bool:
        if isinstance(error, tuple(self.exclude_errors or ())):
            return message.delivery_count >= self.max_excluded_count
        if isinstance(error, tuple(self.include_errors or ())):
            return True
        return message.delivery_count >= self.max_delivery_count

    def delay_s(self, message: Message[Any, Any]) -> float:
        """Seconds until the next delivery, after this one has failed."""
        return self.backoff.delay(max(message.delivery_count, 1))


def _require_errors(name: str, errors: object) -> None:
    is_good = errors is None or (
        isinstance(errors, Collection) and all(map(_is_error_class, errors))
    )
    if not is_good:
        raise ConfigurationError(
            f"{name} is {errors!r}; expected a collection of classes of errors, such as "
            "[ValueError]"
        )


def _is_error_class(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, BaseException)


def give_up(
    mailbox: Mailbox[T, R],
    message: Message[T, R],
    error: BaseException,
    policy: DLQPolicy[T],
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Make a dead letter of `message`, which came from `mailbox`, and end it.

    The letter is kept before the message ends: a crash in between leaves both, never none. If the
    policy's mailbox does not take the letter, it stays with `mailbox`.
    Raises ReceiptHandleExpiredError if the message was lost meanwhile, and MailboxConnectionError
    if its own mailbox cannot be reached; then it comes back after its lease.
    """
    target = policy.mailbox
    if target is not None and _was_sent(target, mailbox.name, message, error, clock):
        message.acknowledge()
    else:
        mailbox.dead_letter(message, _text(error), error)


def _was_sent(
    target: Mailbox[DeadLetter[T], Any],
    source: str,
    message: Message[T, R],
    error: BaseException,
    clock: Clock,
) -> bool:
    try:
        target.send(letter_of(message, source, error, clock))
    except Exception as problem:  # whatever it is, the letter must not be lost
        telemetry.emit(
            telemetry.DeadLetterMailboxFailed(
                at=clock.now(),
                mailbox=source,
                message=message.id,
                target=target.name,
                reason=str(problem),
            )
        )
        return False
    telemetry.emit(
        telemetry.MessageDeadLettered(
            at=clock.now(),
            mailbox=source,
            message=message.id,
            deliveries=message.delivery_count,
            reason=_text(error),
        )
    )
    return True


def letter_of(
    message: Message[T, Any], source: str, error: BaseException, clock: Clock = SYSTEM_CLOCK
) -> DeadLetter[T]:
    """The record of a message that is given up now."""
    return DeadLetter(
        message_id=message.id,
        body=message.body,
        source_mailbox=source,
        delivery_count=message.delivery_count,
        last_error=storable(_text(error)),
        last_error_type=storable(type_name(error)),
        dead_lettered_at=clock.now(),
        first_received_at=message.first_received_at,
        enqueued_at=message.enqueued_at,
        request_id=request_id_of(message.body),
        reply_to=_reply_name(message),
        trace_id=trace_id_of(message.body),
    )


def _reply_name(message: Message[Any, Any]) -> str | None:
    if message.reply_to is not None:
        return message.reply_to.name
    return getattr(message.reply_error, "identifier", None)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
