"""Doubles do what tests of others need, and nothing by themselves."""

from __future__ import annotations

import threading

import pytest

from afl.mailbox import (
    CollectingMailbox,
    FakeMailbox,
    InMemoryMailbox,
    Mailbox,
    MailboxConnectionError,
    NullMailbox,
    ReceiptHandleExpiredError,
)


@pytest.mark.parametrize("kind", [NullMailbox, CollectingMailbox, FakeMailbox, InMemoryMailbox])
def test_a_double_is_a_mailbox(kind: type[Mailbox[str, str]]) -> None:
    mailbox = kind()
    assert isinstance(mailbox, Mailbox)
    mailbox.send("a", reply_to=NullMailbox())
    mailbox.close()
    assert mailbox.closed
    assert list(mailbox.receive(wait_time_seconds=20)) == []


def test_nothing_comes_out_of_nowhere() -> None:
    mailbox: NullMailbox[str, str] = NullMailbox("nowhere")
    assert mailbox.send("a") != mailbox.send("a")
    assert mailbox.receive() == []
    assert mailbox.wait() is False
    assert mailbox.approximate_count() == mailbox.purge() == mailbox.redrive() == 0
    assert mailbox.dead_letters() == []
    assert mailbox.peek() == []


def test_what_is_sent_is_collected() -> None:
    mailbox: CollectingMailbox[str, str] = CollectingMailbox()
    mailbox.send("a")
    mailbox.send("b")
    assert mailbox.sent == ["a", "b"]
    assert mailbox.receive() == []
    assert mailbox.approximate_count() == 2
    assert mailbox.purge() == 2


def test_time_stands_still_in_a_fake() -> None:
    mailbox: FakeMailbox[str, str] = FakeMailbox()
    assert mailbox.receive(wait_time_seconds=20) == []
    assert mailbox.wait(stop=threading.Event()) is False
    mailbox.send("a")
    (message,) = mailbox.receive(visibility_timeout=1)
    assert mailbox.receive() == []
    mailbox.clock.advance(1)
    assert mailbox.receive()[0].id == message.id


def test_a_delivery_can_be_taken_away() -> None:
    mailbox: FakeMailbox[str, str] = FakeMailbox()
    mailbox.send("a")
    (message,) = mailbox.receive()
    mailbox.expire_handle(message.receipt_handle)
    with pytest.raises(ReceiptHandleExpiredError):
        message.acknowledge()
    with pytest.raises(ReceiptHandleExpiredError):
        message.extend_visibility(10)
    assert mailbox.receive()[0].delivery_count == 2


def test_the_place_fails_when_told() -> None:
    mailbox: FakeMailbox[str, str] = FakeMailbox()
    mailbox.send("a")
    (message,) = mailbox.receive()
    mailbox.set_connection_error(MailboxConnectionError("the network is gone"))
    for call in (
        lambda: mailbox.send("b"),
        mailbox.receive,
        mailbox.purge,
        mailbox.approximate_count,
        message.acknowledge,
        message.release,
    ):
        with pytest.raises(MailboxConnectionError, match="network"):
            call()
    assert not message.is_finalized
    mailbox.clear_connection_error()
    message.acknowledge()


def test_messages_can_be_made_up() -> None:
    mailbox: FakeMailbox[str, str] = FakeMailbox()
    replies: CollectingMailbox[str, None] = CollectingMailbox()
    mailbox.inject_message("a", msg_id="one", delivery_count=4, reply_to=replies)
    mailbox.inject_message("b")
    first, second = mailbox.receive(max_messages=2)
    assert (first.id, first.body, first.delivery_count) == ("one", "a", 4)
    assert second.delivery_count == 1
    first.reply("done")
    first.nack()
    assert mailbox.receive()[0].delivery_count == 5
    assert replies.sent == ["done"]
