"""From names to mailboxes."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.mailbox import (
    CompositeResolver,
    InMemoryMailbox,
    InMemoryMailboxFactory,
    Mailbox,
    MailboxFactory,
    MailboxResolutionError,
    MailboxResolver,
    RegistryResolver,
)
from afl.mailbox.box import Entry
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue
from afl.mailbox.named import NamedMailbox
from afl.mailbox.resolver import NeighbourResolver

KNOWN: InMemoryMailbox[str, None] = InMemoryMailbox("known")


def test_a_registry_knows_what_it_was_given() -> None:
    resolver = RegistryResolver[str, None]({"known": KNOWN})
    assert isinstance(resolver, MailboxResolver)
    assert resolver.resolve("known") is KNOWN
    assert resolver.resolve_optional("known") is KNOWN
    assert resolver.resolve_optional("other") is None
    with pytest.raises(MailboxResolutionError, match="'other'") as caught:
        resolver.resolve("other")
    assert caught.value.identifier == "other"


def test_a_factory_is_asked_for_others() -> None:
    factory: InMemoryMailboxFactory[str, None] = InMemoryMailboxFactory()
    assert isinstance(factory, MailboxFactory)
    resolver = CompositeResolver[str, None]({"known": KNOWN}, factory)
    assert resolver.resolve("known") is KNOWN
    assert resolver.resolve("other").name == "other"
    assert resolver.resolve_optional("other") is factory.create("other")


def test_without_a_factory_others_are_unknown() -> None:
    resolver = CompositeResolver({"known": KNOWN})
    assert resolver.resolve_optional("other") is None
    with pytest.raises(MailboxResolutionError):
        resolver.resolve("other")


def test_what_is_no_answer_of_a_factory_comes_out() -> None:
    class Broken:
        def create(self, identifier: str) -> Mailbox[Any, Any]:
            raise OSError("no such host")

    with pytest.raises(OSError, match="host"):
        CompositeResolver({}, Broken()).resolve_optional("other")


def test_neighbours_are_opened_once_and_closed_in_the_end() -> None:
    opened: list[InMemoryMailbox[Any, Any]] = []

    def open_(name: str) -> InMemoryMailbox[Any, Any]:
        opened.append(InMemoryMailbox(name))
        return opened[-1]

    resolver = NeighbourResolver("here", open_)
    assert resolver.resolve("a") is resolver.resolve_optional("a") is opened[0]
    resolver.resolve("b")
    resolver.close()
    assert [(each.name, each.closed) for each in opened] == [("a", True), ("b", True)]


def test_neighbours_that_nobody_uses_do_not_pile_up() -> None:
    closed: list[str] = []

    class Watched(MemoryBox[bytes]):
        def close(self) -> None:
            closed.append(self.name)
            super().close()

    mailbox: NamedMailbox[str, str] = NamedMailbox(
        lambda name: Watched(name, MemoryQueue(FakeClock())), "requests"
    )
    for number in range(300):
        mailbox.box.put(Entry(f"m{number}", b'"a"', f"replies-{number}"))
        (message,) = mailbox.receive()
        message.reply("b")
        message.acknowledge()
    del message
    gc.collect()
    assert 200 < len(closed) < 300
    assert "replies-0" in closed
    assert "replies-299" not in closed
    mailbox.close()
    gc.collect()
    assert set(closed) == {"requests", *(f"replies-{number}" for number in range(300))}
