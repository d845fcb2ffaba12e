"""Loops whose turns are kept: what is done stays done, whoever goes on with it, and when."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpx2 as httpx
import pytest
from tests.loops.agents import Agent
from tests.loops.office import PATIENCE_S, Gate, Office, Running, eventually
from tests.turns.tooled import Tooled

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.agents.errors import BudgetExceeded, ModelUnavailable
from afl.agents.model import Usage
from afl.backoff import Backoff
from afl.clock import FakeClock
from afl.errors import StoreClosed, StoreMisused, StoreUnavailable
from afl.loops import (
    AgentLoopRequest,
    Durability,
    Turn,
    TurnBudget,
    TurnStatus,
    current_turn,
    tool,
)
from afl.mailbox import DLQPolicy
from afl.operations import turns as operations
from afl.turns import (
    Claim,
    Ending,
    Kind,
    MemoryTurns,
    NewEntry,
    OutcomeUnknown,
    Policy,
    StaleTurn,
    ToolClient,
    TurnBusy,
    TurnRecord,
    TurnState,
    TurnStore,
    current_effect,
)

Events = Callable[[str], list[dict[str, object]]]


def only(store: TurnStore) -> TurnRecord:
    (record,) = store.list()
    return record


def kinds(store: TurnStore) -> list[Kind]:
    return [each.kind for each in store.read(only(store).id)]


def wait_for_state(store: TurnStore, state: TurnState) -> TurnRecord:
    eventually(lambda: [each.state for each in store.list()] == [state])
    return only(store)


# Going on where it was left


def test_a_turn_keeps_what_its_model_and_its_tools_said(office: Office, turns: TurnStore) -> None:
    adapter = ScriptedAdapter([calls("shout", {"text": "hi"}), says("done")])
    (asked,) = office.ask("first")
    with Running(Agent(adapter, office, turns=turns)):
        (answer,) = office.answers(1)
    assert (answer.output, answer.request_id) == ("done", asked)
    record = only(turns)
    assert (record.state, record.key, record.attempt) == (TurnState.DONE, asked, 1)
    assert kinds(turns) == [Kind.MODEL, Kind.TOOL_INTENT, Kind.TOOL_DONE, Kind.MODEL]
    assert operations.result_of(turns, record.id) == "done"


def test_the_same_request_again_is_answered_without_asking_anybody(
    office: Office, turns: TurnStore
) -> None:
    adapter = ScriptedAdapter([says("done")])
    request = AgentLoopRequest("first")
    with Running(Agent(adapter, office, turns=turns)):
        for _ in range(2):
            office.requests.send(request, reply_to=office.replies)
        answers = office.answers(2)
    assert [each.output for each in answers] == ["done", "done"]
    assert len(adapter.requests) == 1


def test_twins_that_come_at_the_same_time_are_one_turn(office: Office, turns: TurnStore) -> None:
    gate = Gate()
    request = AgentLoopRequest("first")
    for _ in range(2):
        office.requests.send(request, reply_to=office.replies)
    with Running(office.loop(gate, turns=turns, concurrency=2, lease_s=1.0)):
        gate.wait_for(1)
        gate.may_end.set()
        assert office.outputs(2) == ["first", "first"]
    assert gate.begun == ["first"]


def test_a_twin_hears_of_an_end_that_came_while_it_looked(memory_office: Office) -> None:
    """It would wait for news of a turn that has none any more."""
    gate = Gate()

    class Ending(MemoryTurns):
        def begin(self, *args: Any) -> TurnRecord:
            try:
                return super().begin(*args)
            except TurnBusy as busy:
                turn_id = busy.turn.id
                gate.may_end.set()
                eventually(lambda: self.get(turn_id).state.is_end)
                raise

    request = AgentLoopRequest("first")
    for _ in range(2):
        memory_office.requests.send(request, reply_to=memory_office.replies)
    loop = memory_office.loop(gate, turns=Ending(), concurrency=2, lease_s=300.0)
    with Running(loop):
        assert memory_office.outputs(2) == ["first", "first"]
    assert gate.begun == ["first"]


def test_what_failed_for_a_moment_goes_on_where_it_was(office: Office, turns: TurnStore) -> None:
    charged: list[int] = []

    def charge(amount: int) -> str:
        charged.append(amount)
        return "charged"

    adapter = ScriptedAdapter(
        [calls("charge", {"amount": 3}), ModelUnavailable("overloaded"), says("done")]
    )
    policy: DLQPolicy[Any] = DLQPolicy(backoff=Backoff(initial=0.01, maximum=0.01))
    office.ask("first")
    with Running(Tooled(adapter, office, charge, turns=turns, dlq=policy)):
        assert office.outputs(1) == ["done"]
    assert (charged, len(adapter.requests)) == ([3], 3)
    assert only(turns).attempt == 2


def test_a_failure_is_the_end_of_a_turn_if_nobody_tries_again(
    office: Office, turns: TurnStore
) -> None:
    office.ask("first")
    with Running(Agent(ScriptedAdapter([ModelUnavailable("overloaded")]), office, turns=turns)):
        (answer,) = office.answers(1)
    assert (answer.status, answer.error) == (TurnStatus.FAILED, "overloaded")
    assert (only(turns).state, only(turns).reason) == (TurnState.FAILED, "overloaded")


def test_a_failure_with_an_odd_text_is_the_end_of_a_turn_too(
    office: Office, turns: TurnStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "afl")  # its trace could not be reported
    adapter = ScriptedAdapter([ValueError("cannot read \udcff.txt")])
    office.ask("first")
    with Running(Agent(adapter, office, turns=turns)):
        (answer,) = office.answers(1)
    assert (answer.status, answer.error) == (TurnStatus.FAILED, "cannot read \\udcff.txt")
    assert (only(turns).state, only(turns).reason) == (TurnState.FAILED, answer.error)


class Picky(MemoryTurns):
    """Takes short reasons only."""

    def finish(self, claim: Claim, ending: Ending, entries: Sequence[NewEntry] = ()) -> TurnRecord:
        if len(ending.reason) > 99:
            raise StoreMisused("the reason is too long")
        return super().finish(claim, ending, entries)


@pytest.mark.parametrize("policy", [None, DLQPolicy[Any](max_delivery_count=1)], ids=repr)
def test_a_turn_ends_also_if_the_store_does_not_take_the_reason(
    memory_office: Office, policy: DLQPolicy[Any] | None
) -> None:
    store = Picky()
    memory_office.ask("first")
    agent = Agent(ScriptedAdapter([ValueError("x" * 100)]), memory_office, turns=store, dlq=policy)
    with Running(agent):
        (answer,) = memory_office.answers(1)
    assert "x" * 100 in str(answer.error)
    record = wait_for_state(store, TurnState.FAILED)
    assert record.reason == "failed with ValueError; why cannot be kept: the reason is too long"


def test_a_failed_turn_that_nobody_could_be_told_of_is_told_when_its_letter_is_sent_again(
    office: Office, turns: TurnStore
) -> None:
    class Speechless(Agent):
        def failure(self, *args: Any) -> Any:
            super().failure(*args)
            raise RuntimeError("no words")

    office.ask("first")
    with Running(Speechless(ScriptedAdapter([ValueError("no luck")]), office, turns=turns)):
        wait_for_state(turns, TurnState.FAILED)
        eventually(office.requests.dead_letters)
    office.requests.redrive()
    name = "Speechless"  # turns are of a loop by its name
    with Running(Agent(ScriptedAdapter([]), office, turns=turns, name=name)):
        (answer,) = office.answers(1)
    assert (answer.status, answer.error) == (TurnStatus.FAILED, "no luck")


def test_a_failure_after_its_store_was_closed_is_left_to_the_next_process(
    memory_office: Office,
) -> None:
    store = MemoryTurns()

    def fail(_request: Any) -> None:
        store.close()
        raise ValueError("no luck")

    memory_office.ask("first")
    with pytest.raises(StoreClosed), Running(memory_office.loop(fail, turns=store)) as running:
        running.join()
    assert memory_office.requests.approximate_count() == 1
    assert memory_office.requests.dead_letters() == []


def test_a_tool_that_returned_something_odd_has_acted_and_the_turn_goes_on(
    office: Office, turns: TurnStore
) -> None:
    charged = []

    def charge(amount: int) -> Any:
        charged.append(amount)
        receipt: list[Any] = []
        receipt.append(receipt)
        return receipt

    adapter = ScriptedAdapter([calls("charge", {"amount": 3}), says("done")])
    office.ask("first")
    agent = Tooled(adapter, office, charge, turns=turns)
    with Running(agent):
        assert office.outputs(1) == ["done"]
    assert (charged, agent.sessions[-1].tool_uses[0].result.content) == ([3], "[[...]]")
    assert kinds(turns).count(Kind.TOOL_DONE) == 1


@pytest.mark.parametrize("value", [math.nan, {"score": [math.inf]}], ids=str)
def test_an_output_that_cannot_be_kept_as_it_is_fails_the_turn(
    office: Office, turns: TurnStore, value: Any
) -> None:
    office.ask("first")
    with Running(office.loop(lambda _request: value, turns=turns)):
        (answer,) = office.answers(1)
    assert answer.status is TurnStatus.FAILED
    assert "NaN and infinity" in str(answer.error)
    assert (only(turns).state, only(turns).reason) == (TurnState.FAILED, answer.error)


def test_an_output_that_is_no_unicode_is_told_as_it_is_kept(
    office: Office, turns: TurnStore
) -> None:
    office.ask("first")
    with Running(office.loop(lambda _request: "\udcff.txt", turns=turns)):
        (answer,) = office.answers(1)
    assert (answer.status, answer.output) == (TurnStatus.DONE, "?.txt")
    assert operations.result_of(turns, only(turns).id) == "?.txt"


def test_answers_from_the_journal_count_in_the_budget(office: Office, turns: TurnStore) -> None:
    costly = Usage(input_tokens=60)

    def stop() -> str:
        current_turn().wait_for_input("go on?")
        return "going on"

    adapter = ScriptedAdapter([calls("stop", {}, usage=costly), says("never", costly)])
    office.requests.send(
        AgentLoopRequest("first", budget=TurnBudget(max_tokens=50)), reply_to=office.replies
    )
    with Running(Tooled(adapter, office, stop, turns=turns)):
        office.answers(1)
        operations.answer_turn(turns, only(turns).id, "yes")
        (answer,) = office.answers(1)
    assert answer.status is TurnStatus.FAILED
    assert "max_tokens" in str(answer.error), BudgetExceeded.__doc__
    assert len(adapter.requests) == 1


# Waiting


def asks(request: str, turn: Turn) -> str:
    turn.note("about to ask")
    return f"{request}: {turn.wait_for_input('which one?')}"


def test_a_question_waits_in_the_store_and_holds_no_worker(
    office: Office, turns: TurnStore
) -> None:
    (asked,) = office.ask("first")
    loop = office.loop(asks, turns=turns)
    with Running(loop):
        (status,) = office.answers(1)
        assert (status.status, status.request_id) == (TurnStatus.SUSPENDED, asked)
        assert status.resume_token
        eventually(lambda: loop.in_flight == 0 and office.requests.approximate_count() == 0)
        assert only(turns).state is TurnState.WAITING
        operations.answer_turn(turns, only(turns).id, "the red one")
        (answer,) = office.answers(1)
    assert (answer.output, answer.request_id) == ("first: the red one", asked)
    assert kinds(turns).count(Kind.NOTE) == 1


def test_another_loop_goes_on_with_an_answered_turn(office: Office, turns: TurnStore) -> None:
    office.ask("first")
    with Running(office.loop(asks, turns=turns)):
        office.answers(1)
    operations.answer_turn(turns, only(turns).id, "the red one")
    with Running(office.loop(asks, turns=turns)):
        assert office.outputs(1) == ["first: the red one"]


def test_a_question_that_nobody_answers_in_time_has_its_default(memory_office: Office) -> None:
    clock = FakeClock()
    store = MemoryTurns(clock=clock)

    def ask(request: str, turn: Turn) -> Any:
        return turn.wait_for_input("which one?", timeout_s=600, default="any")

    memory_office.ask("first")
    with Running(memory_office.loop(ask, turns=store)):
        memory_office.answers(1)
        clock.advance(600)
        assert memory_office.outputs(1) == ["any"]
    assert kinds(store)[-1] is Kind.INPUT_EXPIRED


def test_a_turn_sleeps_in_the_store(memory_office: Office) -> None:
    clock = FakeClock()
    store = MemoryTurns(clock=clock)
    woken = []

    def nap(request: str, turn: Turn) -> str:
        turn.sleep(3600)
        woken.append(request)
        return "rested"

    memory_office.ask("first")
    with Running(memory_office.loop(nap, turns=store)):
        (status,) = memory_office.answers(1)
        assert status.status is TurnStatus.SUSPENDED
        assert not woken
        clock.advance(3600)
        assert memory_office.outputs(1) == ["rested"]


def test_a_tool_that_asks_a_person_is_entered_again_with_the_answer(
    office: Office, turns: TurnStore
) -> None:
    def approve(sum: int) -> str:  # noqa: A002
        return f"{sum}: {current_turn().wait_for_input(f'is {sum} fine?')}"

    adapter = ScriptedAdapter([calls("approve", {"sum": 30}), says("done")])
    office.ask("first")
    agent = Tooled(adapter, office, approve, turns=turns)
    with Running(agent):
        office.answers(1)
        operations.answer_turn(turns, only(turns).id, "yes")
        assert office.outputs(1) == ["done"]
    assert agent.sessions[-1].tool_uses[0].result.content == "30: yes"
    assert operations.unknown_effects(turns) == []


# Effects that nobody knows about


def test_an_effect_that_nobody_knows_about_waits_for_a_person(
    office: Office, turns: TurnStore
) -> None:
    def fax(text: str) -> str:
        raise OutcomeUnknown("the line broke")

    adapter = ScriptedAdapter([calls("fax", {"text": "hi"}), says("done")])
    office.ask("first")
    agent = Tooled(adapter, office, fax, turns=turns)
    with Running(agent):
        (status,) = office.answers(1)
        assert status.status is TurnStatus.SUSPENDED
        (effect,) = operations.unknown_effects(turns)
        assert (effect.tool, effect.arguments) == ("fax", {"text": "hi"})
        operations.settle_effect(turns, effect.turn_id, "done", "it arrived")
        assert office.outputs(1) == ["done"]
    assert agent.sessions[-1].tool_uses[0].result.content == "it arrived"


def test_an_effect_that_did_not_happen_is_tried_again_under_its_key(
    memory_office: Office,
) -> None:
    store, keys = MemoryTurns(), []

    def fax(text: str) -> str:
        effect = current_effect()
        assert effect is not None
        keys.append(effect.key)
        if len(keys) == 1:
            raise OutcomeUnknown("the line broke")
        return "sent"

    adapter = ScriptedAdapter([calls("fax", {"text": "hi"}), says("done")])
    memory_office.ask("first")
    with Running(Tooled(adapter, memory_office, fax, turns=store)):
        memory_office.answers(1)
        operations.settle_effect(store, only(store).id, "again")
        assert memory_office.outputs(1) == ["done"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_an_idempotent_tool_whose_answer_was_lost_is_asked_again(memory_office: Office) -> None:
    tries = []

    @tool(idempotent=True)
    def fax(text: str) -> str:
        tries.append(text)
        if len(tries) < 3:
            raise OutcomeUnknown("the line broke")
        return "sent"

    adapter = ScriptedAdapter([calls("fax", {"text": "hi"}), says("done")])
    memory_office.ask("first")
    with Running(Tooled(adapter, memory_office, fax, turns=MemoryTurns())):
        assert memory_office.outputs(1) == ["done"]
    assert tries == ["hi"] * 3


def test_a_server_that_acted_and_is_away_when_it_is_asked_again_has_not_failed(
    memory_office: Office,
) -> None:
    keys = []

    def shop(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx.ReadTimeout("it acts, and dies", request=request)
        if len(keys) == 2:
            raise httpx.ConnectError("it starts again", request=request)
        return httpx.Response(200, text="charged before")

    client = ToolClient(transport=httpx.MockTransport(shop), base_url="http://shop")

    @tool(idempotent=True)
    def charge(amount: int) -> str:
        return str(client.post("/charge", json={"amount": amount}).text)

    adapter = ScriptedAdapter([calls("charge", {"amount": 30}), says("done")])
    memory_office.ask("first")
    agent = Tooled(adapter, memory_office, charge, turns=MemoryTurns())
    with client, Running(agent):
        assert memory_office.outputs(1) == ["done"]
    assert agent.sessions[-1].tool_uses[0].result.content == "charged before"
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_tool_that_fails_says_so_to_the_model_also_after_a_resume(
    office: Office, turns: TurnStore
) -> None:
    tries = []

    def charge() -> str:
        tries.append(1)
        raise ValueError("card refused")

    def wait() -> str:
        return str(current_turn().wait_for_input("?"))

    adapter = ScriptedAdapter([calls("charge", {}), calls("wait", {}), says("done")])
    office.ask("first")
    agent = Tooled(adapter, office, charge, wait, turns=turns)
    with Running(agent):
        office.answers(1)
        operations.answer_turn(turns, only(turns).id, "go")
        assert office.outputs(1) == ["done"]
    charged, _ = agent.sessions[-1].tool_uses
    assert (charged.result.content, charged.is_error) == ("card refused", True)
    assert tries == [1]


# Code that changed


def mismatching(effects: list[str], name: str) -> Callable[[str, Turn], str]:
    def work(request: str, turn: Turn) -> str:
        turn.tool("first", {}, lambda: effects.append("first"))
        turn.tool(name, {"n": 1}, lambda: effects.append(name))
        return str(turn.wait_for_input("?"))

    return work


def test_a_turn_that_does_not_fit_the_code_waits_for_a_person(
    office: Office, turns: TurnStore
) -> None:
    effects: list[str] = []
    office.ask("first")
    with Running(office.loop(mismatching(effects, "old"), turns=turns, name="shop")):
        office.answers(1)
    operations.answer_turn(turns, only(turns).id, "go")
    with Running(office.loop(mismatching(effects, "new"), turns=turns, name="shop")):
        (status,) = office.answers(1)
        assert "the tool old" in str(status.error)
        assert "the tool new" in str(status.error)
        record = wait_for_state(turns, TurnState.MISMATCHED)
    operations.resume_turn(turns, record.id)
    with Running(office.loop(mismatching(effects, "old"), turns=turns, name="shop")):
        assert office.outputs(1) == ["go"]
    assert effects == ["first", "old"]


def test_a_turn_may_go_on_from_the_last_point_that_fits(office: Office, turns: TurnStore) -> None:
    effects: list[str] = []
    office.ask("first")
    with Running(office.loop(mismatching(effects, "old"), turns=turns, name="shop")):
        office.answers(1)
    operations.answer_turn(turns, only(turns).id, "go")
    restarting = Durability(turns, on_mismatch="restart")
    with Running(office.loop(mismatching(effects, "new"), turns=restarting, name="shop")):
        (status,) = office.answers(1)
        assert status.status is TurnStatus.SUSPENDED
        operations.answer_turn(turns, only(turns).id, "go again")
        assert office.outputs(1) == ["go again"]
    assert effects == ["first", "old", "new"]


def test_an_effect_that_is_planned_again_after_a_restart_is_not_repeated(
    office: Office, turns: TurnStore
) -> None:
    effects: list[str] = []

    def charge() -> str:
        effects.append("charge")
        return "paid"

    def work(first: str) -> Callable[[str, Turn], str]:
        def run(request: str, turn: Turn) -> str:
            turn.tool(first, {}, lambda: effects.append(first))
            receipt = turn.tool("charge", {"sum": 3}, charge)
            return f"{receipt} {turn.wait_for_input(first)}"

        return run

    office.ask("first")
    restarting = Durability(turns, on_mismatch="restart")
    with Running(office.loop(work("old"), turns=restarting, name="shop")):
        office.answers(1)
    operations.answer_turn(turns, only(turns).id, "go")
    with Running(office.loop(work("new"), turns=restarting, name="shop")):
        office.answers(1)
        operations.answer_turn(turns, only(turns).id, "go")
        assert office.outputs(1) == ["paid go"]
    assert effects == ["old", "charge", "new"]


# Operators


def test_a_cancelled_turn_is_answered_and_ends(office: Office, turns: TurnStore) -> None:
    gate = Gate()

    def work(request: str, turn: Turn) -> Any:
        return turn.tool("wait", {}, lambda: gate(request))

    office.ask("first")
    with Running(office.loop(work, turns=turns)):
        gate.wait_for(1)
        operations.cancel_turn(turns, only(turns).id, "not wanted")
        gate.may_end.set()
        (answer,) = office.answers(1)
    assert (answer.status, answer.error) == (TurnStatus.FAILED, "not wanted")
    assert only(turns).state is TurnState.CANCELLED


def test_a_cancelled_turn_that_waits_is_answered_too(office: Office, turns: TurnStore) -> None:
    office.ask("first")
    with Running(office.loop(asks, turns=turns)):
        office.answers(1)
        operations.resume_turn(turns, only(turns).id)
        office.answers(1)
        operations.cancel_turn(turns, only(turns).id, "not wanted")
    assert only(turns).state is TurnState.CANCELLED


def test_whoever_has_the_token_may_let_a_turn_go_on(office: Office, turns: TurnStore) -> None:
    """Its message is gone."""
    gate = Gate()

    def work(request: str, turn: Turn) -> str:
        turn.tool("wait", {}, lambda: gate(request), policy=Policy(idempotent=True))
        return "done"

    office.ask("first")
    loop = office.loop(work, turns=turns)
    with Running(loop):
        gate.wait_for(1)
        loop.request_stop()
        loop.checkpoint()
    (status,) = office.answers(1)
    office.requests.purge()
    gate.may_end.set()
    operations.resume_by_token(turns, status.resume_token or "")
    with Running(office.loop(work, turns=turns)):
        assert office.outputs(1) == ["done"]


def test_a_turn_that_is_woken_beside_its_message_is_answered_once(
    office: Office, turns: TurnStore
) -> None:
    gate = Gate()

    def work(request: str, turn: Turn) -> str:
        turn.tool("wait", {}, lambda: gate(request), policy=Policy(idempotent=True))
        return "done"

    office.ask("first")
    loop = office.loop(work, turns=turns, name="shop")
    with Running(loop):
        gate.wait_for(1)
        loop.request_stop()
        loop.checkpoint()
    (status,) = office.answers(1)
    operations.resume_by_token(turns, status.resume_token or "")
    with Running(office.loop(work, turns=turns, name="shop", concurrency=2)):
        gate.wait_for(2)
        gate.may_end.set()
        assert office.outputs(1) == ["done"]
        eventually(lambda: office.requests.approximate_count() == 0)
    assert office.replies.approximate_count() == 0
    assert only(turns).due is None


# Draining


def test_a_drain_leaves_a_turn_at_its_next_boundary(
    office: Office, turns: TurnStore, events: Events
) -> None:
    effects: list[str] = []
    begun = threading.Event()

    def work(request: str, turn: Turn) -> str:
        turn.tool("first", {}, lambda: effects.append("first"))
        begun.set()
        eventually(lambda: turn.suspend_requested or effects == ["first", "second"])
        turn.tool("second", {}, lambda: effects.append("second"))
        return "done"

    (asked,) = office.ask("first")
    loop = office.loop(work, turns=turns)
    with Running(loop):
        assert begun.wait(PATIENCE_S)
        # No stop came before: the loop must not take again what it gives back now.
        loop.checkpoint()
    (status,) = office.answers(1)
    assert (status.status, status.request_id) == (TurnStatus.SUSPENDED, asked)
    record = only(turns)
    assert (record.state, effects) == (TurnState.SUSPENDED, ["first"])
    (event,) = events("turn_checkpointed")
    assert (event["turn"], event["checkpoint"]) == (record.id, f"{record.id}@{record.seq}")
    # The message was given back, and nobody counts that.
    effects.append("second")
    message = office.take()
    assert message.delivery_count == 1
    message.release()
    with Running(office.loop(work, turns=turns)):
        assert office.outputs(1) == ["done"]


def test_a_drain_takes_a_turn_that_comes_to_no_boundary(
    office: Office, turns: TurnStore, events: Events
) -> None:
    gate = Gate()
    zombies: list[BaseException] = []

    def work(request: str, turn: Turn) -> str:
        try:
            turn.tool("wait", {}, lambda: gate(request), policy=Policy(idempotent=True))
        except StaleTurn as error:
            zombies.append(error)
            raise
        return "done"

    office.ask("first")
    loop = office.loop(work, turns=turns)
    with Running(loop):
        gate.wait_for(1)
        loop.request_stop()
        loop.checkpoint()
    (status,) = office.answers(1)
    assert status.status is TurnStatus.SUSPENDED
    assert kinds(turns) == [Kind.TOOL_INTENT, Kind.SEAL]
    assert len(events("turn_checkpointed")) == 1
    gate.may_end.set()
    eventually(lambda: zombies)
    assert kinds(turns) == [Kind.TOOL_INTENT, Kind.SEAL]
    with Running(office.loop(work, turns=turns)):
        assert office.outputs(1) == ["done"]
    assert gate.begun == ["first", "first"]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_was_not_begun_is_given_back_without_a_word(
    office: Office, turns: TurnStore, concurrency: int
) -> None:
    gate = Gate()
    office.ask(*"abcd")
    loop = office.loop(gate, turns=turns, concurrency=concurrency)
    with Running(loop):
        gate.wait_for(concurrency)
        loop.request_stop()
        loop.checkpoint()
    statuses = office.answers(concurrency)
    assert {each.status for each in statuses} == {TurnStatus.SUSPENDED}
    assert office.replies.approximate_count() == 0
    assert office.requests.approximate_count() == 4
    gate.may_end.set()


# Coroutines


class Waiting:
    """An adapter for coroutines alone."""

    def __init__(self, scripted: ScriptedAdapter) -> None:
        self._scripted = scripted

    async def answer_async(self, request: Any) -> Any:
        return self._scripted.answer(request)


@pytest.mark.parametrize("is_async", [True, False])
def test_asynchronous_agents_and_tools_are_kept_too(
    office: Office, turns: TurnStore, is_async: bool
) -> None:
    """A coroutine that is a tool is part of its turn, wherever it runs."""
    keys = []

    async def charge(amount: int) -> str:
        effect = current_effect()
        assert effect is not None
        keys.append(effect.key)
        return str(current_turn().attempt)

    def wait() -> str:
        return str(current_turn().wait_for_input("?"))

    scripted = ScriptedAdapter([calls("charge", {"amount": 3}), calls("wait", {}), says("done")])
    adapter: Any = Waiting(scripted) if is_async else scripted
    agent = Tooled(adapter, office, charge, wait, turns=turns)
    assert agent.is_async == is_async
    office.ask("first")
    with Running(agent):
        office.answers(1)
        operations.answer_turn(turns, only(turns).id, "go")
        assert office.outputs(1) == ["done"]
    assert len(keys) == 1
    assert len(scripted.requests) == 3


def test_a_coroutine_that_is_a_loop_uses_the_journal_without_blocking(
    office: Office, turns: TurnStore
) -> None:
    async def work(request: str, turn: Turn) -> str:
        assert turn.journal is not None
        receipt = await turn.journal.tool_async("charge", {}, charge)
        return f"{receipt} {await turn.journal.ask_async('?')}"

    charged = []

    async def charge() -> str:
        charged.append(1)
        return "paid"

    office.ask("first")
    with Running(office.loop(work, turns=turns)):
        office.answers(1)
        operations.answer_turn(turns, only(turns).id, "thanks")
        assert office.outputs(1) == ["paid thanks"]
    assert charged == [1]


def test_a_turn_that_ends_its_process_each_time_is_given_up(memory_office: Office) -> None:
    """The store counts how often it was begun in vain, as a mailbox counts deliveries."""
    clock = FakeClock()
    store = MemoryTurns(clock=clock)
    memory_office.ask("first")
    with Running(memory_office.loop(asks, turns=store, name="shop")):
        memory_office.answers(1)
    operations.answer_turn(store, only(store).id, "go")
    for _ in range(5):
        (claimed,) = store.claim_due("shop", "a process that dies", 1000, 1)
        assert claimed.state is TurnState.RUNNING
        clock.advance(1)
    with Running(memory_office.loop(asks, turns=store, name="shop")):
        (answer,) = memory_office.answers(1)
    assert answer.status is TurnStatus.FAILED
    assert "without an end" in str(answer.error)
    assert only(store).state is TurnState.FAILED


def test_an_end_that_a_dead_process_did_not_tell_is_told_by_the_next(
    office: Office, turns: TurnStore
) -> None:
    office.ask("first")
    with Running(office.loop(asks, turns=turns, name="shop")):
        office.answers(1)
    operations.answer_turn(turns, only(turns).id, "go")
    (claimed,) = turns.claim_due("shop", "a process that dies", 100, 1)
    turns.finish(claimed.claim, Ending(TurnState.DONE, result=b'"an answer"', is_answered=False))
    with Running(office.loop(asks, turns=turns, name="shop")):
        assert office.outputs(1) == ["an answer"]
    assert only(turns).due is None


def test_old_turns_are_deleted_by_a_loop_that_begins_to_run(office: Office) -> None:
    clock = FakeClock()
    store = MemoryTurns(clock=clock)
    office.ask("first", "second")
    with Running(office.loop(str.upper, turns=store)):
        office.answers(2)
    clock.advance(31 * 24 * 3600)
    with Running(office.loop(str.upper, turns=store)):
        eventually(lambda: not store.list())


# Outages


class Failing(MemoryTurns):
    """Cannot be reached at one of its writes, before it is done or after; and then, perhaps, at
    the next questions."""

    def __init__(self, deadly: int, side: str) -> None:
        super().__init__()
        self._left = deadly
        self._side = side
        self._away = 0
        self.has_failed = False

    def append(self, *args: Any) -> TurnRecord:
        return self._failing(super().append, *args)

    def finish(self, *args: Any) -> TurnRecord:
        return self._failing(super().finish, *args)

    def _failing(self, write: Callable[..., TurnRecord], *args: Any) -> TurnRecord:
        self._require_reached()
        self._left -= 1
        if self._left:
            return write(*args)
        self.has_failed = True
        if self._side != "before":
            write(*args)
        self._away = 2 * (self._side == "away")
        raise StoreUnavailable("no database, or no answer")

    def get(self, turn_id: str) -> TurnRecord:
        self._require_reached()
        return super().get(turn_id)

    def _require_reached(self) -> None:
        if self._away:
            self._away -= 1
            raise StoreUnavailable("no database")


@pytest.mark.parametrize("side", ["before", "after", "away"])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_an_outage_of_the_store_loses_nothing_and_repeats_nothing(
    memory_office: Office, number: int, side: str
) -> None:
    store = Failing(number, side)
    faxed = []

    def fax(text: str) -> str:
        faxed.append(text)
        return "sent"

    adapter = ScriptedAdapter([calls("fax", {"text": "hi"}), says("done")])
    memory_office.ask("first")
    with Running(Tooled(adapter, memory_office, fax, turns=store)):
        assert memory_office.outputs(1) == ["done"]
    assert (faxed, len(adapter.requests), store.has_failed) == (["hi"], 2, True)
    assert kinds(store) == [Kind.MODEL, Kind.TOOL_INTENT, Kind.TOOL_DONE, Kind.MODEL]


def test_a_turn_outlasts_an_outage_at_its_beginning(memory_office: Office) -> None:
    class Late(MemoryTurns):
        tries = 0

        def begin(self, *args: Any) -> TurnRecord:
            self.tries += 1
            if self.tries == 1:
                raise StoreUnavailable("no database")
            return super().begin(*args)

    store = Late()
    memory_office.ask("first")
    with Running(memory_office.loop(str.upper, turns=store)):
        assert memory_office.outputs(1) == ["FIRST"]
    assert store.tries == 2


def test_a_turn_outlasts_an_outage_while_its_journal_is_read(memory_office: Office) -> None:
    class Late(MemoryTurns):
        tries = 0

        def read(self, *args: Any) -> Any:
            self.tries += 1
            if self.tries == 1:
                raise StoreUnavailable("no database")
            return super().read(*args)

    store = Late()
    memory_office.ask("first")
    with Running(memory_office.loop(str.upper, turns=store)):
        assert memory_office.outputs(1) == ["FIRST"]
    assert store.tries == 2


def test_what_is_no_request_is_answered_with_what_is_wrong(
    memory_office: Office,
) -> None:
    requests = memory_office.open("raw")
    requests.send({"request": "x", "request_id": 7}, reply_to=memory_office.open("raw-replies"))
    loop = memory_office.loop(str.upper, requests=requests, turns=MemoryTurns())
    loop.run(max_iterations=1, wait_time_seconds=0)
    (message,) = memory_office.open("raw-replies").receive()
    assert "is no request" in message.body["error"]


def test_a_body_that_does_not_fit_leaves_no_turn_so_that_a_redrive_begins_one(
    memory_office: Office,
) -> None:
    store = MemoryTurns()
    (asked,) = memory_office.ask("three")
    numbers = memory_office.open("requests", AgentLoopRequest[int])
    with Running(memory_office.loop(str, requests=numbers, turns=store)):
        (refused,) = memory_office.answers(1)
        eventually(memory_office.requests.dead_letters)
    assert (refused.request_id, "`$.request`" in str(refused.error)) == (asked, True)
    assert store.list() == []
    assert memory_office.requests.redrive() == 1
    with Running(memory_office.loop(str.upper, turns=store)):
        assert memory_office.outputs(1) == ["THREE"]
