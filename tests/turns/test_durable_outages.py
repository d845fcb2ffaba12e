"""Turns that are due while something cannot be reached: they are done, or given back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loops.office import Gate, Running, eventually

from afl.clock import FakeClock
from afl.errors import StoreUnavailable
from afl.loops import AgentLoop, AgentLoopRequest, Turn, TurnStatus
from afl.mailbox import CollectingMailbox, FakeMailbox, Mailbox
from afl.mailbox.errors import MailboxConnectionError
from afl.turns import MemoryTurns, TurnRecord, TurnState

AWAY = MailboxConnectionError("the cable is out")


class Shop:
    """A loop whose turns sleep in the store for an hour; its mailbox can be cut off."""

    def __init__(self, store: type[MemoryTurns] = MemoryTurns, **options: Any) -> None:
        self.clock = FakeClock()
        self.store = store(clock=self.clock)
        self.requests: FakeMailbox[Any, Any] = options.pop("requests", None) or FakeMailbox()
        self.replies: CollectingMailbox[Any, Any] = CollectingMailbox()
        self.gate = Gate()
        self.gate.may_end.set()
        self._options = {"requests": self.requests, "turns": self.store, **options}
        self.restart()

    def restart(self) -> None:
        """As another process would go on."""
        self.loop = AgentLoop.from_function(self._nap, name="shop", **self._options)

    def _nap(self, request: str, turn: Turn) -> str:
        turn.sleep(3600)
        return f"{self.gate(request)} rested"

    def fall_asleep(self, *names: str) -> None:
        """Let turns begin to wait, while all is well."""
        for each in names:
            self.requests.send(AgentLoopRequest(each), reply_to=self.replies)
        with Running(self.loop):
            eventually(lambda: len(self.replies.sent) == len(names))
            eventually(lambda: self.loop.in_flight == 0)
        assert {each.status for each in self.replies.sent} == {TurnStatus.SUSPENDED}
        self.replies.purge()

    @property
    def outputs(self) -> list[Any]:
        return [each.output for each in self.replies.sent]

    @property
    def turn(self) -> TurnRecord:
        (turn,) = self.store.list()
        return turn

    def poll(self) -> None:
        self.loop.run(max_iterations=1, wait_time_seconds=0)


@pytest.mark.parametrize("error", [AWAY, ConnectionResetError("by peer")])
def test_due_turns_are_done_while_the_mailbox_cannot_be_reached(error: Exception) -> None:
    shop = Shop(concurrency=4)
    shop.fall_asleep("first", "second")
    with Running(shop.loop):
        shop.requests.set_connection_error(error)
        eventually(lambda: str(error) in str(shop.loop.unready_reason))
        shop.clock.advance(3600)
        eventually(lambda: sorted(shop.outputs) == ["first rested", "second rested"])
        eventually(lambda: shop.loop.unready_reason)
        shop.requests.clear_connection_error()
        eventually(lambda: shop.loop.unready_reason is None)
    assert {each.state for each in shop.store.list()} == {TurnState.DONE}
    assert {each.attempt for each in shop.store.list()} == {2}


def test_an_outage_is_told_while_due_turns_take_what_there_is_of_slots() -> None:
    shop = Shop(concurrency=2)
    shop.fall_asleep("first", "second")
    shop.gate.may_end.clear()
    with Running(shop.loop):
        shop.requests.set_connection_error(AWAY)
        eventually(lambda: "the cable is out" in str(shop.loop.unready_reason))
        shop.clock.advance(3600)
        shop.gate.wait_for(2)
        assert shop.loop.in_flight == 2
        assert "the cable is out" in str(shop.loop.unready_reason)
        shop.requests.clear_connection_error()
        shop.gate.may_end.set()
        eventually(lambda: shop.loop.unready_reason is None)


def test_an_outage_of_the_mailbox_never_makes_a_turn_fail() -> None:
    """However often its lease is over."""
    shop = Shop(concurrency=2)
    shop.fall_asleep("first")
    shop.clock.advance(3600)
    shop.requests.set_connection_error(AWAY)
    for _ in range(8):
        shop.poll()
        shop.clock.advance(60)
    assert (shop.outputs, shop.turn.state) == (["first rested"], TurnState.DONE)


def test_turns_are_given_back_if_the_mailbox_ends_the_loop() -> None:
    shop = Shop(concurrency=3)
    shop.fall_asleep("first", "second")
    shop.clock.advance(3600)
    shop.requests.set_connection_error(RuntimeError("a mistake"))
    with pytest.raises(RuntimeError, match="a mistake"):
        shop.poll()
    for each in shop.store.list():
        assert (each.state, each.barren) == (TurnState.SUSPENDED, 0)
        assert each.due == shop.store.now_ms()
    assert shop.gate.begun == []


# Replies


class Lonely(FakeMailbox[Any, Any]):
    """Knows the mailboxes of its place only as long as that can be reached."""

    def __init__(self, neighbour: Mailbox[Any, Any]) -> None:
        super().__init__()
        self._neighbour = neighbour

    def find(self, name: str) -> Mailbox[Any, Any]:
        self.approximate_count()  # raises in an outage
        assert name == self._neighbour.name
        return self._neighbour


def test_a_turn_is_done_also_if_nobody_can_say_now_where_its_answer_goes() -> None:
    replies: CollectingMailbox[Any, Any] = CollectingMailbox("elsewhere")
    shop = Shop(requests=Lonely(replies))
    shop.requests.send(AgentLoopRequest("first"), reply_to=replies)
    shop.poll()
    assert [each.status for each in replies.sent] == [TurnStatus.SUSPENDED]
    shop.restart()  # who knows no mailbox any more
    shop.requests.set_connection_error(AWAY)
    shop.clock.advance(3600)
    with Running(shop.loop):
        eventually(lambda: shop.turn.state is TurnState.DONE)
        shop.requests.clear_connection_error()
        eventually(lambda: len(replies.sent) == 2)
    assert replies.sent[1].output == "first rested"


# The store


class Forgetful(MemoryTurns):
    """Lends turns, and then cannot say what they were asked; nor take them back."""

    refusals = 0

    def value(self, digest: str) -> bytes:
        self._refuse()
        return super().value(digest)

    def pause(self, *args: Any, **options: Any) -> TurnRecord:
        self._refuse()
        return super().pause(*args, **options)

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable("no database")


def test_turns_that_nobody_could_begin_with_are_given_back_and_not_counted() -> None:
    shop = Shop(Forgetful, concurrency=2)
    shop.fall_asleep("first", "second")
    assert isinstance(shop.store, Forgetful)
    shop.clock.advance(3600)
    for _ in range(8):
        shop.store.refusals = 1
        shop.poll()
        assert {(each.state, each.barren) for each in shop.store.list()} == {
            (TurnState.SUSPENDED, 0)
        }
    assert shop.gate.begun == []
    shop.store.refusals = 2
    shop.poll()
    assert {each.state for each in shop.store.list()} == {TurnState.RUNNING}
    shop.poll()  # they are given back now, and claimed again
    assert sorted(shop.outputs) == ["first rested", "second rested"]
