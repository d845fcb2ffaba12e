"""Mailboxes: queues whose messages come back if nobody finishes them.

Every public name is here, loaded when it is first used: who wants one backend should not pay for
the drivers of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

#: Public name → module that has it.
_EXPORTS = {
    **dict.fromkeys(("Mailbox", "Message", "DeadLetter", "Peeked"), "afl.mailbox.api"),
    **dict.fromkeys(("open_mailbox", "mailbox_names", "UrlMailboxFactory"), "afl.mailbox.opening"),
    **dict.fromkeys(("InMemoryMailbox", "InMemoryMailboxFactory"), "afl.mailbox.memory"),
    "SqliteMailbox": "afl.mailbox.sqlite",
    "PostgresMailbox": "afl.mailbox.postgres",
    "RedisMailbox": "afl.mailbox.redis",
    **dict.fromkeys(("DLQPolicy", "give_up"), "afl.mailbox.failure"),
    **dict.fromkeys(
        ("NullMailbox", "CollectingMailbox", "FakeMailbox"),
        "afl.mailbox.doubles",
    ),
    **dict.fromkeys(
        ("MailboxResolver", "MailboxFactory", "RegistryResolver", "CompositeResolver"),
        "afl.mailbox.resolver",
    ),
    "Depth": "afl.mailbox.box",
    **dict.fromkeys(
        (
            *("MailboxError", "ReceiptHandleExpiredError", "MailboxFullError"),
            *("SerializationError", "MailboxConnectionError", "MailboxClosedError"),
            *("ReplyNotAvailableError", "MessageFinalizedError", "InvalidParameterError"),
            "MailboxResolutionError",
        ),
        "afl.mailbox.errors",
    ),
}

__all__ = list(_EXPORTS)

if TYPE_CHECKING:
    from afl.mailbox.api import DeadLetter as DeadLetter
    from afl.mailbox.api import Mailbox as Mailbox
    from afl.mailbox.api import Message as Message
    from afl.mailbox.api import Peeked as Peeked
    from afl.mailbox.box import Depth as Depth
    from afl.mailbox.doubles import CollectingMailbox as CollectingMailbox
    from afl.mailbox.doubles import FakeMailbox as FakeMailbox
    from afl.mailbox.doubles import NullMailbox as NullMailbox
    from afl.mailbox.errors import InvalidParameterError as InvalidParameterError
    from afl.mailbox.errors import MailboxClosedError as MailboxClosedError
    from afl.mailbox.errors import MailboxConnectionError as MailboxConnectionError
    from afl.mailbox.errors import MailboxError as MailboxError
    from afl.mailbox.errors import MailboxFullError as MailboxFullError
    from afl.mailbox.errors import MailboxResolutionError as MailboxResolutionError
    from afl.mailbox.errors import MessageFinalizedError as MessageFinalizedError
    from afl.mailbox.errors import ReceiptHandleExpiredError as ReceiptHandleExpiredError
    from afl.mailbox.errors import ReplyNotAvailableError as ReplyNotAvailableError
    from afl.mailbox.errors import SerializationError as SerializationError
    from afl.mailbox.failure import DLQPolicy as DLQPolicy
    from afl.mailbox.failure import give_up as give_up
    from afl.mailbox.memory import InMemoryMailbox as InMemoryMailbox
    from afl.mailbox.memory import InMemoryMailboxFactory as InMemoryMailboxFactory
    from afl.mailbox.opening import UrlMailboxFactory as UrlMailboxFactory
    from afl.mailbox.opening import mailbox_names as mailbox_names
    from afl.mailbox.opening import open_mailbox as open_mailbox
    from afl.mailbox.postgres import PostgresMailbox as PostgresMailbox
    from afl.mailbox.redis import RedisMailbox as RedisMailbox
    from afl.mailbox.resolver import CompositeResolver as CompositeResolver
    from afl.mailbox.resolver import MailboxFactory as MailboxFactory
    from afl.mailbox.resolver import MailboxResolver as MailboxResolver
    from afl.mailbox.resolver import RegistryResolver as RegistryResolver
    from afl.mailbox.sqlite import SqliteMailbox as SqliteMailbox


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
