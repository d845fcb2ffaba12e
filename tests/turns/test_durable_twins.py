"""The same request again, built anew: it is the same turn if it asks for the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.loops.office import Office, Running
from tests.turns.tooled import Tooled

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.agents.deadline import Deadline
from afl.loops import AgentLoopRequest, Durability, TurnBudget
from afl.loops.requests import RunContext
from afl.operations import turns as operations
from afl.turns import NewTurn, TurnState, TurnStore
from afl.turns.values import encode

Build = Callable[[], AgentLoopRequest[Any]]


def plain() -> AgentLoopRequest[Any]:
    return AgentLoopRequest("Charge me 30.", request_id="order-7")


def traced() -> AgentLoopRequest[Any]:
    context = RunContext(trace_id="t-1")  # whose run_id is new each time
    return AgentLoopRequest("Charge me 30.", request_id="order-7", run_context=context)


def urgent() -> AgentLoopRequest[Any]:
    deadline = Deadline.after(60)
    return AgentLoopRequest("Charge me 30.", request_id="order-7", deadline=deadline)


@pytest.mark.parametrize("build", [plain, traced, urgent])
def test_a_request_that_is_built_again_is_answered_from_the_store(
    office: Office, turns: TurnStore, build: Build
) -> None:
    charged: list[int] = []

    def charge(amount: int) -> str:
        charged.append(amount)
        return "charged"

    adapter = ScriptedAdapter([calls("charge", {"amount": 30}), says("done")])
    with Running(Tooled(adapter, office, charge, turns=turns)):
        for _ in range(2):
            office.requests.send(build(), reply_to=office.replies)
            (answer,) = office.answers(1)
            assert (answer.output, answer.error, answer.request_id) == ("done", None, "order-7")
    assert charged == [30]
    assert [each.key for each in turns.list()] == ["order-7"]


def test_a_request_that_asks_for_something_else_is_refused(
    office: Office, turns: TurnStore
) -> None:
    others = [
        AgentLoopRequest("Charge me 40.", request_id="order-7"),
        AgentLoopRequest("Charge me 30.", request_id="order-7", resources={"tenant": "b"}),
        AgentLoopRequest("Charge me 30.", budget=TurnBudget(max_tokens=9), request_id="order-7"),
    ]
    with Running(office.loop(str.upper, turns=turns)):
        for each in (plain(), *others):
            office.requests.send(each, reply_to=office.replies)
        first, *rest = office.answers(4)
    assert first.output == "CHARGE ME 30."
    assert {each.error for each in rest} == {
        "the key 'order-7' stands for another request; use a new one"
    }


def test_a_turn_that_waits_is_found_by_a_request_that_is_built_again(
    office: Office, turns: TurnStore
) -> None:
    begun = []

    def ask(request: str, turn: Any) -> str:
        begun.append(request)
        return str(turn.wait_for_input("which one?"))

    with Running(office.loop(ask, turns=turns)):
        for _ in range(2):
            office.requests.send(plain(), reply_to=office.replies)
            (status,) = office.answers(1)
            assert status.resume_token
        (waiting,) = turns.list()
        assert begun == ["Charge me 30."]
        operations.answer_turn(turns, waiting.id, "the red one")
        assert office.outputs(1) == ["the red one"]


# Turns that are in stores already


@pytest.mark.parametrize("build", [plain, traced])
def test_turns_that_were_kept_as_a_whole_are_found(
    office: Office, turns: TurnStore, build: Build
) -> None:
    """Both by the message that brought them and by one that is built again."""
    first = build()
    kept = turns.accept(NewTurn("shop", encode(first), "order-7", office.replies.name))
    with Running(office.loop(str.upper, turns=turns, name="shop")):
        for each in (first, build()):
            office.requests.send(each, reply_to=office.replies)
        assert office.outputs(2) == ["CHARGE ME 30."] * 2
    (record,) = turns.list()
    assert (record.id, record.state, record.attempt) == (kept.id, TurnState.DONE, 1)


def test_a_turn_that_did_not_come_by_a_message_is_found_by_one(
    office: Office, turns: TurnStore
) -> None:
    kept = operations.submit_turn(turns, "shop", "Charge me 30.", key="order-7")
    with Running(office.loop(str.upper, turns=turns, name="shop")):
        office.requests.send(plain(), reply_to=office.replies)
        assert office.outputs(1) == ["CHARGE ME 30."]
    assert [each.id for each in turns.list()] == [kept.id]


@dataclass
class Old:
    text: str


@dataclass
class New:
    text: str
    lang: str = "en"


@pytest.mark.parametrize("again", [Old("hi"), New("hi"), New("hi", "en")])
def test_a_field_that_was_added_with_a_default_makes_no_other_request(
    office: Office, turns: TurnStore, again: Any
) -> None:
    """Whether a message comes back after a deploy, or is built again by new code."""
    asked = AgentLoopRequest(Old("hi"), request_id="order-7")
    turns.accept(NewTurn("shop", encode(asked), "order-7", office.replies.name))
    office.requests.send(replace(asked, request=again), reply_to=office.replies)
    loop = office.loop(
        lambda request: f"{request.text} {request.lang}",
        requests=office.open("requests", AgentLoopRequest[New]),
        turns=Durability(turns, request_type=New),
        name="shop",
    )
    with Running(loop):
        assert office.outputs(1) == ["hi en"]
    assert len(turns.list()) == 1
