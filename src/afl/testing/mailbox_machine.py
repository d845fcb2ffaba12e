"""A box under receivers and operators who do anything in any order, next to a model of it.

Receivers crash, come too late with old handles, and try again what they have done. Hypothesis
looks for an order of events in which the box and the model disagree.

All times are multiples of ten seconds: on a place whose clock really runs, the little time that
passes meanwhile changes nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from afl.clock import FakeClock
from afl.mailbox.box import Box, Burial, Delivery, Depth, Entry, Handle

RECEIVERS = ["one", "two"]
LEASES = [10_000, 30_000, 0]
DELAYS = [0, 20_000]
MOMENTS = [10, 20, 40]
CAPACITY = 8
_ALL = 1000


# The model


@dataclass(eq=False)
class ModelMessage:
    id: str
    payload: bytes
    deliveries: int = 0
    hidden_until: int = 0
    #: What ends it: the handle of its last delivery, unless that was given up.
    handle: Handle | None = None
    fences: list[int] = field(default_factory=list)
    reason: str = ""

    def is_hidden(self, now: int) -> bool:
        return self.hidden_until > now


class Model:
    """What a box with one name holds. Lists are in the order of the queue, and of burials."""

    def __init__(self) -> None:
        self.now = 0
        self.queue: list[ModelMessage] = []
        self.buried: list[ModelMessage] = []
        #: How each message that is gone has ended.
        self.ends: dict[str, str] = {}

    def ready(self) -> list[ModelMessage]:
        return [each for each in self.queue if not each.is_hidden(self.now)]

    def holder(self, handle: Handle) -> ModelMessage | None:
        found = [each for each in self.queue if each.handle == handle]
        return found[0] if found else None

    def take(self, limit: int, lease_ms: int) -> list[ModelMessage]:
        taken = self.ready()[:limit]
        for each in taken:
            each.deliveries += 1
            each.hidden_until = self.now + lease_ms
        return taken

    def end(self, message: ModelMessage, how: str) -> None:
        assert message.id not in self.ends, f"{message.id} has ended twice"
        self.ends[message.id] = how

    def depth(self) -> Depth:
        ready = len(self.ready())
        return Depth(ready, len(self.queue) - ready, len(self.buried))


# The machine


class MailboxMachine(RuleBasedStateMachine):
    """Give it boxes by `open_box`; it closes them in the end."""

    def open_box(self, clock: FakeClock) -> Box[bytes]:
        """Another box object on the same queue, which is empty at first."""
        raise NotImplementedError("return a box on this clock")

    def advance(self, seconds: float) -> None:
        """Let time pass. Places with a clock of their own move that too."""
        self.clock.advance(seconds)

    @initialize(count=st.integers(2, 5))
    def begin(self, count: int) -> None:
        self.clock = FakeClock()
        self.boxes = [self.open_box(self.clock) for _ in RECEIVERS]
        self.model = Model()
        self.made = 0
        #: What receivers believe to hold: they forget it in a crash only.
        self.believed: dict[str, list[Handle]] = {each: [] for each in RECEIVERS}
        # Hypothesis leaves some rules out of each example: without messages the rest would idle.
        for _ in range(count):
            self.put(is_bounded=False)
        self._take(RECEIVERS[0], 2, LEASES[0])

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        try:
            if sys.exception() is None:
                self.everything_ends()
        finally:
            for each in self.boxes:
                each.close()

    def everything_ends(self) -> None:
        """With time, and a receiver, there is nothing that stays."""
        self.pass_time(3600)
        self.revive_all()
        while taken := self._take(RECEIVERS[0], 3, LEASES[0]):
            for each in taken:
                self._finish(RECEIVERS[0], Handle(each.id, each.fence))
        assert self.box(RECEIVERS[0]).depth() == Depth(0, 0, 0)
        assert len(self.model.ends) == self.made, "a message was lost"

    def box(self, receiver: str) -> Box[bytes]:
        return self.boxes[RECEIVERS.index(receiver)]

    def has_handles(self) -> bool:
        return any(self.believed.values())

    def has_letters(self) -> bool:
        return bool(self.model.buried)

    def pick(self, data: st.DataObject) -> tuple[str, Handle]:
        """Somebody and a handle that he believes to be good. Half of the time one that is not, if
        there is one: that is where things go wrong."""
        believed = [(who, each) for who, all_ in self.believed.items() for each in all_]
        lost = [each for each in believed if self.model.holder(each[1]) is None]
        is_lost_wanted: bool = data.draw(st.booleans())
        return data.draw(st.sampled_from(lost if lost and is_lost_wanted else believed))

    # Messages come

    @rule(is_bounded=st.booleans())
    def put(self, is_bounded: bool) -> None:
        capacity = CAPACITY if is_bounded else None
        message = ModelMessage(f"m-{self.made}", f"body {self.made}".encode())
        has_room = not is_bounded or len(self.model.queue) < CAPACITY
        entry = Entry(message.id, message.payload)
        assert self.boxes[0].put(entry, capacity) is has_room
        if has_room:
            self.made += 1
            self.model.queue.append(message)

    @precondition(lambda self: self.model.queue or self.model.buried)
    @rule(data=st.data())
    def put_again(self, data: st.DataObject) -> None:
        """A sender who saw no answer."""
        everyone = [*self.model.queue, *self.model.buried]
        message = data.draw(st.sampled_from(everyone))
        assert self.boxes[1].put(Entry(message.id, message.payload), CAPACITY)

    # Receivers

    @rule(
        receiver=st.sampled_from(RECEIVERS),
        limit=st.sampled_from([2, 1, 9]),
        lease=st.sampled_from(LEASES),
    )
    def take(self, receiver: str, limit: int, lease: int) -> None:
        self._take(receiver, limit, lease)

    def _take(self, receiver: str, limit: int, lease: int) -> list[Delivery[bytes]]:
        got = self.box(receiver).take(limit, lease)
        expected = self.model.take(limit, lease)
        shown = [(each.id, each.payload, each.deliveries) for each in got]
        assert shown == [(each.id, each.payload, each.deliveries) for each in expected]
        for delivery, message in zip(got, expected, strict=True):
            assert all(delivery.fence > each for each in message.fences)
            message.fences.append(delivery.fence)
            message.handle = Handle(delivery.id, delivery.fence)
            self.believed[receiver].append(message.handle)
        return got

    @rule(receiver=st.sampled_from(RECEIVERS))
    def take_over(self, receiver: str) -> None:
        """Nobody extends in time, and somebody else comes."""
        self.pass_time(max(LEASES) // 1000)
        self._take(receiver, 3, LEASES[0])

    @precondition(has_handles)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self._finish(*self.pick(data))

    def _finish(self, receiver: str, handle: Handle) -> None:
        message = self.model.holder(handle)
        assert self.box(receiver).finish(handle) is (message is not None)
        if message is not None:
            self.model.queue.remove(message)
            self.model.end(message, "finished")

    @precondition(has_handles)
    @rule(delay=st.sampled_from(DELAYS), is_counted=st.booleans(), data=st.data())
    def give_back(self, delay: int, is_counted: bool, data: st.DataObject) -> None:
        receiver, handle = self.pick(data)
        message = self.model.holder(handle)
        answer = self.box(receiver).give_back([handle], delay_ms=delay, is_counted=is_counted)
        assert answer == [message is not None]
        if message is not None:
            message.handle = None
            message.deliveries -= not is_counted
            message.hidden_until = self.model.now + delay

    @rule(receiver=st.sampled_from(RECEIVERS))
    def drain(self, receiver: str) -> None:
        """All that it believes to hold, in one go; as a stop does."""
        handles = self.believed[receiver]
        held = [self.model.holder(each) for each in handles]
        answers = self.box(receiver).give_back(handles)
        assert answers == [each is not None for each in held]
        for each in held:
            if each is not None:
                each.handle, each.hidden_until = None, self.model.now
                each.deliveries -= 1
        self.believed[receiver] = []

    @precondition(has_handles)
    @rule(lease=st.sampled_from(LEASES), data=st.data())
    def extend(self, lease: int, data: st.DataObject) -> None:
        receiver, handle = self.pick(data)
        message = self.model.holder(handle)
        assert self.box(receiver).extend([handle], lease) == [message is not None]
        if message is not None:
            message.hidden_until = max(message.hidden_until, self.model.now + lease)

    @precondition(has_handles)
    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        receiver, handle = self.pick(data)
        message = self.model.holder(handle)
        reason = f"reason {handle.fence}"
        assert self.box(receiver).bury(handle, Burial(reason)) is (message is not None)
        if message is not None:
            self.model.queue.remove(message)
            self.model.buried.append(message)
            message.handle, message.reason = None, reason

    @rule(receiver=st.sampled_from(RECEIVERS))
    def crash(self, receiver: str) -> None:
        """It forgets; another process takes its place."""
        self.believed[receiver].clear()
        self.box(receiver).close()
        self.boxes[RECEIVERS.index(receiver)] = self.open_box(self.clock)

    # Time

    @rule(moment=st.sampled_from(MOMENTS))
    def pass_time(self, moment: int) -> None:
        self.advance(moment)
        self.model.now += moment * 1000

    # Operators

    @precondition(has_letters)
    @rule(data=st.data())
    def revive(self, data: st.DataObject) -> None:
        self._revive(data.draw(st.sampled_from(self.model.buried)).id)

    @precondition(has_letters)
    @rule()
    def revive_all(self) -> None:
        self._revive(None)

    def _revive(self, message_id: str | None) -> None:
        chosen = [each for each in self.model.buried if message_id in (None, each.id)]
        ids = None if message_id is None else [message_id, "nobody"]
        assert self.boxes[1].revive(ids) == len(chosen)
        for each in chosen:
            self.model.buried.remove(each)
            self.model.queue.append(each)
            each.deliveries = each.hidden_until = 0

    @precondition(has_letters)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.model.buried))
        assert self.boxes[1].discard_buried([message.id]) == 1
        self.model.buried.remove(message)
        self.model.end(message, "discarded")

    @precondition(lambda self: self.model.buried or len(self.model.queue) > 6)
    @rule()
    def purge(self) -> None:
        assert self.boxes[1].purge() == len(self.model.queue)
        for each in self.model.queue:
            self.model.end(each, "purged")
        self.model.queue.clear()

    # What always holds

    @invariant()
    def the_queue_is_as_the_model_says(self) -> None:
        shown = [
            (each.id, each.payload, each.deliveries, each.hidden_ms > 0)
            for each in self.boxes[0].peek(_ALL)
        ]
        now = self.model.now
        assert shown == [
            (each.id, each.payload, each.deliveries, each.is_hidden(now))
            for each in self.model.queue
        ]

    @invariant()
    def dead_letters_are_as_the_model_says(self) -> None:
        shown = [
            (each.id, each.payload, each.deliveries, each.burial.reason)
            for each in self.boxes[1].buried(_ALL)
        ]
        assert shown == [
            (each.id, each.payload, each.deliveries, each.reason) for each in self.model.buried
        ]

    @invariant()
    def who_counts_and_who_waits_sees_the_same(self) -> None:
        depth = self.model.depth()
        assert self.boxes[1].depth() == depth
        assert self.boxes[0].wait(0) is (depth.ready > 0)
