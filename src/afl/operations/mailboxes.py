"""Looking after mailboxes at a URL: what they hold, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from afl.errors import NotFound
from afl.mailbox import DeadLetter, Peeked, mailbox_names, open_mailbox


@dataclass(frozen=True, slots=True)
class MailboxDepth:
    """How many messages a mailbox has."""

    name: str
    #: Can be received now.
    ready: int
    #: Received, or delayed.
    hidden: int
    dead_letters: int


def list_mailboxes(url: str) -> list[MailboxDepth]:
    """All mailboxes that hold messages or dead letters, by name.

    Raises, as all functions here, what `afl.mailbox.open_mailbox` raises.
    """
    return [mailbox_depth(url, name) for name in mailbox_names(url)]


def mailbox_depth(url: str, name: str) -> MailboxDepth:
    with closing(open_mailbox(url, name)) as mailbox:
        return MailboxDepth(name, *mailbox.depth())


def peek_mailbox(url: str, name: str, *, limit: int = 100) -> list[Peeked[Any]]:
    """The first messages in their order; nobody receives them by this."""
    with closing(open_mailbox(url, name)) as mailbox:
        return mailbox.peek(limit)


def mailbox_dead_letters(url: str, name: str, *, limit: int = 100) -> list[DeadLetter[Any]]:
    """The oldest dead letters first."""
    with closing(open_mailbox(url, name)) as mailbox:
        return mailbox.dead_letters(limit)


def redrive_mailbox(url: str, name: str, ids: Sequence[str] | None = None) -> int:
    """Send dead letters again, all or those with these ids; how many it were.

    Raises NotFound if ids were given and none of them is a dead letter of this mailbox.
    """
    with closing(open_mailbox(url, name)) as mailbox:
        count = mailbox.redrive(ids)
    if ids and not count:
        raise NotFound(
            f"mailbox {name} has no dead letter {', '.join(ids)}; look with `afl mailbox "
            f"dead-letters`"
        )
    return count
