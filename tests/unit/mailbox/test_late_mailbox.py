"""A mailbox that is looked for when a reply is sent."""

from __future__ import annotations

from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import StoreUnavailable
from afl.loops import AgentLoop
from afl.mailbox import CollectingMailbox, DLQPolicy, Mailbox, RegistryResolver
from afl.mailbox.box import Entry
from afl.mailbox.errors import MailboxConnectionError, MailboxResolutionError
from afl.mailbox.late_mailbox import LateMailbox
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue
from afl.mailbox.named import NamedMailbox

OUTAGES = [StoreUnavailable("the server is gone"), OSError("no such host")]


class Failing(RegistryResolver[Any, Any]):
    """Knows `replies`, and fails with `error` as long as there is one."""

    error: Exception | None = None
    looks = 0

    def resolve(self, identifier: str) -> Mailbox[Any, Any]:
        object.__setattr__(self, "looks", self.looks + 1)
        if self.error is not None:
            raise self.error
        return super().resolve(identifier)

    def fail(self, error: Exception | None) -> None:
        object.__setattr__(self, "error", error)


@pytest.fixture
def replies() -> CollectingMailbox[Any, Any]:
    return CollectingMailbox("replies")


@pytest.fixture
def resolver(replies: CollectingMailbox[Any, Any]) -> Failing:
    return Failing({"replies": replies})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def requests(resolver: Failing, clock: FakeClock) -> NamedMailbox[Any, Any]:
    """With three messages."""
    box: MemoryBox[bytes] = MemoryBox("requests", MemoryQueue(clock))
    for each in "abc":
        box.put(Entry(each, b"1", "replies"))
    return NamedMailbox(lambda _: box, "requests", reply_resolver=resolver, clock=clock)


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


@pytest.mark.parametrize("outage", OUTAGES, ids=["store", "network"])
def test_an_outage_of_the_place_of_replies_is_no_error_of_the_message(
    requests: NamedMailbox[Any, Any],
    resolver: Failing,
    replies: CollectingMailbox[Any, Any],
    outage: Exception,
) -> None:
    resolver.fail(outage)
    (message,) = requests.receive()
    assert message.reply_error is None
    assert message.reply_to is not None
    assert message.reply_to.name == "replies"
    with pytest.raises(MailboxConnectionError, match=str(outage)):
        message.reply("an answer")
    resolver.fail(None)
    message.reply("an answer")
    assert replies.sent == ["an answer"]


def test_an_outage_is_found_once_for_all_messages_that_are_received_together(
    requests: NamedMailbox[Any, Any],
    resolver: Failing,
    replies: CollectingMailbox[Any, Any],
    clock: FakeClock,
) -> None:
    resolver.fail(OUTAGES[0])
    first, second = requests.receive(max_messages=2)
    assert resolver.looks == 1, "each look may take seconds, and leases run"
    resolver.fail(None)
    for each in (first, second):
        each.reply("an answer")
    clock.advance(1)
    (third,) = requests.receive()
    assert third.reply_to is replies


@pytest.mark.parametrize("fault", [MailboxResolutionError("replies"), KeyError("replies")])
def test_other_faults_of_a_resolver_are_errors_of_the_message(
    requests: NamedMailbox[Any, Any], resolver: Failing, fault: Exception
) -> None:
    resolver.fail(fault)
    (message,) = requests.receive()
    assert (message.reply_to, message.reply_error) == (None, fault)


def test_an_outage_of_the_place_of_replies_ends_no_request_untried(
    resolver: Failing, replies: CollectingMailbox[Any, Any]
) -> None:
    box: MemoryBox[bytes] = MemoryBox("requests", MemoryQueue())
    requests: NamedMailbox[Any, Any] = NamedMailbox(
        lambda _: box, "requests", reply_resolver=resolver
    )
    box.put(Entry("a", b'"hello"', "replies"))
    resolver.fail(OUTAGES[0])

    def answer(request: Any) -> Any:
        resolver.fail(None)  # it was a short one
        return request

    loop = AgentLoop.from_function(answer, requests=requests, dlq=DLQPolicy(max_delivery_count=1))
    loop.run(max_iterations=1, wait_time_seconds=0)
    assert [each.output for each in replies.sent] == ["hello"]
    assert requests.depth() == (0, 0, 0)
