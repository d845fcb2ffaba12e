"""What is tried again and what is given up, and that nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from afl import telemetry
from afl.backoff import Backoff
from afl.clock import FakeClock
from afl.errors import ConfigurationError
from afl.mailbox import (
    CollectingMailbox,
    DeadLetter,
    DLQPolicy,
    FakeMailbox,
    InMemoryMailbox,
    MailboxConnectionError,
    MailboxError,
    Message,
    ReceiptHandleExpiredError,
    give_up,
)
from afl.telemetry import DeadLetterMailboxFailed, Event, MessageDeadLettered

CLOCK = FakeClock()


def delivered(count: int) -> Message[str, None]:
    return Message("id", "body", "id:1", count, CLOCK.now())


@pytest.fixture
def events() -> Iterator[list[Event]]:
    heard: list[Event] = []
    leave = telemetry.subscribe(heard.append)
    yield heard
    leave()


# The policy


@pytest.mark.parametrize(("count", "is_over"), [(1, False), (4, False), (5, True), (9, True)])
def test_a_message_is_given_up_after_so_many_deliveries(count: int, is_over: bool) -> None:
    assert DLQPolicy[str]().should_dead_letter(delivered(count), ValueError()) is is_over


def test_included_errors_and_their_kinds_end_a_message_at_once() -> None:
    policy = DLQPolicy[str](include_errors=[LookupError])
    assert policy.should_dead_letter(delivered(1), LookupError())
    assert policy.should_dead_letter(delivered(1), KeyError())
    assert not policy.should_dead_letter(delivered(1), ValueError())


def test_excluded_errors_and_their_kinds_are_tried_for_long_but_not_for_ever() -> None:
    policy = DLQPolicy[str](exclude_errors=frozenset({OSError}), max_excluded_count=20)
    assert not policy.should_dead_letter(delivered(19), ConnectionError())
    assert policy.should_dead_letter(delivered(20), ConnectionError())
    assert policy.should_dead_letter(delivered(5), ValueError())


def test_an_error_that_is_both_is_excluded() -> None:
    policy = DLQPolicy[str](include_errors=(Exception,), exclude_errors=(OSError,))
    assert policy.should_dead_letter(delivered(1), ValueError())
    assert not policy.should_dead_letter(delivered(1), TimeoutError())


def test_waits_grow_with_the_deliveries() -> None:
    policy = DLQPolicy[str](backoff=Backoff(initial=2, factor=3, maximum=10))
    assert [policy.delay_s(delivered(count)) for count in (1, 2, 3)] == [2, 6, 10]
    usual = DLQPolicy[str]()
    assert [usual.delay_s(delivered(count)) for count in (1, 2, 9)] == [60, 120, 900]


@pytest.mark.parametrize(
    "policy",
    [
        {"max_delivery_count": 0},
        {"max_delivery_count": 200},
        {"backoff": Backoff(maximum=50_000)},
        {"include_errors": ValueError},
        {"exclude_errors": OSError},
        {"include_errors": [ValueError()]},
        {"include_errors": "ValueError"},
        {"exclude_errors": iter([OSError])},
    ],
)
def test_a_policy_that_cannot_be_is_refused(policy: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        DLQPolicy(**policy)  # type: ignore[arg-type]


def test_a_policy_may_be_a_class_of_its_own() -> None:
    class Never(DLQPolicy[str]):
        def should_dead_letter(self, message: object, error: BaseException) -> bool:
            return False

    assert not Never().should_dead_letter(delivered(99), ValueError())


# Giving up


def received(mailbox: InMemoryMailbox[str, str] | FakeMailbox[str, str]) -> Message[str, str]:
    mailbox.send("body", reply_to=InMemoryMailbox("replies"))
    (message,) = mailbox.receive()
    return message


def test_without_a_mailbox_of_their_own_dead_letters_stay_where_they_are(
    events: list[Event],
) -> None:
    mailbox: InMemoryMailbox[str, str] = InMemoryMailbox("requests")
    message = received(mailbox)
    give_up(mailbox, message, KeyError("x"), DLQPolicy())
    assert message.is_finalized
    (letter,) = mailbox.dead_letters()
    assert (letter.last_error, letter.last_error_type) == ("'x'", "builtins.KeyError")
    assert [type(each) for each in events] == [MessageDeadLettered]


def test_a_mailbox_for_dead_letters_gets_the_record(events: list[Event]) -> None:
    clock = FakeClock()
    mailbox: InMemoryMailbox[str, str] = InMemoryMailbox("requests", clock=clock)
    target: CollectingMailbox[DeadLetter[str], None] = CollectingMailbox("dead")
    message = received(mailbox)
    clock.advance(7)
    give_up(mailbox, message, ValueError(), DLQPolicy(mailbox=target), clock=clock)
    (letter,) = target.sent
    assert letter == DeadLetter(
        message_id=message.id,
        body="body",
        source_mailbox="requests",
        delivery_count=1,
        last_error="ValueError",
        last_error_type="builtins.ValueError",
        dead_lettered_at=clock.now(),
        first_received_at=message.first_received_at,
        enqueued_at=message.enqueued_at,
        reply_to="replies",
    )
    assert message.is_finalized
    assert mailbox.depth() == (0, 0, 0)
    assert [type(each) for each in events] == [MessageDeadLettered]


def test_a_mailbox_for_dead_letters_gets_any_error() -> None:
    target: InMemoryMailbox[DeadLetter[str], None] = InMemoryMailbox("dead", body_type=DeadLetter)
    mailbox: InMemoryMailbox[str, str] = InMemoryMailbox("requests")
    give_up(mailbox, received(mailbox), ValueError("half \ud800"), DLQPolicy(mailbox=target))
    (letter,) = target.receive()
    assert letter.body.last_error == "half ?"


def test_a_full_mailbox_for_dead_letters_loses_nothing(events: list[Event]) -> None:
    target: InMemoryMailbox[DeadLetter[str], None] = InMemoryMailbox("dead", max_size=1)
    policy = DLQPolicy(mailbox=target)
    mailbox: InMemoryMailbox[str, str] = InMemoryMailbox("requests")
    for _ in range(2):
        give_up(mailbox, received(mailbox), ValueError("no"), policy)
    assert mailbox.depth() == (0, 0, 1)
    assert target.approximate_count() == 1
    (failed,) = [each for each in events if isinstance(each, DeadLetterMailboxFailed)]
    assert (failed.mailbox, failed.target) == ("requests", "dead")


@pytest.mark.parametrize("error", [MailboxConnectionError("gone"), RuntimeError("a bug")])
def test_a_mailbox_for_dead_letters_that_fails_loses_nothing(error: Exception) -> None:
    target: FakeMailbox[DeadLetter[str], None] = FakeMailbox("dead")
    target.set_connection_error(error)
    mailbox: InMemoryMailbox[str, str] = InMemoryMailbox("requests")
    give_up(mailbox, received(mailbox), ValueError("no"), DLQPolicy(mailbox=target))
    assert [each.last_error for each in mailbox.dead_letters()] == ["no"]


def test_if_nothing_can_be_reached_the_message_comes_back() -> None:
    target: FakeMailbox[DeadLetter[str], None] = FakeMailbox("dead")
    mailbox: FakeMailbox[str, str] = FakeMailbox("requests")
    message = received(mailbox)
    for each in (target, mailbox):
        each.set_connection_error(MailboxConnectionError("gone"))
    with pytest.raises(MailboxConnectionError):
        give_up(mailbox, message, ValueError("no"), DLQPolicy(mailbox=target))
    assert not message.is_finalized
    mailbox.clear_connection_error()
    mailbox.clock.advance(30)
    assert mailbox.receive()[0].delivery_count == 2


def test_who_has_lost_a_message_cannot_give_it_up() -> None:
    mailbox: FakeMailbox[str, str] = FakeMailbox("requests")
    message = received(mailbox)
    mailbox.expire_handle(message.receipt_handle)
    with pytest.raises(ReceiptHandleExpiredError):
        give_up(mailbox, message, ValueError("no"), DLQPolicy())
    assert mailbox.depth() == (1, 0, 0)
    assert issubclass(ReceiptHandleExpiredError, MailboxError)
