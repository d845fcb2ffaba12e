"""A mailbox that is looked for when a reply is sent."""

from __future__ import annotations

from typing import Any

import pytest

from afl.loops.late_mailbox import LateMailbox
from afl.mailbox import CollectingMailbox, Mailbox
from afl.mailbox.errors import MailboxConnectionError, MailboxResolutionError


def test_a_reply_goes_out_as_soon_as_its_mailbox_is_found() -> None:
    replies: CollectingMailbox[Any, Any] = CollectingMailbox("replies")
    found: list[Mailbox[Any, Any]] = []

    def find(name: str) -> Mailbox[Any, Any]:
        if not found:
            raise MailboxConnectionError(f"{name} cannot be reached")
        return found[0]

    late = LateMailbox("replies", find)
    with pytest.raises(MailboxConnectionError):
        late.send("an answer")
    found.append(replies)
    late.send("an answer")
    assert (replies.sent, late.name, late.approximate_count()) == (["an answer"], "replies", 1)


def test_a_mailbox_that_nobody_knows_cannot_be_sent_to() -> None:
    late = LateMailbox("replies", lambda _: None)
    with pytest.raises(MailboxResolutionError, match="replies"):
        late.send("an answer")
