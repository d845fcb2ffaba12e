"""Leases: what was taken comes back, to its place, and old handles are worth nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from afl.clock import FakeClock
from afl.mailbox.box import Box, Burial, Depth, Handle
from afl.testing.contracts.mailbox.exam import (
    Boxes,
    MailboxExam,
    handle,
    put,
    take,
    take_one,
    taken_ids,
)

#: Everything that a receiver can say about a delivery.
WORDS: dict[str, Callable[[Box[bytes], Handle], bool]] = {
    "finish": lambda box, held: box.finish(held),
    "give_back": lambda box, held: box.give_back([held])[0],
    "give_back_later": lambda box, held: box.give_back([held], delay_ms=5000, is_counted=True)[0],
    "extend": lambda box, held: box.extend([held], 60_000)[0],
    "bury": lambda box, held: box.bury(held, Burial("why")),
}


class LeaseContract(MailboxExam):
    def test_what_was_taken_comes_back_when_its_lease_ends(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, "a")
        first = take_one(box, 5000)
        self.advance(clock, 4)
        assert take(box) == []
        self.advance(clock, 1)
        second = take_one(box)
        assert (second.id, second.deliveries) == ("a", 2)
        assert second.fence > first.fence
        assert second.first_taken_ms == first.first_taken_ms
        assert second.enqueued_ms == first.enqueued_ms

    def test_what_comes_back_comes_back_to_its_place(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, *"abcd")
        for lease_ms in (9000, 5000, 7000):
            take_one(box, lease_ms)
        self.advance(clock, 9)
        put(box, "e")
        assert taken_ids(box) == ["a", "b", "c", "d", "e"]

    def test_some_come_back_before_others(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, *"abc")
        take_one(box, 9000)
        take_one(box, 5000)
        self.advance(clock, 5)
        assert taken_ids(box) == ["b", "c"]

    def test_a_lease_of_no_time_hides_nothing(self, box: Box[bytes]) -> None:
        put(box, "a")
        first = take_one(box, 0)
        assert box.depth() == Depth(1, 0, 0)
        second = take_one(box, 0)
        assert (second.deliveries, second.fence > first.fence) == (2, True)
        assert box.finish(handle(second))

    def test_a_lease_that_ran_out_is_good_until_somebody_takes_the_message(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, "a", "b")
        held = handle(take_one(box, 5000))
        self.advance(clock, 60)
        assert box.finish(held)
        assert taken_ids(box) == ["b"]

    def test_a_lease_that_ran_out_can_be_renewed(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, "a")
        held = handle(take_one(box, 5000))
        self.advance(clock, 60)
        assert box.depth() == Depth(1, 0, 0)
        assert box.extend([held], 5000) == [True]
        assert box.depth() == Depth(0, 1, 0)
        assert take(box) == []
        self.advance(clock, 5)
        assert take_one(box).deliveries == 2

    @pytest.mark.parametrize("word", WORDS)
    def test_a_delivery_that_was_taken_over_is_over(
        self, box: Box[bytes], clock: FakeClock, word: str
    ) -> None:
        put(box, "a")
        old = handle(take_one(box, 5000))
        self.advance(clock, 5)
        new = handle(take_one(box, 60_000))
        assert WORDS[word](box, old) is False
        assert box.depth() == Depth(0, 1, 0)
        self.advance(clock, 59)
        assert take(box) == []
        assert box.finish(new)

    @pytest.mark.parametrize("last", [each for each in WORDS if each != "extend"])
    @pytest.mark.parametrize("word", WORDS)
    def test_a_delivery_that_was_ended_is_over(self, box: Box[bytes], last: str, word: str) -> None:
        put(box, "a")
        held = handle(take_one(box))
        assert WORDS[last](box, held) is True
        before = box.depth()
        assert WORDS[word](box, held) is False
        assert box.depth() == before

    @pytest.mark.parametrize("word", WORDS)
    def test_a_handle_that_nobody_got_is_refused(self, box: Box[bytes], word: str) -> None:
        put(box, "a")
        assert WORDS[word](box, Handle("a", -1)) is False
        assert WORDS[word](box, Handle("a", 99)) is False
        assert WORDS[word](box, Handle("b", 1)) is False
        assert taken_ids(box) == ["a"]

    @pytest.mark.parametrize("word", WORDS)
    def test_a_handle_is_good_wherever_it_is_used(self, boxes: Boxes, word: str) -> None:
        put(boxes("requests"), "a")
        held = handle(take_one(boxes("requests")))
        assert WORDS[word](boxes("replies"), held) is False
        assert WORDS[word](boxes("requests"), held) is True

    # Extending

    def test_an_extended_lease_is_counted_from_now(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, "a")
        held = handle(take_one(box, 5000))
        self.advance(clock, 4)
        assert box.extend([held], 5000) == [True]
        self.advance(clock, 4)
        assert take(box) == []
        self.advance(clock, 1)
        assert taken_ids(box) == ["a"]

    def test_extending_never_shortens(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, "a")
        held = handle(take_one(box, 60_000))
        assert box.extend([held], 5000) == [True]
        assert box.extend([held], 0) == [True]
        self.advance(clock, 59)
        assert take(box) == []
        self.advance(clock, 1)
        assert taken_ids(box) == ["a"]

    def test_many_leases_are_extended_together_and_each_has_its_answer(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, *"abc")
        held = [handle(each) for each in take(box, 3, 5000)]
        assert box.finish(held[1])
        assert box.extend([*held, Handle("x", 1)], 9000) == [True, False, True, False]
        assert box.extend([], 9000) == []
        self.advance(clock, 5)
        assert take(box) == []
        self.advance(clock, 4)
        assert taken_ids(box) == ["a", "c"]

    # Giving back

    def test_what_is_given_back_can_be_taken_at_once_from_its_place(self, box: Box[bytes]) -> None:
        put(box, *"abcd")
        held = [handle(each) for each in take(box, 3)]
        assert box.give_back([held[2], held[0]]) == [True, True]
        put(box, "e")
        assert taken_ids(box) == ["a", "c", "d", "e"]

    def test_a_delivery_counts_unless_it_is_taken_back(self, box: Box[bytes]) -> None:
        put(box, "a")
        counts = []
        for is_counted in (False, False, True, True, False):
            delivery = take_one(box)
            counts.append(delivery.deliveries)
            assert box.give_back([handle(delivery)], is_counted=is_counted) == [True]
        assert counts == [1, 1, 1, 2, 3]
        assert take_one(box).deliveries == 3

    def test_what_is_given_back_for_later_is_hidden_until_then(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, "a", "b")
        held = handle(take_one(box, 1000))
        assert box.give_back([held], delay_ms=5000, is_counted=True) == [True]
        assert box.depth() == Depth(1, 1, 0)
        self.advance(clock, 4)
        assert taken_ids(box) == ["b"]
        self.advance(clock, 1)
        delivery = take_one(box)
        assert (delivery.id, delivery.deliveries) == ("a", 2)

    def test_a_delayed_message_has_its_place(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, *"abc")
        first, second = take(box, 2)
        box.give_back([handle(second)], delay_ms=2000, is_counted=True)
        box.give_back([handle(first)], delay_ms=3000, is_counted=True)
        self.advance(clock, 3)
        assert taken_ids(box) == ["a", "b", "c"]

    def test_many_are_given_back_together_and_each_has_its_answer(self, box: Box[bytes]) -> None:
        put(box, *"abc")
        held = [handle(each) for each in take(box, 3)]
        assert box.finish(held[1])
        assert box.give_back([*held, Handle("x", 1)]) == [True, False, True, False]
        assert box.give_back([]) == []
        assert taken_ids(box) == ["a", "c"]
