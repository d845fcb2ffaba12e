"""Announcements: whoever waits is woken when there is something to take, and not before."""

from __future__ import annotations

import threading

import pytest

from afl.clock import FakeClock
from afl.errors import StoreClosed
from afl.mailbox.box import Box, Burial, Entry
from afl.testing.contracts.mailbox.exam import (
    Background,
    Boxes,
    MailboxExam,
    handle,
    put,
    take,
    take_one,
)


class WaitContract(MailboxExam):
    #: Rounds of the test that hunts for lost wake-ups.
    rounds = 100

    def waiting(
        self,
        box: Box[bytes],
        clock: FakeClock,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> Background[bool]:
        """Somebody who waits, and is asleep."""
        waiter = self.begin(lambda: box.wait(timeout, stop))
        clock.wait_for_waiters(1)
        return waiter

    def test_what_is_there_needs_no_wait(self, box: Box[bytes]) -> None:
        put(box, "a")
        assert box.wait() is True
        assert box.wait(0) is True

    def test_a_look_without_patience_returns_at_once(self, box: Box[bytes]) -> None:
        assert box.wait(0) is False
        put(box, "a")
        take_one(box)
        assert box.wait(0) is False

    def test_a_wait_ends_at_its_timeout(self, box: Box[bytes], clock: FakeClock) -> None:
        waiter = self.waiting(box, clock, 30)
        self.advance(clock, 30)
        assert waiter.answer() is False

    def test_a_wait_ends_when_it_is_told_to_stop(self, box: Box[bytes], clock: FakeClock) -> None:
        stop = threading.Event()
        waiter = self.waiting(box, clock, stop=stop)
        stop.set()
        assert waiter.answer() is False
        put(box, "a")
        assert box.wait(stop=stop) is False

    def test_a_message_wakes(self, boxes: Boxes, clock: FakeClock) -> None:
        waiter = self.waiting(boxes("requests"), clock)
        put(boxes("requests"), "a")
        assert waiter.answer() is True

    @pytest.mark.parametrize("is_counted", [True, False])
    def test_a_message_that_is_given_back_wakes(
        self, boxes: Boxes, clock: FakeClock, is_counted: bool
    ) -> None:
        box = boxes("requests")
        put(box, "a")
        held = handle(take_one(box))
        waiter = self.waiting(boxes("requests"), clock)
        assert box.give_back([held], is_counted=is_counted) == [True]
        assert waiter.answer() is True

    def test_a_dead_letter_that_is_revived_wakes(self, boxes: Boxes, clock: FakeClock) -> None:
        box = boxes("requests")
        put(box, "a")
        assert box.bury(handle(take_one(box)), Burial("why"))
        waiter = self.waiting(boxes("requests"), clock)
        assert box.revive() == 1
        assert waiter.answer() is True

    def test_a_lease_that_runs_out_wakes(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, "a")
        take_one(box, 5000)
        waiter = self.waiting(box, clock)
        self.advance(clock, 5)
        assert waiter.answer() is True

    def test_a_delay_that_ends_wakes(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, "a")
        held = handle(take_one(box))
        waiter = self.waiting(box, clock)
        assert box.give_back([held], delay_ms=5000, is_counted=True) == [True]
        # It sleeps again: now until the delay ends.
        clock.wait_for_waiters(1)
        self.advance(clock, 5)
        assert waiter.answer() is True

    def test_a_lease_that_was_extended_does_not_wake_at_its_old_end(
        self, box: Box[bytes], clock: FakeClock
    ) -> None:
        put(box, "a")
        held = handle(take_one(box, 5000))
        waiter = self.waiting(box, clock, 10)
        assert box.extend([held], 60_000) == [True]
        self.advance(clock, 10)
        assert waiter.answer() is False

    def test_news_of_other_boxes_does_not_end_the_wait(
        self, boxes: Boxes, clock: FakeClock
    ) -> None:
        waiter = self.waiting(boxes("requests"), clock, 30)
        put(boxes("replies"), "a")
        self.advance(clock, 30)
        assert waiter.answer() is False

    def test_all_who_wait_are_woken(self, boxes: Boxes, clock: FakeClock) -> None:
        waiters = [self.begin(boxes("requests").wait) for _ in range(3)]
        clock.wait_for_waiters(3)
        put(boxes("requests"), "a")
        assert [each.answer() for each in waiters] == [True] * 3

    def test_no_wake_up_is_lost(self, boxes: Boxes) -> None:
        """Messages come at every possible moment: before the look, after it, during the sleep."""
        turn = threading.Semaphore(0)

        def work() -> int:
            box = boxes("requests")
            done = 0
            while done < self.rounds:
                turn.release()
                assert box.wait()
                for each in take(box):
                    assert box.finish(handle(each))
                    done += 1
            return done

        worker = self.begin(work)
        box = boxes("requests")
        for number in range(self.rounds):
            assert turn.acquire(timeout=self.patience_s), "it sleeps, and there is a message"
            assert box.put(Entry(str(number), b""))
        assert worker.answer() == self.rounds

    # Ends

    def test_waits_can_be_ended_for_good(self, box: Box[bytes], clock: FakeClock) -> None:
        put(box, "a")
        held = handle(take_one(box))
        waiter = self.waiting(box, clock)
        box.end_waits()
        assert waiter.answer() is False
        put(box, "b")
        assert box.wait() is False
        assert box.finish(held), "everything else still works"

    def test_closing_wakes_and_leaves_the_others_alone(
        self, boxes: Boxes, clock: FakeClock
    ) -> None:
        one, two = boxes("requests"), boxes("requests")
        waiter = self.waiting(one, clock)
        one.close()
        one.close()
        assert waiter.answer() is False
        with pytest.raises(StoreClosed):
            put(one, "a")
        with pytest.raises(StoreClosed):
            take(one)
        put(two, "a")
        assert take_one(two).id == "a"
