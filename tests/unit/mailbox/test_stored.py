"""What all mailboxes have in common, where the place fails."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import StoreClosed, StoreUnavailable
from afl.mailbox import (
    InvalidParameterError,
    MailboxClosedError,
    MailboxConnectionError,
    Message,
    MessageFinalizedError,
    ReceiptHandleExpiredError,
)
from afl.mailbox.bodies import JsonBodies
from afl.mailbox.box import Burial, Delivery, Entry, Handle
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue
from afl.mailbox.named import NamedMailbox
from afl.testing.contracts.mailbox.exam import Background


class FailingBox(MemoryBox[bytes]):
    """Fails in what `fails` names, and remembers whether it was closed."""

    fails: frozenset[str] = frozenset()

    def __init__(self, name: str, queue: MemoryQueue[bytes]) -> None:
        super().__init__(name, queue)
        self.let_go = threading.Event()

    @property
    def is_let_go(self) -> bool:
        return self.let_go.is_set()

    def bury(self, handle: Handle, burial: Burial) -> bool:
        if "bury" in self.fails:
            raise StoreUnavailable("the disk is full")
        return super().bury(handle, burial)

    def close(self) -> None:
        self.let_go.set()
        super().close()

    def _queue(self) -> MemoryQueue[bytes]:
        if "all" in self.fails:
            raise StoreUnavailable("the server is gone")
        return super()._queue()


@pytest.fixture
def box() -> FailingBox:
    return FailingBox("requests", MemoryQueue(FakeClock()))


@pytest.fixture
def mailbox(box: FailingBox) -> NamedMailbox[Any, Any]:
    return NamedMailbox(lambda _name: box, "requests", body_type=int, clock=FakeClock())


CALLS: dict[str, Callable[[NamedMailbox[Any, Any], Message[Any, Any]], object]] = {
    "send": lambda mailbox, _: mailbox.send(1),
    "receive": lambda mailbox, _: mailbox.receive(),
    "wait": lambda mailbox, _: mailbox.wait(0),
    "extend_all": lambda mailbox, message: mailbox.extend_all([message], 1),
    "release_all": lambda mailbox, message: mailbox.release_all([message]),
    "dead_letter": lambda mailbox, message: mailbox.dead_letter(message, "why"),
    "dead_letters": lambda mailbox, _: mailbox.dead_letters(),
    "redrive": lambda mailbox, _: mailbox.redrive(),
    "discard_dead_letters": lambda mailbox, _: mailbox.discard_dead_letters(),
    "peek": lambda mailbox, _: mailbox.peek(),
    "depth": lambda mailbox, _: mailbox.depth(),
    "approximate_count": lambda mailbox, _: mailbox.approximate_count(),
    "purge": lambda mailbox, _: mailbox.purge(),
    "acknowledge": lambda _, message: message.acknowledge(),
    "nack": lambda _, message: message.nack(),
    "release": lambda _, message: message.release(),
    "extend_visibility": lambda _, message: message.extend_visibility(1),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_outage_is_told_and_may_be_tried_again(
    mailbox: NamedMailbox[Any, Any], box: FailingBox, call: str
) -> None:
    mailbox.send(1)
    (message,) = mailbox.receive()
    box.fails = frozenset({"all"})
    with pytest.raises(MailboxConnectionError, match="the server is gone") as caught:
        CALLS[call](mailbox, message)
    assert isinstance(caught.value, StoreUnavailable)
    assert not message.is_finalized
    box.fails = frozenset()
    CALLS[call](mailbox, message)


def test_poison_that_cannot_be_moved_disturbs_nobody(
    mailbox: NamedMailbox[Any, Any], box: FailingBox, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox.box.put(Entry("poison", b"no"))
    mailbox.send(1)
    box.fails = frozenset({"bury"})
    assert [each.body for each in mailbox.receive(max_messages=2)] == [1]
    assert "message_not_dead_lettered" in caplog.text
    assert mailbox.depth() == (0, 2, 0), "it comes back after its lease"


def test_the_place_is_let_go_of_with_the_last_message_in_hand(
    mailbox: NamedMailbox[Any, Any], box: FailingBox
) -> None:
    for each in range(3):
        mailbox.send(each)
    first, second, third = mailbox.receive(max_messages=3)
    mailbox.close()
    first.acknowledge()
    mailbox.release_all([second])
    assert not box.is_let_go
    third.nack()
    assert box.is_let_go
    with pytest.raises(MailboxClosedError) as caught:
        mailbox.approximate_count()
    assert isinstance(caught.value, StoreClosed)


def test_a_message_that_is_dropped_keeps_nothing_open(
    mailbox: NamedMailbox[Any, Any], box: FailingBox
) -> None:
    mailbox.send(1)
    assert mailbox.receive()
    gc.collect()
    mailbox.close()
    assert box.is_let_go


def test_the_place_is_let_go_of_when_the_last_message_in_hand_is_dropped(
    mailbox: NamedMailbox[Any, Any], box: FailingBox
) -> None:
    for each in range(3):
        mailbox.send(each)
    first, second, third = mailbox.receive(max_messages=3)
    mailbox.close()
    mailbox.close()
    del first
    second.acknowledge()
    assert not box.is_let_go
    # As the collector may do it: in the middle of something that others wait for.
    third_in_a_ring: list[object] = [third]
    third_in_a_ring.append(third_in_a_ring)
    del third, third_in_a_ring
    gc.collect()
    assert box.let_go.wait(20)


def test_what_is_dropped_is_closed_elsewhere(
    mailbox: NamedMailbox[Any, Any], box: FailingBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_by: list[threading.Thread] = []
    close = box.close

    def watched() -> None:
        closed_by.append(threading.current_thread())
        close()

    monkeypatch.setattr(box, "close", watched)
    mailbox.send(1)
    messages = mailbox.receive()
    mailbox.close()
    messages.clear()
    assert box.let_go.wait(20)
    assert closed_by != [threading.current_thread()], "whoever drops it may hold any lock"


def test_who_receives_while_it_is_closed_can_end_what_it_got(box: FailingBox) -> None:
    is_taking, may_go_on = threading.Event(), threading.Event()

    class Slow(NamedMailbox[Any, Any]):
        def _opened(self, delivery: Delivery[bytes]) -> Message[Any, Any] | None:
            is_taking.set()
            assert may_go_on.wait(20)
            return super()._opened(delivery)

    mailbox = Slow(lambda _name: box, "requests")
    mailbox.send(1)
    receiver = Background(mailbox.receive, patience_s=20)
    assert is_taking.wait(20)
    mailbox.close()
    assert not box.is_let_go
    may_go_on.set()
    (message,) = receiver.answer()
    message.acknowledge()
    assert box.is_let_go


def test_a_resolver_that_fails_is_an_error_on_the_message(box: FailingBox) -> None:
    class Broken:
        def resolve(self, identifier: str) -> Any:
            raise KeyError("no such name")

        def resolve_optional(self, identifier: str) -> Any:
            return None

    mailbox: NamedMailbox[Any, Any] = NamedMailbox(
        lambda _name: box, "requests", reply_resolver=Broken()
    )
    mailbox.box.put(Entry("a", b"1", "replies"))
    mailbox.send(2)
    first, second = mailbox.receive(max_messages=2)
    with pytest.raises(KeyError, match="name"):
        first.reply("b")
    assert second.body == 2


@pytest.mark.parametrize("handle", ["", "id", "id:", "id:x", "id:-1", "id:²", ":1"])
def test_a_handle_that_is_none_is_refused(mailbox: NamedMailbox[Any, Any], handle: str) -> None:
    mailbox.send(1)
    (message,) = mailbox.receive()
    message.receipt_handle = handle
    with pytest.raises(ReceiptHandleExpiredError):
        message.acknowledge()
    assert mailbox.approximate_count() == 1


def test_a_message_made_by_hand_can_be_ended() -> None:
    message: Message[str, str] = Message(
        id="1", body="a", receipt_handle="1:1", delivery_count=1, enqueued_at=FakeClock().now()
    )
    message.extend_visibility(10)
    with pytest.raises(InvalidParameterError):
        message.nack(visibility_timeout=-1)
    message.nack()
    assert message.is_finalized
    with pytest.raises(MessageFinalizedError):
        message.reply("b")
    other: Message[str, str] = Message("2", "a", "2:1", 1, FakeClock().now())
    other.release()
    third: Message[str, str] = Message("2", "a", "2:1", 1, FakeClock().now())
    third.acknowledge()
    assert other == third


def test_code_of_bodies_that_fails_is_a_body_that_cannot_be_read() -> None:
    from dataclasses import dataclass

    @dataclass
    class Picky:
        item: str

        def __post_init__(self) -> None:
            raise KeyError("no such item")

    bodies: JsonBodies[Picky] = JsonBodies(Picky)
    assert bodies.show(b'{"item": "x"}') == '{"item": "x"}'
