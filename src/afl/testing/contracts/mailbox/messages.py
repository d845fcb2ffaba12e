"""Messages as programs see them: types, replies, ends, poison, waiting and closing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pytest

from afl import telemetry
from afl.clock import FakeClock
from afl.errors import StoreError
from afl.ids import is_id
from afl.mailbox.api import Mailbox, Message
from afl.mailbox.box import Depth, Entry
from afl.mailbox.errors import (
    InvalidParameterError,
    MailboxClosedError,
    MailboxFullError,
    MailboxResolutionError,
    MessageFinalizedError,
    ReceiptHandleExpiredError,
    ReplyNotAvailableError,
    SerializationError,
)
from afl.mailbox.memory import InMemoryMailbox
from afl.mailbox.named import NamedMailbox
from afl.mailbox.resolver import RegistryResolver
from afl.mailbox.unread import unread_too
from afl.telemetry import Event, MessageDeadLettered, ReplyUnresolved
from afl.testing.contracts.mailbox.exam import Background, MessageExam, Open


@dataclass
class Order:
    item: str
    count: int = 1


@dataclass
class Odd:
    item: str

    def __post_init__(self) -> None:
        raise ValueError("half \ud800")


@dataclass
class Answer:
    text: str


class MessageContract(MessageExam):
    @pytest.fixture
    def events(self) -> Iterator[list[Event]]:
        heard: list[Event] = []
        leave = telemetry.subscribe(heard.append)
        yield heard
        leave()

    # Bodies

    def test_a_mailbox_is_a_mailbox(self, mailboxes: Open) -> None:
        assert isinstance(mailboxes(), Mailbox)

    def test_a_typed_body_arrives_as_its_type(self, mailboxes: Open) -> None:
        sent = mailboxes(body_type=Order).send(Order("apple", 3))
        assert is_id(sent)
        (message,) = mailboxes(body_type=Order).receive()
        assert (message.id, message.body) == (sent, Order("apple", 3))
        assert (message.delivery_count, message.reply_to) == (1, None)
        assert message.enqueued_at.tzinfo is UTC
        assert message.first_received_at is not None
        assert message.first_received_at >= message.enqueued_at

    @pytest.mark.parametrize("body", [None, "text", 1.5, [1, [2]], {"a": {"b": None}}, True])
    def test_plain_bodies_need_no_type(self, mailboxes: Open, body: object) -> None:
        mailboxes().send(body)
        (message,) = mailboxes().receive()
        assert message.body == body

    def test_a_body_that_cannot_be_written_is_refused(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        with pytest.raises(SerializationError, match="object"):
            mailbox.send(object())
        assert mailbox.approximate_count() == 0

    def test_a_body_of_another_type_is_refused(self, mailboxes: Open) -> None:
        mailbox = mailboxes(body_type=Order)
        with pytest.raises(SerializationError, match="Order"):
            mailbox.send({"item": 1})
        assert mailbox.approximate_count() == 0

    def test_a_type_that_cannot_be_read_is_refused(self, mailboxes: Open) -> None:
        with pytest.raises(SerializationError, match="body"):
            mailboxes(body_type=dict[Order, int] | list[int] | set[int])

    @pytest.mark.parametrize("poison", [b"", b"{", b'{"item": 1}', b"\xff", b'{"count": 2}'])
    def test_poison_goes_to_the_dead_letters_and_disturbs_nobody(
        self, mailboxes: Open, events: list[Event], poison: bytes
    ) -> None:
        mailbox = mailboxes(body_type=Order)
        mailbox.box.put(Entry("poison", poison))
        good = mailbox.send(Order("apple"))
        (message,) = mailbox.receive()
        assert message.id == good
        assert mailbox.depth() == Depth(0, 1, 1)
        (letter,) = mailbox.dead_letters()
        assert letter.message_id == "poison"
        assert letter.body == poison.decode("utf-8", "replace")
        assert "Order" in letter.last_error
        assert letter.last_error_type == "afl.mailbox.errors.SerializationError"
        assert (letter.source_mailbox, letter.delivery_count) == ("requests", 1)
        (event,) = [each for each in events if isinstance(each, MessageDeadLettered)]
        assert (event.mailbox, event.message, event.reason) == (
            "requests",
            "poison",
            letter.last_error,
        )

    def test_a_batch_with_poison_gives_the_rest(self, mailboxes: Open) -> None:
        mailbox = mailboxes(body_type=Order)
        first = mailbox.send(Order("apple"))
        mailbox.box.put(Entry("poison", b"no"))
        second = mailbox.send(Order("pear"))
        assert [each.id for each in mailbox.receive(max_messages=10)] == [first, second]

    def test_who_asks_for_poison_gets_it_in_its_place_and_ends_it(
        self, mailboxes: Open, events: list[Event]
    ) -> None:
        mailbox, replies = mailboxes(body_type=Order), mailboxes("replies")
        first = mailbox.send(Order("apple"))
        mailboxes().send({"item": 1}, reply_to=replies)
        mailbox.box.put(Entry("text", b"no"))
        with unread_too():
            good, bad, text = mailbox.receive(max_messages=10)
        assert (good.id, good.body_error) == (first, None)
        assert (bad.body, text.body) == ({"item": 1}, "no")
        assert bad.body_error is not None
        assert "`$.item`" in str(bad.body_error)
        assert mailbox.depth() == Depth(0, 3, 0)
        bad.reply("it does not fit")
        mailbox.dead_letter(bad, str(bad.body_error), bad.body_error)
        assert [each.body for each in replies.receive()] == ["it does not fit"]
        (letter,) = mailbox.dead_letters()
        assert (letter.body, letter.reply_to) == ('{"item":1}', "replies")
        assert [each.message for each in events if isinstance(each, MessageDeadLettered)] == [
            bad.id
        ]
        text.nack()
        assert mailbox.receive() == [], "who does not ask gets none"

    def test_a_receive_that_finds_only_poison_goes_on_waiting(
        self, mailboxes: Open, clock: FakeClock
    ) -> None:
        mailbox = mailboxes(body_type=Order)
        receiver = self._receiving(mailbox, clock)
        mailbox.box.put(Entry("poison", b"no"))
        mailbox.send(Order("apple"))
        (message,) = receiver.answer()
        assert message.body == Order("apple")

    # Receiving

    @pytest.mark.parametrize(("asked", "given"), [(-1, 1), (0, 1), (1, 1), (4, 4), (99, 10)])
    def test_the_number_of_messages_is_held_to_its_bounds(
        self, mailboxes: Open, asked: int, given: int
    ) -> None:
        mailbox = mailboxes()
        sent = [mailbox.send(each) for each in range(12)]
        assert [each.id for each in mailbox.receive(max_messages=asked)] == sent[:given]

    def test_those_who_want_more_can_take_more(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        for each in range(25):
            mailbox.send(each)
        assert [each.body for each in mailbox.take(100, 30)] == list(range(25))

    def test_numbers_out_of_range_are_refused(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        for timeout in (-1, 43_201, float("nan")):
            with pytest.raises(InvalidParameterError, match="43200"):
                mailbox.receive(visibility_timeout=timeout)
        for wait in (-0.1, float("nan")):
            with pytest.raises(InvalidParameterError, match="wait_time_seconds"):
                mailbox.receive(wait_time_seconds=wait)
        (message,) = mailbox.receive(visibility_timeout=43_200)
        with pytest.raises(InvalidParameterError):
            message.nack(visibility_timeout=43_201)
        with pytest.raises(InvalidParameterError):
            message.extend_visibility(-1)
        with pytest.raises(InvalidParameterError):
            mailbox.extend_all([message], -1)
        assert not message.is_finalized
        message.acknowledge()

    def test_a_receive_does_not_wait_to_fill_its_batch(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        # Time stands still: who waited would wait for ever.
        assert len(mailbox.receive(max_messages=10, wait_time_seconds=20)) == 1

    def test_a_waiting_receive_gets_what_is_sent(self, mailboxes: Open, clock: FakeClock) -> None:
        receiver = self._receiving(mailboxes(), clock)
        sent = mailboxes().send("a")
        assert [each.id for each in receiver.answer()] == [sent]

    def test_a_waiting_receive_ends_with_its_time(self, mailboxes: Open, clock: FakeClock) -> None:
        receiver = self._receiving(mailboxes(), clock)
        self.advance(clock, 20)
        assert receiver.answer() == []

    def test_a_waiting_receive_ends_when_it_is_told_to_stop(
        self, mailboxes: Open, clock: FakeClock
    ) -> None:
        stop = threading.Event()
        receiver = self._receiving(mailboxes(), clock, stop)
        stop.set()
        assert receiver.answer() == []
        mailboxes().send("a")
        assert mailboxes().receive(stop=stop) == [], "who stops takes nothing more"

    def _receiving(
        self,
        mailbox: NamedMailbox[Any, Any],
        clock: FakeClock,
        stop: threading.Event | None = None,
    ) -> Background[list[Message[Any, Any]]]:
        receiver = self.begin(lambda: mailbox.receive(wait_time_seconds=20, stop=stop))
        clock.wait_for_waiters(1)
        return receiver

    # Ends

    def test_an_acknowledged_message_is_gone(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        (message,) = mailbox.receive()
        assert mailbox.approximate_count() == 1
        assert not message.is_finalized
        message.acknowledge()
        assert message.is_finalized
        assert mailbox.approximate_count() == 0

    def test_a_nacked_message_comes_back_later_and_counts(
        self, mailboxes: Open, clock: FakeClock
    ) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        (message,) = mailbox.receive()
        message.nack(visibility_timeout=5)
        assert message.is_finalized
        assert mailbox.receive() == []
        self.advance(clock, 5)
        (again,) = mailbox.receive()
        assert (again.id, again.delivery_count) == (message.id, 2)
        assert again.receipt_handle != message.receipt_handle
        again.nack()
        assert mailbox.receive()[0].delivery_count == 3

    def test_a_released_message_comes_back_to_its_place_and_does_not_count(
        self, mailboxes: Open
    ) -> None:
        mailbox = mailboxes()
        for each in "abc":
            mailbox.send(each)
        first, second = mailbox.receive(max_messages=2)
        second.release()
        first.release()
        assert first.is_finalized
        again = mailbox.receive(max_messages=3)
        assert [each.body for each in again] == ["a", "b", "c"]
        assert [each.delivery_count for each in again] == [1, 1, 1]

    def test_many_are_released_together(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        for each in "abc":
            mailbox.send(each)
        messages = mailbox.receive(max_messages=3)
        messages[1].acknowledge()
        mailbox.release_all(messages)
        mailbox.release_all([])
        assert all(each.is_finalized for each in messages)
        assert [each.body for each in mailbox.receive(max_messages=3)] == ["a", "c"]

    def test_leases_are_extended_and_never_shortened(
        self, mailboxes: Open, clock: FakeClock
    ) -> None:
        mailbox = mailboxes()
        for each in "abc":
            mailbox.send(each)
        first, second, third = mailbox.receive(max_messages=3, visibility_timeout=10)
        third.acknowledge()
        assert mailbox.extend_all([first, second, third], 20) == [True, True, False]
        assert mailbox.extend_all([], 20) == []
        first.extend_visibility(1)
        second.extend_visibility(40)
        self.advance(clock, 19)
        assert mailbox.receive() == []
        self.advance(clock, 1)
        assert [each.body for each in mailbox.receive(max_messages=3)] == ["a"]

    @pytest.mark.parametrize(
        "end",
        [
            lambda message: message.acknowledge(),
            lambda message: message.nack(),
            lambda message: message.release(),
            lambda message: message.extend_visibility(60),
        ],
        ids=["acknowledge", "nack", "release", "extend_visibility"],
    )
    def test_a_lost_delivery_is_refused(
        self, mailboxes: Open, clock: FakeClock, end: Callable[[Message[Any, Any]], None]
    ) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        (old,) = mailbox.receive(visibility_timeout=5)
        self.advance(clock, 5)
        (new,) = mailbox.receive(visibility_timeout=30)
        with pytest.raises(ReceiptHandleExpiredError, match=old.id):
            end(old)
        assert not old.is_finalized
        with pytest.raises(ReceiptHandleExpiredError):
            mailbox.dead_letter(old, "why")
        new.acknowledge()
        with pytest.raises(ReceiptHandleExpiredError):
            end(new)

    def test_a_full_mailbox_takes_no_more(self, mailboxes: Open) -> None:
        mailbox = mailboxes(max_size=1)
        mailbox.send("a")
        with pytest.raises(MailboxFullError, match="requests"):
            mailbox.send("b")
        mailbox.receive()[0].acknowledge()
        mailbox.send("b")

    # Replies

    def test_a_reply_finds_its_way_by_name(self, mailboxes: Open) -> None:
        replies = mailboxes("replies", body_type=Answer)
        mailboxes(body_type=Order).send(Order("apple"), reply_to=replies)
        (message,) = mailboxes(body_type=Order).receive()
        assert message.reply_to is not None
        assert message.reply_to.name == "replies"
        message.reply(Answer("one"))
        message.reply(Answer("two"))
        message.acknowledge()
        assert [each.body for each in replies.receive(max_messages=10)] == [
            Answer("one"),
            Answer("two"),
        ]

    def test_a_mailbox_for_replies_that_a_receiver_closes_is_opened_again(
        self, mailboxes: Open
    ) -> None:
        mailbox, replies = mailboxes(), mailboxes("replies")
        for each in ("a", "b"):
            mailbox.send(each, reply_to=replies)
        for _ in range(2):
            (message,) = mailbox.receive()
            message.reply(message.body)
            assert message.reply_to is not None
            message.reply_to.close()
        assert [each.body for each in replies.receive(max_messages=2)] == ["a", "b"]

    def test_nobody_can_reply_after_the_end_or_unasked(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        (message,) = mailbox.receive()
        with pytest.raises(ReplyNotAvailableError, match="no reply_to"):
            message.reply("b")
        message.acknowledge()
        with pytest.raises(MessageFinalizedError):
            message.reply("b")

    def test_a_registry_knows_mailboxes_of_other_places(self, mailboxes: Open) -> None:
        replies: InMemoryMailbox[str, None] = InMemoryMailbox("replies")
        mailbox = mailboxes(reply_resolver=RegistryResolver({"replies": replies}))
        mailbox.send("a", reply_to=replies)
        (message,) = mailbox.receive()
        assert message.reply_to is replies
        message.reply("b")
        assert replies.receive()[0].body == "b"

    def test_a_sender_learns_that_no_receiver_would_find_its_mailbox(self, mailboxes: Open) -> None:
        elsewhere: InMemoryMailbox[str, None] = InMemoryMailbox("replies")
        mailbox = mailboxes()
        with pytest.raises(MailboxResolutionError, match="replies"):
            mailbox.send("a", reply_to=elsewhere)
        assert mailbox.approximate_count() == 0

    def test_a_reply_address_that_nobody_knows_is_an_error_on_record(
        self, mailboxes: Open, events: list[Event]
    ) -> None:
        mailboxes().send("a", reply_to=mailboxes("replies"))
        (message,) = mailboxes(reply_resolver=RegistryResolver({})).receive()
        assert message.reply_to is None
        assert isinstance(message.reply_error, MailboxResolutionError)
        assert message.reply_error.identifier == "replies"
        with pytest.raises(MailboxResolutionError, match="replies"):
            message.reply("b")
        (event,) = [each for each in events if isinstance(each, ReplyUnresolved)]
        assert (event.mailbox, event.message, event.reply_to) == (
            "requests",
            message.id,
            "replies",
        )
        message.acknowledge()

    # Dead letters

    def test_a_dead_letter_tells_what_happened(self, mailboxes: Open, events: list[Event]) -> None:
        mailbox = mailboxes()
        body = {"request_id": "r-1", "run_context": {"trace_id": "t-1"}}
        sent = mailbox.send(body, reply_to=mailboxes("replies"))
        (message,) = mailbox.receive()
        mailbox.dead_letter(message, "it cannot be done", KeyError("x"))
        assert message.is_finalized
        (letter,) = mailbox.dead_letters()
        assert (letter.message_id, letter.body, letter.reply_to) == (sent, body, "replies")
        assert (letter.request_id, letter.trace_id) == ("r-1", "t-1")
        assert (letter.last_error, letter.last_error_type) == (
            "it cannot be done",
            "builtins.KeyError",
        )
        assert letter.first_received_at == message.first_received_at
        assert letter.enqueued_at == message.enqueued_at
        assert any(isinstance(each, MessageDeadLettered) for each in events)

    def test_any_reason_can_be_kept(self, mailboxes: Open, events: list[Event]) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        odd = type("Odd", (Exception,), {"__module__": "a\0b"})
        mailbox.dead_letter(mailbox.receive()[0], "nothing \0 and half \ud800", odd())
        (letter,) = mailbox.dead_letters()
        assert letter.last_error == "nothing \ufffd and half ?"
        assert letter.last_error_type == "a\ufffdb.Odd"
        (event,) = [each for each in events if isinstance(each, MessageDeadLettered)]
        assert event.reason == letter.last_error

    def test_poison_may_be_odd_in_any_way(self, mailboxes: Open) -> None:
        mailbox = mailboxes(body_type=Odd)
        mailbox.box.put(Entry("poison", b'{"item": "a"}'))
        assert mailbox.receive() == []
        (letter,) = mailbox.dead_letters()
        assert "half ?" in letter.last_error

    def test_dead_letters_can_be_sent_again(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        ids = [mailbox.send(each) for each in "abc"]
        for each in mailbox.receive(max_messages=3):
            mailbox.dead_letter(each, "why")
        assert [each.last_error_type for each in mailbox.dead_letters(2)] == [None, None]
        assert mailbox.redrive(ids[2:]) == 1
        assert mailbox.redrive() == 2
        assert mailbox.redrive() == 0
        again = mailbox.receive(max_messages=3)
        assert [each.body for each in again] == ["c", "a", "b"]
        assert {each.delivery_count for each in again} == {1}

    def test_dead_letters_can_be_thrown_away(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        mailbox.dead_letter(mailbox.receive()[0], "why")
        assert mailbox.discard_dead_letters() == 1
        assert mailbox.dead_letters() == []

    # Looking after it

    def test_a_look_shows_messages_and_takes_none(self, mailboxes: Open) -> None:
        mailbox = mailboxes(body_type=Order)
        mailbox.send(Order("apple"))
        mailbox.box.put(Entry("poison", b"no", "replies"))
        mailbox.receive(visibility_timeout=30)
        first, second = mailbox.peek()
        assert (first.body, first.delivery_count) == (Order("apple"), 1)
        assert 29 < first.hidden_s <= 30
        assert (second.body, second.hidden_s, second.reply_to) == ("no", 0, "replies")
        assert mailbox.depth() == Depth(1, 1, 0)
        assert mailbox.purge() == 2

    # Closing

    def test_a_closed_mailbox_gives_and_takes_nothing(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        mailbox.close()
        mailbox.close()
        assert mailbox.closed
        assert mailbox.receive(wait_time_seconds=20) == []
        assert mailbox.wait() is False
        with pytest.raises(MailboxClosedError):
            mailbox.send("b")
        with pytest.raises(StoreError):
            mailbox.approximate_count()
        assert mailboxes().receive()[0].body == "a"

    def test_closing_ends_a_waiting_receive(self, mailboxes: Open, clock: FakeClock) -> None:
        mailbox = mailboxes()
        receiver = self._receiving(mailbox, clock)
        mailbox.close()
        assert receiver.answer() == []

    def test_what_was_received_before_the_close_can_be_answered_and_ended(
        self, mailboxes: Open
    ) -> None:
        replies = mailboxes("replies")
        mailbox = mailboxes()
        mailbox.send("a", reply_to=replies)
        mailbox.send("b", reply_to=replies)
        first, second = mailbox.receive(max_messages=2)
        mailbox.close()
        assert mailbox.receive(wait_time_seconds=20) == []
        with pytest.raises(MailboxClosedError):
            mailbox.send("c")
        first.reply("done")
        first.acknowledge()
        second.reply("done too")
        second.release()
        assert [each.body for each in replies.receive(max_messages=2)] == ["done", "done too"]
        assert [each.body for each in mailboxes().receive(max_messages=2)] == ["b"]
