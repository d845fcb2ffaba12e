"""Mailboxes in memory: objects themselves, or copies that have passed the check."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

import pytest

from afl.clock import FakeClock
from afl.mailbox import (
    InMemoryMailbox,
    InMemoryMailboxFactory,
    Mailbox,
    MailboxClosedError,
    MailboxFullError,
    SerializationError,
)
from afl.mailbox.box import Entry
from afl.testing.contracts.mailbox.exam import Background


class Thing:
    """Nothing that could be written."""


@dataclass
class Order:
    item: str


def test_receivers_get_the_object_that_was_sent() -> None:
    mailbox: InMemoryMailbox[Thing, None] = InMemoryMailbox()
    thing = Thing()
    mailbox.send(thing)
    assert mailbox.name == "default"
    assert mailbox.receive()[0].body is thing


def test_replies_go_to_the_very_mailbox_that_was_given() -> None:
    mailbox: InMemoryMailbox[str, Thing] = InMemoryMailbox()
    # All of them have the same name.
    mine: InMemoryMailbox[Thing, None] = InMemoryMailbox()
    mailbox.send("a", reply_to=mine)
    (message,) = mailbox.receive()
    assert message.reply_to is mine
    thing = Thing()
    message.reply(thing)
    message.acknowledge()
    assert mine.receive()[0].body is thing
    assert mailbox.approximate_count() == 0


def test_with_a_type_receivers_get_checked_copies() -> None:
    mailbox: InMemoryMailbox[Order, None] = InMemoryMailbox(body_type=Order)
    order = Order("apple")
    mailbox.send(order)
    order.item = "pear"
    assert mailbox.receive()[0].body == Order("apple")
    with pytest.raises(SerializationError):
        mailbox.send(Thing())  # type: ignore[arg-type]


def test_poison_is_a_dead_letter_here_too() -> None:
    mailbox: InMemoryMailbox[Order, None] = InMemoryMailbox(body_type=Order)
    other: InMemoryMailbox[str, None] = InMemoryMailbox(body_type=str)
    other.send("text")
    (delivery,) = other.box.take(1, 0)
    mailbox.box.put(Entry("poison", delivery.payload))
    assert mailbox.receive() == []
    assert [each.body for each in mailbox.dead_letters()] == ['"text"']


def test_the_places_of_the_signature_hold() -> None:
    clock = FakeClock()
    mailbox: InMemoryMailbox[str, None] = InMemoryMailbox("requests", 1, clock)
    mailbox.send("a")
    with pytest.raises(MailboxFullError):
        mailbox.send("b")
    assert mailbox.receive(visibility_timeout=5)[0].enqueued_at == clock.now()
    clock.advance(5)
    assert mailbox.receive()[0].delivery_count == 2


def test_a_size_that_holds_nothing_is_refused() -> None:
    with pytest.raises(Exception, match="max_size is 0"):
        InMemoryMailbox(max_size=0)


def test_leases_ignore_corrections_of_the_clock() -> None:
    clock = FakeClock()
    mailbox: InMemoryMailbox[str, None] = InMemoryMailbox(clock=clock)
    mailbox.send("a")
    mailbox.receive(visibility_timeout=30)
    clock.set_wall(clock.now().replace(year=2030))
    assert mailbox.receive() == []
    clock.set_wall(clock.now().replace(year=2020))
    clock.advance(30)
    assert len(mailbox.receive()) == 1


def test_what_was_acknowledged_is_not_kept() -> None:
    mailbox: InMemoryMailbox[Thing, None] = InMemoryMailbox()
    thing = Thing()
    mailbox.send(thing)
    (message,) = mailbox.receive(visibility_timeout=43_200)
    message.acknowledge()
    watched = weakref.ref(thing)
    del thing, message
    gc.collect()
    assert watched() is None


def test_long_use_does_not_confuse_the_ends_of_leases() -> None:
    clock = FakeClock()
    mailbox: InMemoryMailbox[int, None] = InMemoryMailbox(clock=clock)
    for number in range(3):
        mailbox.send(number)
    first, *others = mailbox.receive(max_messages=3, visibility_timeout=10)
    for number in range(2000):
        first.extend_visibility(20 + number)
        if number % 2:
            mailbox.send(number)
            mailbox.receive(visibility_timeout=10)[0].acknowledge()
    clock.advance(10)
    assert [each.id for each in mailbox.receive(max_messages=10)] == [each.id for each in others]
    clock.advance(2009)
    assert mailbox.receive(max_messages=1)[0].id == first.id


def test_a_closed_mailbox_can_be_looked_at() -> None:
    mailbox: InMemoryMailbox[str, None] = InMemoryMailbox()
    mailbox.send("a")
    mailbox.close()
    assert mailbox.receive() == []
    assert [each.body for each in mailbox.peek()] == ["a"]
    assert mailbox.approximate_count() == 1
    with pytest.raises(MailboxClosedError):
        mailbox.send("b")
    assert mailbox.purge() == 1


class Watching(FakeClock):
    """Remembers for how long others sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps: SimpleQueue[float | None] = SimpleQueue()

    def wait_for(
        self,
        condition: threading.Condition,
        predicate: Callable[[], bool],
        timeout: float | None = None,
    ) -> bool:
        self.sleeps.put(timeout)
        return super().wait_for(condition, predicate, timeout)


def test_who_waits_hears_that_a_message_comes_back_earlier() -> None:
    clock = Watching()
    mailbox: InMemoryMailbox[str, None] = InMemoryMailbox(clock=clock)
    mailbox.send("a")
    (message,) = mailbox.receive(visibility_timeout=30)
    waiter = Background(lambda: mailbox.wait(60), patience_s=20)
    assert clock.sleeps.get(timeout=20) == 30
    message.nack(visibility_timeout=5)
    assert clock.sleeps.get(timeout=20) == 5
    clock.wait_for_waiters(1)
    clock.advance(5)
    assert waiter.answer() is True


def test_mailboxes_start_no_threads() -> None:
    before = set(threading.enumerate())
    mailbox: InMemoryMailbox[int, None] = InMemoryMailbox()
    mailbox.send(1)
    mailbox.receive()
    assert before.issuperset(threading.enumerate())


def test_a_factory_makes_one_mailbox_for_a_name() -> None:
    registry: dict[str, Mailbox[str, None]] = {}
    factory = InMemoryMailboxFactory(registry)
    made = factory.create("replies")
    assert made.name == "replies"
    assert factory.create("replies") is made
    assert registry == {"replies": made}
    assert InMemoryMailboxFactory[str, None]().create("replies") is not made
