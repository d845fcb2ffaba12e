"""Mistakes that mailboxes have made elsewhere: the suite must find each one of them.

Each is planted alone into a box that is otherwise right. A test that passes over one of them says
that nothing would protect us from making it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from afl.clock import FakeClock
from afl.errors import AflError
from afl.mailbox.api import Message
from afl.mailbox.box import Box, Burial, Delivery, Entry, Handle
from afl.mailbox.errors import SerializationError
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue, _Kept
from afl.mailbox.named import NamedMailbox
from afl.mailbox.packing import Reply
from afl.testing.contracts.mailbox import (
    ArgumentContract,
    Boxes,
    MessageContract,
    WaitContract,
)
from afl.testing.mailbox_machine import MailboxMachine

Queue = MemoryQueue[bytes]
Kept = _Kept[bytes]


class ToTheTail(Queue):
    """What comes back waits behind all others."""

    def _ripen(self) -> int:
        now = super()._ripen()
        while self._returned:
            kept = self._returned.pop()[2]
            if kept.is_ready:
                self._fresh.append(kept)
        return now


class OldHandlesGood(Queue):
    """Whoever once had a message may end it."""

    def _held(self, handle: Handle) -> Kept | None:
        return self._kept.get(handle.id)


class LeaseForever(Queue):
    """What was taken is gone for others, whether its receiver lives or not."""

    def _ripen(self) -> int:
        return self._now()


class FenceStays(Queue):
    """Every delivery of a message has the same handle."""

    def _take(self, kept: Kept, until: int, wall: int) -> Delivery[bytes]:
        kept.fence = 0
        return super()._take(kept, until, wall)


class ExtendShortens(Queue):
    """The new end of a lease counts, also if it is earlier."""

    def _extend(self, handle: Handle, lease_ms: int) -> bool:
        kept = self._held(handle)
        if kept is not None:
            self._hide(kept, self._now() + lease_ms)
        return kept is not None


class ReleaseCounts(Queue):
    """Giving back what was never begun spends a delivery."""

    def _give_back(self, handle: Handle, delay_ms: int, is_counted: bool) -> bool:
        return super()._give_back(handle, delay_ms, True)


class DelayKeepsTheHandle(Queue):
    """Who has given a message back can still end it."""

    def _give_back(self, handle: Handle, delay_ms: int, is_counted: bool) -> bool:
        is_good = super()._give_back(handle, delay_ms, is_counted)
        if is_good:
            self._kept[handle.id].fence -= 1
        return is_good


class LostOnTheWay(Queue):
    """First deleted here, then kept among the dead letters; and somebody was in between."""

    def bury(self, handle: Handle, burial: Burial) -> bool:
        return self.finish(handle)


class CopiedToTheDead(Queue):
    """A dead letter stays in the queue, too."""

    def bury(self, handle: Handle, burial: Burial) -> bool:
        kept = self._kept.get(handle.id)
        is_good = super().bury(handle, burial)
        if is_good and kept is not None:
            self._kept[kept.id] = kept
            self._hide(kept, self._now())
        return is_good


class RevivedTwice(Queue):
    """A dead letter whose lease ran out before it was buried comes back in two places."""

    def revive(self, ids: Sequence[str] | None = None) -> int:
        count = super().revive(ids)
        for seq, tick, old in list(self._returned):
            if old.id in self._kept and not old.is_ready:
                self._kept[old.id].is_ready = True
                # Another tick: no two entries of a heap may be alike.
                self._returned.append((seq, -tick, self._kept[old.id]))
        return count


class FenceBeginsAnew(Queue):
    """After a redrive, handles from before are good again."""

    def revive(self, ids: Sequence[str] | None = None) -> int:
        for kept, *_ in self._buried.values():
            kept.fence = 0
        return super().revive(ids)


class PurgeTakesTheDead(Queue):
    def purge(self) -> int:
        self._buried.clear()
        return super().purge()


class HiddenTakeNoRoom(Queue):
    """Only what waits counts as being there."""

    def put(self, entry: Entry[bytes], capacity: int | None, *, deliveries: int = 0) -> bool:
        more = None if capacity is None else capacity + self.depth().hidden
        return super().put(entry, more, deliveries=deliveries)


class PutTwice(Queue):
    """A sender who tries again sends again."""

    def put(self, entry: Entry[bytes], capacity: int | None, *, deliveries: int = 0) -> bool:
        known = self._kept.pop(entry.id, None)
        if known is not None:
            self._forget_place(known)
        return super().put(entry, capacity, deliveries=deliveries)

    def _forget_place(self, kept: Kept) -> None:
        kept.is_ready = False
        if kept in self._fresh:
            self._fresh.remove(kept)


class TakenTwice(Queue):
    """Looks first and takes in a second step; somebody else has looked meanwhile."""

    def take(self, limit: int, lease_ms: int) -> list[Delivery[bytes]]:
        taken = super().take(limit, lease_ms)
        if len(taken) > 1:
            # As if the other had got the last one, too.
            self._kept[taken[-1].id].hidden_until = 0
            self._hide(self._kept[taken[-1].id], self._now())
        return taken


# Finding them


def opener(kind: type[Queue]) -> Callable[[FakeClock], Boxes]:
    def boxes(clock: FakeClock) -> Boxes:
        queues: dict[str, Queue] = {}

        def open_box(name: str) -> Box[bytes]:
            return MemoryBox(name, queues.setdefault(name, kind(clock)))

        return open_box

    return boxes


@pytest.mark.parametrize(
    "mistake",
    [
        ToTheTail,
        OldHandlesGood,
        LeaseForever,
        FenceStays,
        ExtendShortens,
        ReleaseCounts,
        DelayKeepsTheHandle,
        LostOnTheWay,
        CopiedToTheDead,
        RevivedTwice,
        FenceBeginsAnew,
        PurgeTakesTheDead,
        HiddenTakeNoRoom,
        PutTwice,
        TakenTwice,
    ],
)
@pytest.mark.timeout(300)
def test_the_machine_finds_a_mistake(mistake: type[Queue]) -> None:
    class Machine(MailboxMachine):
        boxes_of: Boxes | None = None

        def open_box(self, clock: FakeClock) -> Box[bytes]:
            self.boxes_of = self.boxes_of or opener(mistake)(clock)
            return self.boxes_of("requests")

    search = settings(
        max_examples=3000,  # far more than it takes: which ones are tried is not ours to say
        stateful_step_count=50,
        derandomize=True,
        database=None,
        deadline=None,
        # That there is a way is enough: the shortest one takes long to find.
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(Machine, settings=search)


# Of those that only tests of one thing can see


class Silent(Queue):
    """Nobody is told of anything."""

    def announce(self) -> None: ...


class SilentReturns(Queue):
    """Nobody is told of what comes back."""

    def give_back(self, handles: Sequence[Handle], delay_ms: int, is_counted: bool) -> list[bool]:
        with self._lock:
            return [self._give_back(each, delay_ms, is_counted) for each in handles]


class SilentRevival(Queue):
    """Nobody is told of what is sent again."""

    def revive(self, ids: Sequence[str] | None = None) -> int:
        announce, self.announce = self.announce, lambda: None  # type: ignore[method-assign]
        try:
            return super().revive(ids)
        finally:
            self.announce = announce  # type: ignore[method-assign]


class DeafToTime(Queue):
    """Waits for news only, and no message says that its lease has ended."""

    def seconds_left(self) -> float:
        left = super().seconds_left()
        return left if left <= 0 else float("inf")


class Hasty(WaitContract):
    """Gives up soon on what will never happen."""

    patience_s = 0.5


@pytest.mark.parametrize(
    ("mistake", "test"),
    [
        (Silent, Hasty.test_a_message_wakes),
        (SilentRevival, Hasty.test_a_dead_letter_that_is_revived_wakes),
    ],
)
def test_the_suite_finds_that_nobody_is_told(mistake: type[Queue], test: Any) -> None:
    clock = FakeClock()
    with pytest.raises(AssertionError, match="did not end"):
        test(Hasty(), opener(mistake)(clock), clock)


def test_the_suite_finds_that_nobody_is_told_of_a_return() -> None:
    clock = FakeClock()
    with pytest.raises(AssertionError, match="did not end"):
        Hasty().test_a_message_that_is_given_back_wakes(
            opener(SilentReturns)(clock), clock, is_counted=False
        )


def test_the_suite_finds_who_sleeps_through_the_end_of_a_lease() -> None:
    clock = FakeClock()
    with pytest.raises(AssertionError, match="did not end"):
        Hasty().test_a_lease_that_runs_out_wakes(opener(DeafToTime)(clock)("a"), clock)


class ClosesForAll(MemoryBox[bytes]):
    """Who closes a mailbox closes it for everybody."""

    closed_names: frozenset[str] = frozenset()

    def close(self) -> None:
        type(self).closed_names |= {self.name}
        super().close()

    def _queue(self) -> Queue:
        self._is_closed = self._is_closed or self.name in self.closed_names
        return super()._queue()


def test_the_suite_finds_who_closes_for_all() -> None:
    clock = FakeClock()
    queue: Queue = MemoryQueue(clock)
    with pytest.raises(Exception, match="closed"):
        Hasty().test_closing_wakes_and_leaves_the_others_alone(
            lambda name: ClosesForAll(name, queue), clock
        )


# Of what is above the boxes


class PoisonStops(NamedMailbox[Any, Any]):
    """A body that cannot be read is the receiver's problem."""

    def _bury_unread(self, delivery: Delivery[bytes], error: SerializationError) -> None:
        raise error


class PoisonForgotten(NamedMailbox[Any, Any]):
    """A body that cannot be read is skipped, and comes back for ever."""

    def _bury_unread(self, delivery: Delivery[bytes], error: SerializationError) -> None: ...


class FillsItsBatch(NamedMailbox[Any, Any]):
    """Waits on until it has as many as were asked for."""

    def receive(self, **given: Any) -> list[Message[Any, Any]]:
        found = super().receive(**given)
        if len(found) < given.get("max_messages", 1) and given.get("wait_time_seconds"):
            found += super().receive(**given)
        return found


class CloseLetsSleep(NamedMailbox[Any, Any]):
    """Whoever waits is not told that it is over."""

    def close(self) -> None:
        self._is_closed = True


class SendsWhenClosed(NamedMailbox[Any, Any]):
    def _require_open(self) -> None: ...


class LetsGoAtOnce(NamedMailbox[Any, Any]):
    """Closes the place under those who have begun."""

    def close(self) -> None:
        super().close()
        self._let_go()


class QuietAboutReplies(NamedMailbox[Any, Any]):
    """A reply address that nobody knows is as good as none."""

    def _reply(self, delivery: Delivery[bytes], name: str) -> Reply:
        return Reply(super()._reply(delivery, name).to)


class RemembersClosed(NamedMailbox[Any, Any]):
    """Gives a mailbox for replies again that a receiver has closed."""

    def _reply(self, delivery: Delivery[bytes], name: str) -> Reply:
        self._first = getattr(self, "_first", None) or super()._reply(delivery, name)
        return self._first


class ReasonsAsTheyAre(NamedMailbox[Any, Any]):
    """Leaves it to the place whether it can keep a reason."""

    def dead_letter(
        self, message: Message[Any, Any], reason: str, error: BaseException | None = None
    ) -> None:
        self._deliveries.bury(message.receipt_handle, Burial(reason))


class LimitsAsTheyAre(NamedMailbox[Any, Any]):
    """Leaves it to the place which limits there are."""

    def peek(self, limit: int = 100) -> list[Any]:
        return self.box.peek(limit)


class NullsForNumbers(NamedMailbox[Any, Any]):
    """Writes what JSON does not have as something else."""

    def send(self, body: Any, **given: Any) -> str:
        return super().send(msgspec.json.decode(msgspec.json.encode(body)), **given)


class StoppedTakesOneMore(NamedMailbox[Any, Any]):
    """Looks at the stop only while it waits."""

    def receive(self, **given: Any) -> list[Message[Any, Any]]:
        return self.take(1, 30) or super().receive(**given)


class HastyMessages(MessageContract):
    patience_s = 0.5


def opened(kind: type[NamedMailbox[Any, Any]], clock: FakeClock) -> Any:
    boxes = opener(MemoryQueue)(clock)

    def open_(name: str = "requests", **options: Any) -> NamedMailbox[Any, Any]:
        return kind(boxes, name, clock=clock, **options)

    return open_


@pytest.mark.parametrize(
    ("mistake", "test", "more"),
    [
        (PoisonStops, HastyMessages.test_a_batch_with_poison_gives_the_rest, {}),
        (
            PoisonForgotten,
            HastyMessages.test_poison_goes_to_the_dead_letters_and_disturbs_nobody,
            {"events": [], "poison": b"no"},
        ),
        (
            SendsWhenClosed,
            HastyMessages.test_what_was_received_before_the_close_can_be_answered_and_ended,
            {},
        ),
        (
            LetsGoAtOnce,
            HastyMessages.test_what_was_received_before_the_close_can_be_answered_and_ended,
            {},
        ),
        (
            QuietAboutReplies,
            HastyMessages.test_a_reply_address_that_nobody_knows_is_an_error_on_record,
            {"events": []},
        ),
        (
            RemembersClosed,
            HastyMessages.test_a_mailbox_for_replies_that_a_receiver_closes_is_opened_again,
            {},
        ),
        (ReasonsAsTheyAre, HastyMessages.test_any_reason_can_be_kept, {"events": []}),
    ],
)
def test_the_suite_finds_a_mistake_of_a_mailbox(
    mistake: type[NamedMailbox[Any, Any]], test: Any, more: dict[str, Any]
) -> None:
    with pytest.raises((AssertionError, AflError, pytest.fail.Exception)):
        test(HastyMessages(), opened(mistake, FakeClock()), **more)


@pytest.mark.parametrize(
    ("mistake", "test", "more"),
    [
        (
            LimitsAsTheyAre,
            ArgumentContract.test_any_limit_can_be_asked_for,
            {"limit": 2**63, "shown": 2},
        ),
        (
            NullsForNumbers,
            ArgumentContract.test_numbers_that_json_does_not_have_are_refused,
            {"number": float("nan")},
        ),
    ],
)
def test_the_suite_finds_who_takes_odd_arguments(
    mistake: type[NamedMailbox[Any, Any]], test: Any, more: dict[str, Any]
) -> None:
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
        test(ArgumentContract(), opened(mistake, FakeClock()), **more)


@pytest.mark.parametrize(
    ("mistake", "test"),
    [
        (CloseLetsSleep, HastyMessages.test_closing_ends_a_waiting_receive),
        (StoppedTakesOneMore, HastyMessages.test_a_waiting_receive_ends_when_it_is_told_to_stop),
    ],
)
def test_the_suite_finds_a_mistake_in_waiting(
    mistake: type[NamedMailbox[Any, Any]], test: Any
) -> None:
    clock = FakeClock()
    with pytest.raises(AssertionError):
        test(HastyMessages(), opened(mistake, clock), clock)


def test_the_suite_finds_who_waits_to_fill_a_batch() -> None:
    suite, mailboxes = HastyMessages(), opened(FillsItsBatch, FakeClock())
    asleep = suite.begin(lambda: suite.test_a_receive_does_not_wait_to_fill_its_batch(mailboxes))
    with pytest.raises(AssertionError, match="did not end"):
        asleep.answer()
