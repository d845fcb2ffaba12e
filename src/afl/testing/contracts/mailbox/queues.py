"""The queue: what is sent is received, in order, within bounds, by one receiver."""

from __future__ import annotations

import threading
from functools import partial

from afl.clock import FakeClock
from afl.mailbox.box import Box, Burial, Depth, Entry
from afl.testing.contracts.mailbox.exam import (
    LEASE_MS,
    Boxes,
    MailboxExam,
    handle,
    put,
    take,
    take_one,
    taken_ids,
)


class QueueContract(MailboxExam):
    def test_an_empty_box_has_nothing_to_take(self, box: Box[bytes]) -> None:
        assert take(box) == []
        assert box.depth() == Depth(0, 0, 0)
        assert box.peek(10) == []

    def test_what_is_put_is_taken_as_it_was(self, box: Box[bytes]) -> None:
        payload = bytes(range(256))
        sent_ms = box.now_ms()
        assert box.put(Entry("a", payload, "replies"))
        delivery = take_one(box)
        assert (delivery.id, delivery.payload, delivery.reply_to) == ("a", payload, "replies")
        assert delivery.deliveries == 1
        # A clock of another machine goes on meanwhile.
        assert sent_ms <= delivery.enqueued_ms <= delivery.first_taken_ms <= box.now_ms()

    def test_an_entry_may_be_empty_and_ask_for_no_reply(self, box: Box[bytes]) -> None:
        assert box.put(Entry("a", b""))
        delivery = take_one(box)
        assert (delivery.payload, delivery.reply_to) == (b"", None)

    def test_messages_are_taken_in_the_order_in_which_they_were_put(self, box: Box[bytes]) -> None:
        put(box, "z", "a", "m", "b")
        assert taken_ids(box, 2) == ["z", "a"]
        put(box, "c")
        assert taken_ids(box) == ["m", "b", "c"]

    def test_a_take_gives_what_is_there_and_no_more_than_was_asked_for(
        self, box: Box[bytes]
    ) -> None:
        put(box, *"abcde")
        assert taken_ids(box, 3) == ["a", "b", "c"]
        assert taken_ids(box, 3) == ["d", "e"]
        assert taken_ids(box, 3) == []

    def test_many_can_be_taken_at_once(self, box: Box[bytes]) -> None:
        names = [f"m{each:03}" for each in range(150)]
        put(box, *names)
        assert taken_ids(box, 1000) == names

    def test_what_was_taken_is_hidden_from_others(self, boxes: Boxes) -> None:
        put(boxes("requests"), "a", "b")
        assert taken_ids(boxes("requests"), 1) == ["a"]
        assert taken_ids(boxes("requests")) == ["b"]
        assert taken_ids(boxes("requests")) == []

    def test_boxes_with_other_names_hold_other_messages(self, boxes: Boxes) -> None:
        one, two = boxes("requests"), boxes("replies")
        put(one, "a")
        put(two, "b")
        assert taken_ids(two) == ["b"]
        assert one.purge() == 1
        assert two.depth() == Depth(0, 1, 0)

    def test_names_may_hold_any_text(self, boxes: Boxes) -> None:
        names = ["a b", "a:b", "{a}", "ä/ö", "a'; --", "*"]
        for each in names:
            put(boxes(each), each)
        assert [taken_ids(boxes(each)) for each in names] == [[each] for each in names]

    def test_the_same_entry_is_put_once(self, box: Box[bytes]) -> None:
        put(box, "a", "a")
        assert box.depth().total == 1
        delivery = take_one(box)
        put(box, "a")
        assert box.depth() == Depth(0, 1, 0)
        assert box.finish(handle(delivery))
        assert box.depth() == Depth(0, 0, 0)

    def test_a_box_is_full_when_it_holds_as_many_as_it_may(self, box: Box[bytes]) -> None:
        assert box.put(Entry("a", b""), 2)
        assert box.put(Entry("b", b""), 2)
        assert not box.put(Entry("c", b""), 2)
        delivery = take_one(box)
        assert not box.put(Entry("c", b""), 2), "what was taken counts"
        assert box.put(Entry("b", b""), 2), "what is there already needs no room"
        assert box.finish(handle(delivery))
        assert box.put(Entry("c", b""), 2)
        assert taken_ids(box) == ["b", "c"]

    def test_dead_letters_take_no_room(self, box: Box[bytes]) -> None:
        assert box.put(Entry("a", b""), 1)
        assert box.bury(handle(take_one(box)), Burial("why"))
        assert box.put(Entry("b", b""), 1)

    def test_what_is_finished_is_gone(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, "a", "b")
        assert box.finish(handle(take_one(box)))
        assert box.depth() == Depth(1, 0, 0)
        self.advance(clock, 10 * LEASE_MS / 1000)
        assert taken_ids(box) == ["b"]

    def test_a_purge_deletes_all_messages_taken_or_not(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, "a", "b", "c")
        delivery = take_one(box)
        assert box.purge() == 3
        assert box.purge() == 0
        assert box.depth() == Depth(0, 0, 0)
        assert not box.finish(handle(delivery))
        self.advance(clock, 10 * LEASE_MS / 1000)
        assert taken_ids(box) == []
        put(box, "a")
        assert taken_ids(box) == ["a"]

    def test_a_look_shows_all_in_order_and_takes_nothing(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        assert box.put(Entry("a", b"1", "replies"))
        put(box, "b", "c")
        take_one(box, 5000)
        first, *others = box.peek(10)
        assert (first.id, first.payload, first.reply_to) == ("a", b"1", "replies")
        assert first.deliveries == 1
        assert 0 < first.hidden_ms <= 5000
        assert [(each.id, each.deliveries, each.hidden_ms) for each in others] == [
            ("b", 0, 0),
            ("c", 0, 0),
        ]
        assert [each.id for each in box.peek(2)] == ["a", "b"]
        assert box.depth() == Depth(2, 1, 0)
        self.advance(clock, 5)
        assert box.peek(1)[0].hidden_ms == 0

    def test_time_is_that_of_the_place(self, boxes: Boxes, clock: FakeClock) -> None:
        one, two = boxes("requests"), boxes("replies")
        before = one.now_ms()
        self.advance(clock, 100)
        assert before + 100_000 <= two.now_ms() < before + 200_000

    def test_each_message_goes_to_one_receiver(self, boxes: Boxes) -> None:
        senders, receivers, each_sends = 3, 4, 40
        wanted = senders * each_sends
        taken: list[str] = []
        start = threading.Barrier(senders + receivers)

        def send(sender: int) -> None:
            box = boxes("requests")
            start.wait()
            put(box, *(f"{sender}-{number}" for number in range(each_sends)))

        def receive() -> None:
            box = boxes("requests")
            start.wait()
            while len(taken) < wanted:
                for each in take(box, 3):
                    assert box.finish(handle(each))
                    taken.append(each.id)

        threads = [self.begin(partial(send, each)) for each in range(senders)]
        threads += [self.begin(receive) for _ in range(receivers)]
        for thread in threads:
            thread.answer()
        assert len(taken) == len(set(taken)) == wanted

    def test_one_of_many_who_end_a_delivery_wins(self, boxes: Boxes) -> None:
        put(boxes("requests"), "a")
        held = handle(take_one(boxes("requests")))
        start = threading.Barrier(4)

        def finish() -> bool:
            box = boxes("requests")
            start.wait()
            return box.finish(held)

        threads = [self.begin(finish) for _ in range(4)]
        assert sorted(each.answer() for each in threads) == [False, False, False, True]
