"""What mailboxes raise. Each belongs to the family of `afl.errors` that says who must act."""

from __future__ import annotations

from afl.errors import AflError, Conflict, NotFound, StoreClosed, StoreUnavailable, UsageError


class MailboxError(AflError):
    """Root of all errors of mailboxes."""


class ReceiptHandleExpiredError(MailboxError, Conflict):
    """The message is not this receiver's any more: it was finished, given back, purged, or given
    to somebody else after its lease. Whatever is known about it counts no more."""


class MailboxFullError(MailboxError, StoreUnavailable):
    """The mailbox holds as many messages as it may. Nothing was sent; later it may have room."""


class MailboxConnectionError(MailboxError, StoreUnavailable):
    """The place where the messages are cannot be reached or used now. Try again after a pause."""


class MailboxClosedError(MailboxError, StoreClosed):
    """The mailbox was closed in this process."""


class SerializationError(MailboxError, UsageError):
    """The body cannot be written, or what was written is no body of the expected type."""


class ReplyNotAvailableError(MailboxError, UsageError):
    """The sender did not ask for a reply."""


class MessageFinalizedError(MailboxError, UsageError):
    """The message has ended: no reply can follow."""


class InvalidParameterError(MailboxError, UsageError):
    """A number is out of its range."""


class MailboxResolutionError(MailboxError, NotFound):
    """No mailbox is known by this name, so that what is meant for it cannot be sent."""

    def __init__(self, identifier: str, reason: str | None = None) -> None:
        self.identifier = identifier
        super().__init__(
            reason
            or f"no mailbox is known as {identifier!r}: add it to the registry of the resolver, "
            "or give the resolver a factory"
        )
