"""Dead letters: a message moves there and back as a whole, and tells why."""

from __future__ import annotations

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

WHY = Burial("it cannot be done", "builtins.ValueError")


def bury(box: Box[bytes], *ids: str) -> None:
    """Put these and bury them, in this order."""
    for each in ids:
        put(box, each)
        assert box.bury(handle(take_one(box)), WHY)


class BurialContract(MailboxExam):
    def test_a_buried_message_is_no_message_any_more(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        bury(box, "a")
        assert box.depth() == Depth(0, 0, 1)
        assert box.peek(10) == []
        self.advance(clock, 10 * LEASE_MS / 1000)
        assert take(box) == []

    def test_a_dead_letter_has_all_that_is_known(self, box: Box[bytes], clock: FakeClock) -> None:
        assert box.put(Entry("a", b"\0body", "replies"))
        self.advance(clock, 1)
        first = take_one(box, 5000)
        self.advance(clock, 10)
        second = take_one(box)
        self.advance(clock, 2)
        assert box.bury(handle(second), WHY)
        (letter,) = box.buried(10)
        assert (letter.id, letter.payload, letter.reply_to) == ("a", b"\0body", "replies")
        assert (letter.deliveries, letter.burial) == (2, WHY)
        assert letter.enqueued_ms == first.enqueued_ms
        assert letter.first_taken_ms == first.first_taken_ms
        assert letter.first_taken_ms >= first.enqueued_ms + 1000
        assert letter.buried_ms >= letter.first_taken_ms + 12_000

    def test_a_reason_may_be_any_text_and_need_no_error(self, box: Box[bytes]) -> None:
        put(box, "a")
        why = Burial("ä 'quoted'\nsecond line", None)
        assert box.bury(handle(take_one(box)), why)
        assert box.buried(1)[0].burial == why

    def test_a_delivery_whose_lease_ran_out_can_be_buried(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, "a")
        held = handle(take_one(box, 5000))
        self.advance(clock, 5)
        assert box.depth() == Depth(1, 0, 0)
        assert box.bury(held, WHY)
        assert box.depth() == Depth(0, 0, 1)
        assert box.revive() == 1
        assert taken_ids(box) == ["a"]
        assert taken_ids(box) == []

    def test_dead_letters_are_shown_in_the_order_of_their_burial(self, boxes: Boxes) -> None:
        bury(boxes("requests"), *"cab")
        bury(boxes("replies"), "x")
        box = boxes("requests")
        assert [each.id for each in box.buried(10)] == ["c", "a", "b"]
        assert [each.id for each in box.buried(2)] == ["c", "a"]
        assert box.buried(0) == []

    def test_a_revived_message_goes_to_the_end_and_begins_anew(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        bury(box, "a", "b")
        sent_ms = box.buried(1)[0].enqueued_ms
        put(box, "c")
        self.advance(clock, 7)
        assert box.revive() == 2
        assert box.depth() == Depth(3, 0, 0)
        third, first, second = take(box, 3)
        assert [third.id, first.id, second.id] == ["c", "a", "b"]
        assert (first.deliveries, first.enqueued_ms) == (1, sent_ms)
        assert first.first_taken_ms >= sent_ms + 7000
        assert box.buried(10) == []

    def test_chosen_dead_letters_are_revived(self, box: Box[bytes]) -> None:
        bury(box, *"abc")
        assert box.revive(["c", "a", "x", "a"]) == 2
        assert box.revive([]) == 0
        assert taken_ids(box) == ["a", "c"]
        assert [each.id for each in box.buried(10)] == ["b"]

    def test_handles_from_before_a_burial_stay_worthless(self, box: Box[bytes]) -> None:
        put(box, "a")
        old = handle(take_one(box))
        assert box.bury(old, WHY)
        assert box.revive() == 1
        assert not box.finish(old)
        new = take_one(box)
        assert new.fence > old.fence
        assert not box.finish(old)
        assert box.finish(handle(new))

    def test_a_dead_letter_can_be_revived_and_buried_again(self, box: Box[bytes]) -> None:
        bury(box, "a")
        for _ in range(2):
            assert box.revive() == 1
            assert box.bury(handle(take_one(box)), WHY)
        assert box.depth() == Depth(0, 0, 1)

    def test_dead_letters_can_be_discarded(self, box: Box[bytes]) -> None:
        bury(box, *"abc")
        assert box.discard_buried(["b", "x"]) == 1
        assert [each.id for each in box.buried(10)] == ["a", "c"]
        assert box.discard_buried([]) == 0
        assert box.discard_buried() == 2
        assert box.depth() == Depth(0, 0, 0)
        assert box.revive() == 0

    def test_a_purge_leaves_dead_letters_alone(self, boxes: Boxes) -> None:
        bury(boxes("requests"), "a")
        put(boxes("requests"), "b")
        assert boxes("requests").purge() == 1
        assert boxes("requests").depth() == Depth(0, 0, 1)

    def test_an_entry_that_is_a_dead_letter_is_not_put_again(self, box: Box[bytes]) -> None:
        bury(box, "a")
        put(box, "a")
        assert box.depth() == Depth(0, 0, 1)
