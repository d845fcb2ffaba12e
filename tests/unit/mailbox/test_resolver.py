"""From names to mailboxes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


def test_a_neighbour_that_was_closed_is_opened_again() -> None:
    resolver: NeighbourResolver[InMemoryMailbox[Any, Any]] = NeighbourResolver(
        "here", InMemoryMailbox
    )
    first = resolver.resolve("a")
    first.close()
    second = resolver.resolve("a")
    assert not second.closed
    assert resolver.resolve("a") is second


class Watched(MemoryBox[bytes]):
    """Remembers in `closed` who was closed."""

    def __init__(self, name: str, closed: list[str]) -> None:
        super().__init__(name, MemoryQueue(FakeClock()))
        self._closed = closed

    def close(self) -> None:
        self._closed.append(self.name)
        super().close()


def answer_all(mailbox: NamedMailbox[str, str], count: int) -> None:
    """So many messages, each with a mailbox of its own for the reply."""
    for number in range(count):
        mailbox.box.put(Entry(f"m{number}", b'"a"', f"replies-{number}"))
        (message,) = mailbox.receive()
        message.reply("b")
        message.acknowledge()


def test_neighbours_that_nobody_uses_do_not_pile_up() -> None:
    closed: list[str] = []
    mailbox: NamedMailbox[str, str] = NamedMailbox(lambda name: Watched(name, closed), "requests")
    answer_all(mailbox, 300)
    gc.collect()
    assert mailbox.find("one-more") is not None
    assert 200 < len(closed) < 300
    assert "replies-0" in closed
    assert "replies-299" not in closed
    mailbox.close()
    assert sorted(closed) == sorted(
        ["requests", "one-more", *(f"replies-{number}" for number in range(300))]
    )


def test_the_collector_closes_nothing() -> None:
    # It comes in the middle of anything, also of what has the locks that closing takes.
    closed: list[str] = []
    mailbox: NamedMailbox[str, str] = NamedMailbox(lambda name: Watched(name, closed), "requests")
    gc.collect()
    with without_collector():
        answer_all(mailbox, 100)
        before = list(closed)
        gc.collect()
        assert closed == before
    mailbox.close()
    assert len(closed) == 101


def test_a_neighbour_that_cannot_be_closed_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(MemoryBox[bytes]):
        def close(self) -> None:
            raise OSError("no such host")

    mailbox: NamedMailbox[str, str] = NamedMailbox(
        lambda name: (
            MemoryBox(name, MemoryQueue()) if name == "requests" else Stuck(name, MemoryQueue())
        ),
        "requests",
    )
    mailbox.find("replies")
    mailbox.close()
    assert "mailbox_not_closed" in caplog.text


def test_neighbours_stay_open_as_long_as_anybody_may_answer_through_them() -> None:
    closed: list[str] = []
    factory = _Factory(closed)
    shared = CompositeResolver[Any, Any]({}, factory)
    first, second = (
        NamedMailbox[str, str](
            lambda name: MemoryBox(name, MemoryQueue()), name, reply_resolver=shared
        )
        for name in ("first", "second")
    )
    second.box.put(Entry("a", b'"a"', "replies"))
    (message,) = second.receive()
    first.close()
    assert closed == []
    message.reply("b")
    message.acknowledge()
    second.close()
    assert closed == ["replies"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_opens_its_own() -> None:
    program = """
import os
from afl.mailbox import UrlMailboxFactory

factory = UrlMailboxFactory("memory:")
factory.hold()
of_the_parent = factory.create("replies")
child = os.fork()
if not child:
    factory.hold()
    own = factory.create("replies")
    assert own is not of_the_parent
    factory.close()
    assert (own.closed, of_the_parent.closed) == (True, False)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert factory.create("replies") is of_the_parent
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)


class _Factory:
    """Keeps what it opens, as factories do that open mailboxes."""

    def __init__(self, closed: list[str]) -> None:
        self._kept = NeighbourResolver(
            "here", lambda name: NamedMailbox[Any, Any](lambda each: Watched(each, closed), name)
        )
        self.create = self._kept.resolve
        self.hold = self._kept.hold
        self.close = self._kept.close


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
