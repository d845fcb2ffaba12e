"""Hand-over: who stops leaves its turns to who is ready, at their next boundary; each effect and
each answer is there once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.loops.office import PATIENCE_S, Gate, Office, Running, eventually

from afl.agents.recording import TurnSuspended
from afl.clock import FakeClock
from afl.loops import AgentLoopRequest, Turn, TurnStatus, mailbox_source
from afl.loops.turn_message import message_of
from afl.turns import (
    Ending,
    Kind,
    MemoryTurns,
    NewTurn,
    Pause,
    Policy,
    TurnRecord,
    TurnState,
    TurnStore,
)
from afl.turns.values import encode

Events = Callable[[str], list[dict[str, object]]]

SHOP = "shop"


class Work:
    """Two effects. Between them it waits until the turn is to be left, or may go on here."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.is_waiting = threading.Event()
        self.may_go_on = threading.Event()
        self.is_asked = False

    def __call__(self, request: str, turn: Turn) -> str:
        turn.tool("first", {}, lambda: self.effects.append("first"))
        self.is_waiting.set()
        eventually(lambda: self._is_to_go_on(turn))
        turn.tool("second", {}, lambda: self.effects.append("second"))
        return "done"

    def _is_to_go_on(self, turn: Turn) -> bool:
        self.is_asked = turn.suspend_requested
        return self.may_go_on.is_set() or (self.is_asked and not self.must_be_told)

    #: Then it waits for `may_go_on`, whatever is asked.
    must_be_told = False

    def wait(self) -> None:
        assert self.is_waiting.wait(PATIENCE_S)


def successor(work: Work) -> Callable[[str, Turn], str]:
    """The same code in another process."""

    def run(request: str, turn: Turn) -> str:
        turn.tool("first", {}, lambda: work.effects.append("first again"))
        turn.tool("second", {}, lambda: work.effects.append("second"))
        return "done by the next"

    return run


def only(store: TurnStore) -> TurnRecord:
    (record,) = store.list()
    return record


def kinds(store: TurnStore) -> list[Kind]:
    return [each.kind for each in store.read(only(store).id)]


def is_ready(store: TurnStore, count: int = 1) -> None:
    eventually(lambda: len(store.takers(SHOP)) == count)


_BOTH = [Kind.TOOL_INTENT, Kind.TOOL_DONE]


def test_a_turn_goes_on_with_whoever_is_ready(
    office: Office, turns: TurnStore, events: Events
) -> None:
    work = Work()
    (asked,) = office.ask("first")
    # Longer than anybody here waits: the message comes back by itself no sooner.
    with Running(office.loop(work, turns=turns, name=SHOP, lease_s=300.0)) as old:
        work.wait()
        with Running(office.loop(successor(work), turns=turns, name=SHOP, worker_id="next")):
            is_ready(turns, 2)
            old.stop()
            (answer,) = office.answers(1)
            old.join()
    assert (answer.output, answer.status) == ("done by the next", TurnStatus.DONE)
    assert answer.request_id == asked
    assert work.effects == ["first", "second"]
    assert kinds(turns) == [*_BOTH, Kind.HANDED_OVER, *_BOTH]
    (event,) = events("turn_handed_over")
    assert event["turn"] == only(turns).id
    assert str(event["taker"]).startswith("next/")
    assert encode(event["taker"]) == turns.read(only(turns).id)[2].value
    # Nobody was told anything else, and nothing is left to be done.
    assert events("turn_checkpointed") == []
    assert office.replies.approximate_count() == office.requests.approximate_count() == 0


def test_a_turn_that_the_store_brought_is_handed_over_too(office: Office, turns: TurnStore) -> None:
    work = Work()
    request = AgentLoopRequest("first")
    new = NewTurn(SHOP, encode(request), request.request_id, office.replies.name, is_due=True)
    turns.accept(new)
    with Running(office.loop(work, turns=turns, name=SHOP)) as old:
        work.wait()
        with Running(office.loop(successor(work), turns=turns, name=SHOP)):
            is_ready(turns, 2)
            old.stop()
            old.join()
            eventually(lambda: only(turns).state is TurnState.DONE and only(turns).due is None)
    assert work.effects == ["first", "second"]
    assert kinds(turns) == [*_BOTH, Kind.HANDED_OVER, *_BOTH]


def test_without_a_taker_a_turn_is_finished_where_it_is(
    office: Office, turns: TurnStore, events: Events
) -> None:
    work = Work()
    office.ask("first")
    with Running(office.loop(work, turns=turns, name=SHOP)) as loop:
        work.wait()
        loop.stop()
        eventually(lambda: not turns.takers(SHOP))
        work.may_go_on.set()
        assert office.outputs(1) == ["done"]
        loop.join()
    assert kinds(turns) == [*_BOTH, *_BOTH]
    assert events("turn_handed_over") == []


def test_a_taker_that_comes_during_the_drain_is_noticed(office: Office, turns: TurnStore) -> None:
    work = Work()
    office.ask("first")
    with Running(office.loop(work, turns=turns, name=SHOP)) as old:
        work.wait()
        old.stop()
        eventually(lambda: not turns.takers(SHOP))
        with Running(office.loop(successor(work), turns=turns, name=SHOP)):
            assert office.outputs(1) == ["done by the next"]
            old.join()
    assert kinds(turns) == [*_BOTH, Kind.HANDED_OVER, *_BOTH]


def test_who_has_not_answered_since_the_stop_gets_nothing(
    office: Office, turns: TurnStore, events: Events
) -> None:
    """It may have been killed, or stops as well."""
    work = Work()
    office.ask("first")
    turns.announce(SHOP, "a silent one", 60_000)
    turns.announce("another loop", "nobody here", 60_000)
    with Running(office.loop(work, turns=turns, name=SHOP)) as loop:
        work.wait()
        is_ready(turns, 2)
        loop.stop()
        is_ready(turns, 1)
        work.may_go_on.set()
        assert office.outputs(1) == ["done"]
    assert events("turn_handed_over") == []


def test_a_taker_that_has_gone_before_the_boundary_gets_nothing(
    office: Office, turns: TurnStore, events: Events
) -> None:
    work = Work()
    work.must_be_told = True
    office.ask("first")
    with Running(office.loop(work, turns=turns, name=SHOP)) as loop:
        work.wait()
        loop.stop()
        eventually(lambda: not turns.takers(SHOP))
        turns.announce(SHOP, "a short one", 60_000)
        eventually(lambda: work.is_asked)
        turns.withdraw(SHOP, "a short one")
        eventually(lambda: not work.is_asked)
        work.may_go_on.set()
        assert office.outputs(1) == ["done"]
    assert events("turn_handed_over") == []


def test_a_tool_that_takes_too_long_is_sealed_at_the_deadline_as_before(
    office: Office, turns: TurnStore
) -> None:
    gate = Gate()

    def work(request: str, turn: Turn) -> str:
        turn.tool("wait", {}, lambda: gate(request), policy=Policy(idempotent=True))
        return "done"

    office.ask("first")
    loop = office.loop(work, turns=turns, name=SHOP)
    with Running(loop) as old:
        gate.wait_for(1)
        old.stop()
        turns.announce(SHOP, "the next", 60_000)
        loop.checkpoint()
        old.join()
    (status,) = office.answers(1)
    assert status.status is TurnStatus.SUSPENDED
    assert kinds(turns) == [Kind.TOOL_INTENT, Kind.SEAL]
    gate.may_end.set()
    with Running(office.loop(work, turns=turns, name=SHOP)):
        assert office.outputs(1) == ["done"]


def test_a_loop_is_ready_from_its_first_look_for_work_until_it_is_to_stop(
    office: Office, turns: TurnStore
) -> None:
    work = Work()
    loop = office.loop(work, turns=turns, name=SHOP)
    assert list(turns.takers(SHOP)) == []
    for _ in range(2):
        with Running(loop) as running:
            is_ready(turns)
            running.stop()
            running.join()
            assert list(turns.takers(SHOP)) == []
    # Who makes some polls only is nobody to rely on.
    loop.run(max_iterations=1, wait_time_seconds=0)
    assert list(turns.takers(SHOP)) == []


def test_a_loop_says_again_that_it_is_ready_before_its_lease_is_over(
    memory_office: Office,
) -> None:
    clock = FakeClock()
    store = MemoryTurns(clock=clock)
    with Running(memory_office.loop(Work(), turns=store, name=SHOP, lease_s=15.0)):
        is_ready(store)
        (first,) = store.takers(SHOP)
        # The hand-over, and who looks for due turns.
        clock.wait_for_waiters(2)
        clock.advance(5)
        eventually(lambda: list(store.takers(SHOP, store.now_ms())) == [first])


def test_who_is_asked_answers_at_once(memory_office: Office) -> None:
    """Time stands still for all who would only look again later."""
    store = MemoryTurns(clock=FakeClock())
    work = Work()
    memory_office.ask("first")
    with Running(memory_office.loop(work, turns=store, name=SHOP)) as old:
        work.wait()
        with Running(memory_office.loop(successor(work), turns=store, name=SHOP)):
            is_ready(store, 2)
            old.stop()
            assert memory_office.outputs(1) == ["done by the next"]
            old.join()


def test_an_end_that_comes_before_the_old_one_has_let_go_is_told(memory_office: Office) -> None:
    """Who has left a turn says nothing about it any more."""
    store = MemoryTurns()
    request = AgentLoopRequest("first")
    store.accept(NewTurn(SHOP, encode(request), request.request_id, is_due=True))
    (record,) = store.claim_due(SHOP, "old", 60_000, 1)
    message = message_of(store, record, request, None)
    pause = Pause(TurnState.SUSPENDED, "is handed over", 0, handed_to="next")
    store.pause(record.claim, pause)
    message.is_left = True
    (taken,) = store.claim_due(SHOP, "next", 60_000, 1)
    store.finish(taken.claim, Ending(TurnState.DONE, is_answered=False))
    message.acknowledge()
    assert message.is_finalized
    assert only(store).due is not None, "it is still to be told"


# Mistakes


def test_a_loop_that_tells_of_a_hand_over_is_found(
    monkeypatch: pytest.MonkeyPatch, memory_office: Office, events: Events
) -> None:
    """By the test of the first hand-over above."""

    class Never(TurnSuspended):
        """So that each is told of."""

    monkeypatch.setattr(mailbox_source, "TurnHandedOver", Never)
    with pytest.raises(AssertionError):
        test_a_turn_goes_on_with_whoever_is_ready(memory_office, MemoryTurns(), events)
    memory_office.replies.purge()


def test_a_loop_that_believes_old_announcements_is_found(
    monkeypatch: pytest.MonkeyPatch, memory_office: Office, events: Events
) -> None:
    takers = MemoryTurns.takers

    def all_of_them(self: Any, loop: str, since: int = 0) -> Any:
        return takers(self, loop)

    monkeypatch.setattr(MemoryTurns, "takers", all_of_them)
    store, work = MemoryTurns(), Work()
    memory_office.ask("first")
    store.announce(SHOP, "a silent one", 60_000)
    with Running(memory_office.loop(work, turns=store, name=SHOP)) as loop:
        work.wait()
        loop.stop()
        eventually(lambda: events("turn_handed_over"))
