"""Turns that wait over a deploy after which nobody can read what they were asked."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from tests.loops.office import PATIENCE_S, Office, Running, eventually

from afl.agents.deadline import Deadline
from afl.clock import FakeClock
from afl.loops import AgentLoop, AgentLoopRequest, Durability, Turn, TurnStatus
from afl.operations import turns as operations
from afl.turns import Ending, MemoryTurns, TurnRecord, TurnState, TurnStore


@dataclass
class Old:
    text: str


@dataclass
class New:
    text: str
    lang: str


@dataclass
class Strict:
    text: str

    def __post_init__(self) -> None:
        if self.text == "hi":
            raise LookupError("nobody says hi any more")


class Shop:
    """Its code can change while turns wait."""

    def __init__(self, office: Office, store: TurnStore) -> None:
        self.office = office
        self.store = store

    def code(self, request_type: Any, **options: Any) -> AgentLoop[Any, Any]:
        def ask(request: Any, turn: Turn) -> str:
            assert isinstance(request, request_type)
            return f"{request.text}: {turn.wait_for_input('which one?')}"

        requests = self.office.open("requests", AgentLoopRequest[request_type])
        turns = Durability(self.store, request_type=request_type)
        options = {"requests": requests, "turns": turns, "name": "shop", **options}
        return AgentLoop.from_function(ask, **options)

    def ask(self, request: Any, **options: Any) -> str:
        """Let a turn begin to wait; its id."""
        known = {each.id for each in self.store.list()}
        asked = AgentLoopRequest(request, **options)
        self.office.requests.send(asked, reply_to=self.office.replies)
        with Running(self.code(type(request))):
            (status,) = self.office.answers(1)
        assert status.status is TurnStatus.SUSPENDED, status
        (turn_id,) = {each.id for each in self.store.list()} - known
        return turn_id

    def is_told(self, turn_id: str) -> bool:
        return self.store.get(turn_id).due is None


@pytest.fixture
def shop(office: Office, turns: TurnStore) -> Shop:
    return Shop(office, turns)


@pytest.mark.parametrize("request_type", [New, Strict])
def test_a_turn_that_nobody_can_read_fails_and_its_sender_is_told_why(
    shop: Shop, request_type: Any
) -> None:
    turn_id = shop.ask(Old("hi"), request_id="order-1")
    operations.answer_turn(shop.store, turn_id, "go")
    with Running(shop.code(request_type)):
        (answer,) = shop.office.answers(1)
        eventually(lambda: shop.is_told(turn_id))
    assert (answer.status, answer.request_id) == (TurnStatus.FAILED, "order-1")
    assert "its request cannot be read" in str(answer.error)
    assert shop.store.get(turn_id).state is TurnState.FAILED
    assert shop.store.get(turn_id).reason == answer.error


def test_a_turn_that_was_cancelled_while_it_waited_is_told_by_code_that_cannot_read_it(
    shop: Shop,
) -> None:
    turn_id = shop.ask(Old("hi"), request_id="order-1")
    operations.answer_turn(shop.store, turn_id, "go")
    operations.cancel_turn(shop.store, turn_id, "not needed")
    with Running(shop.code(New)):
        (answer,) = shop.office.answers(1)
        eventually(lambda: shop.is_told(turn_id))
    assert (answer.request_id, answer.error) == ("order-1", "not needed")
    assert shop.store.get(turn_id).state is TurnState.CANCELLED


def test_an_end_that_a_dead_process_did_not_tell_is_told_by_code_that_cannot_read_it(
    shop: Shop,
) -> None:
    turn_id = shop.ask(Old("hi"), request_id="order-1")
    operations.answer_turn(shop.store, turn_id, "go")
    (claimed,) = shop.store.claim_due("shop", "a process that dies", 100, 1)
    ending = Ending(TurnState.DONE, result=b'"an answer"', is_answered=False)
    shop.store.finish(claimed.claim, ending)
    with Running(shop.code(New)):
        (answer,) = shop.office.answers(1)
        eventually(lambda: shop.is_told(turn_id))
    assert (answer.output, answer.request_id) == ("an answer", "order-1")


def test_other_turns_of_the_same_claim_go_on(shop: Shop) -> None:
    unread, over, fine = (
        shop.ask(Old("hi")),
        shop.ask(Old("ho")),
        shop.ask(New("hey", "en")),
    )
    for each in (unread, over, fine):
        operations.answer_turn(shop.store, each, "go")
    operations.cancel_turn(shop.store, over, "not needed")
    with Running(shop.code(New, concurrency=3)):
        answers = shop.office.answers(3)
        eventually(lambda: all(shop.is_told(each) for each in (unread, over, fine)))
    assert {each.output for each in answers} == {None, "hey: go"}
    assert shop.store.get(fine).state is TurnState.DONE


class Cancelling(MemoryTurns):
    """Somebody cancels turns just before they fail."""

    def finish(self, claim: Any, ending: Ending, *args: Any) -> TurnRecord:
        if ending.state is TurnState.FAILED:
            self.cancel(claim.turn_id, "not needed")
        return super().finish(claim, ending, *args)


def test_a_turn_that_is_cancelled_while_it_is_found_unreadable_is_told_of_that(
    memory_office: Office,
) -> None:
    shop = Shop(memory_office, Cancelling())
    turn_id = shop.ask(Old("hi"))
    operations.answer_turn(shop.store, turn_id, "go")
    with Running(shop.code(New)):
        (answer,) = memory_office.answers(1)
    assert answer.error == "not needed"


def test_a_loop_that_dies_before_it_tells_leaves_that_to_the_next(memory_office: Office) -> None:
    clock = FakeClock()
    store = MemoryTurns(clock=clock)
    shop = Shop(memory_office, store)
    turn_id = shop.ask(Old("hi"))
    operations.answer_turn(store, turn_id, "go")
    dead = shop.code(New)
    assert len(dead.incoming().receive(max_messages=10)) == 1
    assert store.get(turn_id).state is TurnState.FAILED
    clock.advance(60)
    with Running(shop.code(New)):
        (answer,) = memory_office.answers(1)
    assert "its request cannot be read" in str(answer.error)


def test_an_end_is_told_also_after_the_deadline_of_its_request(memory_office: Office) -> None:
    """Which it kept."""
    clock = FakeClock()
    shop = Shop(memory_office, MemoryTurns())
    turn_id = shop.ask(Old("hi"), deadline=Deadline.after(60))
    operations.answer_turn(shop.store, turn_id, "go")
    (claimed,) = shop.store.claim_due("shop", "a process that dies", 1, 1)
    ending = Ending(TurnState.DONE, result=b'"an answer"', is_answered=False)
    shop.store.finish(claimed.claim, ending)
    assert shop.store.wait_due("shop", PATIENCE_S, threading.Event())
    clock.set_wall(Deadline.after(3600).expires_at)
    shop.code(Old, clock=clock).run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert answer.output == "an answer"


def test_a_type_that_nothing_can_be_read_as_harms_no_turn(memory_office: Office) -> None:
    shop = Shop(memory_office, MemoryTurns())
    turn_id = shop.ask(Old("hi"))
    operations.answer_turn(shop.store, turn_id, "go")
    broken = Durability(shop.store, request_type=Old | New)
    loop = memory_office.loop(lambda _: None, turns=broken, name="shop")
    with pytest.raises(TypeError):
        loop.run(max_iterations=1, wait_time_seconds=0)
    record = shop.store.get(turn_id)
    assert (record.state, record.barren) == (TurnState.SUSPENDED, 0)
    with Running(shop.code(Old)):
        assert memory_office.outputs(1) == ["hi: go"]
