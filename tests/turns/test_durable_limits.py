"""Turns that do not come to an end: how often they are tried, and who is heard meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.loops.office import Gate, Office, Running, eventually

from afl.backoff import Backoff
from afl.clock import FakeClock
from afl.loops import Turn, TurnStatus
from afl.mailbox import DLQPolicy
from afl.operations import turns as operations
from afl.turns import MemoryTurns, TurnRecord, TurnState, TurnStore
from afl.turns import Turn as JournaledTurn

POLICY: DLQPolicy[Any] = DLQPolicy(
    max_delivery_count=3, backoff=Backoff(initial=0.001, maximum=0.001)
)


Work = Callable[[Turn | JournaledTurn, int], None]


def ended_turn(store: TurnStore, record: TurnRecord) -> TurnRecord:
    eventually(lambda: store.get(record.id).state.is_end)
    return store.get(record.id)


def nothing(turn: Turn | JournaledTurn, number: int) -> None:
    pass


def remarks(turn: Turn | JournaledTurn, number: int) -> None:
    turn.note(f"attempt {number}")
    turn.remember({"attempt": number})


def models(turn: Turn | JournaledTurn, number: int) -> None:
    """Each attempt gets further than the last one."""
    for each in range(number):
        turn.model(lambda: each)  # noqa: B023


def tools(turn: Turn | JournaledTurn, number: int) -> None:
    for each in range(number):
        turn.tool("look", {"at": each}, lambda: "seen")


@pytest.mark.parametrize("work", [nothing, remarks, models, tools])
def test_a_turn_that_fails_each_time_is_given_up(
    office: Office, turns: TurnStore, work: Work
) -> None:
    attempts: list[int] = []

    def fail(request: str, turn: Turn) -> None:
        attempts.append(len(attempts) + 1)
        work(turn, attempts[-1])
        raise ValueError("always")

    record = operations.submit_turn(turns, "shop", "first")
    with Running(office.loop(fail, turns=turns, name="shop", dlq=POLICY)):
        ended = ended_turn(turns, record)
    assert (ended.state, attempts) == (TurnState.FAILED, [1, 2, 3])
    assert ended.reason == "given up after 3 deliveries: always"


def test_a_turn_that_gets_further_each_time_may_lose_any_number_of_processes(
    memory_office: Office,
) -> None:
    clock = FakeClock()
    store = MemoryTurns(clock=clock)
    record = operations.submit_turn(store, "shop", "first")
    for number in range(1, 10):
        (claimed,) = store.claim_due("shop", "a process that dies", 1000, 1)
        assert claimed.barren == 1
        models(_journal(store, claimed), number)
        clock.advance(1)

    def work(request: str, turn: Turn) -> str:
        models(turn, 9)
        return "done"

    with Running(memory_office.loop(work, turns=store, name="shop", dlq=POLICY)):
        ended = ended_turn(store, record)
    assert ended.state is TurnState.DONE


def test_remarks_do_not_save_a_turn_that_ends_its_process(memory_office: Office) -> None:
    clock = FakeClock()
    store = MemoryTurns(clock=clock)
    record = operations.submit_turn(store, "shop", "first")
    for number in range(3):
        (claimed,) = store.claim_due("shop", "a process that dies", 1000, 1)
        _journal(store, claimed).note(f"attempt {number}")
        clock.advance(1)
    with Running(memory_office.loop(_never, turns=store, name="shop", dlq=POLICY)):
        ended = ended_turn(store, record)
    assert ended.state is TurnState.FAILED
    assert "seems to end the process" in ended.reason


def test_an_answer_that_comes_while_a_turn_is_done_again_ends_its_wait(
    office: Office, turns: TurnStore
) -> None:
    gate = Gate()

    def ask(request: str, turn: Turn) -> Any:
        gate(request)
        return turn.wait_for_input("ok?")

    gate.may_end.set()
    office.ask("first")
    with Running(office.loop(ask, turns=turns)):
        (status,) = office.answers(1)
        gate.may_end.clear()
        operations.resume_by_token(turns, status.resume_token or "")
        gate.wait_for(2)
        (record,) = turns.list()
        operations.answer_turn(turns, record.id, "yes")
        gate.may_end.set()
        found = office.answers(2)
    assert [each.status for each in found] == [TurnStatus.SUSPENDED, TurnStatus.DONE]
    assert found[-1].output == "yes"


def _journal(store: TurnStore, record: TurnRecord) -> JournaledTurn:
    return JournaledTurn(store, record)


def _never(request: str) -> None:
    raise AssertionError("it is not begun any more")
