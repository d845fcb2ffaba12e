"""People who act while the turn is being done: what they were thanked for counts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.turns.life import Life

from afl.turns import AlreadyAnswered, Kind, Outcome, Turn, TurnState, TurnSuspended


def ask(turn: Turn) -> Any:
    return turn.wait_for_input("ok?")


def ask_for_a_minute(turn: Turn) -> Any:
    return turn.wait_for_input("ok?", timeout_s=60, default="nobody said")


@pytest.mark.parametrize("work", [ask, ask_for_a_minute])
def test_an_answer_that_comes_while_the_turn_comes_back_to_its_question_is_heard(
    life: Life, work: Any
) -> None:
    with pytest.raises(TurnSuspended):
        work(life.begin())
    turn = life.wake()
    life.store.give_input(life.id, "", b'"yes"')
    with pytest.raises(TurnSuspended):
        work(turn)
    record = life.store.get(life.id)
    assert (record.state, record.due) == (TurnState.WAITING, life.store.now_ms())
    assert work(life.begin()) == "yes"


def test_it_is_heard_after_other_work_too(life: Life) -> None:
    """The turn writes behind the answer, of which it does not know."""

    def work(turn: Turn) -> Any:
        if len(life.kinds()) > 1:
            turn.note("another remark")
        return ask(turn)

    with pytest.raises(TurnSuspended):
        work(life.begin())
    turn = life.wake()
    life.store.give_input(life.id, "", b'"yes"')
    with pytest.raises(TurnSuspended):
        work(turn)
    assert life.kinds() == [Kind.INPUT_ASKED, Kind.INPUT_GIVEN, Kind.NOTE]
    assert work(life.begin()) == "yes"


def test_a_turn_that_knows_the_answer_waits_for_the_next_one(life: Life) -> None:
    """It does not go round in circles."""
    with pytest.raises(TurnSuspended):
        ask(life.begin())
    life.store.give_input(life.id, "", b'"yes"')
    turn = life.begin()
    assert ask(turn) == "yes"
    with pytest.raises(TurnSuspended):
        ask(turn)
    assert life.store.get(life.id).due is None


def test_an_answer_that_comes_before_the_expiry_is_noticed_is_the_answer(life: Life) -> None:
    with pytest.raises(TurnSuspended):
        ask_for_a_minute(life.begin())
    life.clock.advance(60)
    turn = life.begin()
    life.store.give_input(life.id, "", b'"yes"')
    assert ask_for_a_minute(turn) == "yes"
    assert life.kinds() == [Kind.INPUT_ASKED, Kind.INPUT_GIVEN]
    assert ask_for_a_minute(life.begin()) == "yes"


def test_who_answers_after_the_expiry_is_told_so(life: Life) -> None:
    with pytest.raises(TurnSuspended):
        ask_for_a_minute(life.begin())
    life.clock.advance(60)
    assert ask_for_a_minute(life.begin()) == "nobody said"
    with pytest.raises(AlreadyAnswered):
        life.store.give_input(life.id, "", b'"yes"')
    assert ask_for_a_minute(life.begin()) == "nobody said"


@pytest.mark.parametrize(
    ("outcome", "done"), [(Outcome.DONE, ["paid"]), (Outcome.AGAIN, ["paid", "paid again"])]
)
def test_a_settlement_that_comes_while_the_turn_comes_back_to_its_effect_is_heard(
    life: Life, outcome: Outcome, done: list[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("charge", {}, life.crashes("paid"))
    with pytest.raises(TurnSuspended):
        life.begin().tool("charge", {}, life.does("never"))
    turn = life.wake()
    life.store.settle(life.id, "", outcome, b'"paid again"')
    with pytest.raises(TurnSuspended):
        turn.tool("charge", {}, life.does("never"))
    assert life.store.get(life.id).due == life.store.now_ms()
    assert life.begin().tool("charge", {}, life.does("paid again")) == "paid again"
    assert life.done == done
