"""An operator pauses, breaks, answers, retries and cancels at any moment among completions: the
run stays at rest, what is over stays over, and what was mended ends as if nothing had been."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.cases import BY_NAME, CASES
from tests.engine.drill import WORK, Move
from tests.engine.ledger import Ledger
from tests.engine.operated import OPERATE, OperatedDrill
from tests.engine.profile import examples
from tests.engine.programs import Case

from afl.clock import FakeClock
from afl.runtime.errors import InvalidStepStateError
from afl.runtime.handlers import blocks
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import StepId

cases = st.sampled_from(CASES)
numbers = st.integers(0, 7)
moves = st.lists(st.tuples(st.sampled_from((*WORK, *OPERATE)), numbers), max_size=40)


@given(case=cases, moves=moves)
@examples(40)
def test_a_run_that_was_interfered_with_and_mended_ends_the_same(
    any_store: PersistenceAPI, clock: FakeClock, ledger: Ledger, case: Case, moves: list[Move]
) -> None:
    drill = OperatedDrill(any_store, clock, ledger, case)
    drill.play(moves)
    drill.finish_all()
    drill.check_end()


@given(case=cases, moves=moves, window=st.integers(1, 3))
@examples(20)
def test_rounds_that_wait_for_others_can_be_mended_too(
    any_store: PersistenceAPI,
    clock: FakeClock,
    ledger: Ledger,
    case: Case,
    moves: list[Move],
    window: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "FOREACH_WINDOW", window)
        drill = OperatedDrill(any_store, clock, ledger, case)
        drill.play(moves)
        drill.finish_all()
        drill.check_end()


@given(case=cases, before=moves, after=moves, number=numbers)
@examples(20)
def test_a_cancelled_run_has_nothing_open_and_takes_nothing_more(
    any_store: PersistenceAPI,
    clock: FakeClock,
    ledger: Ledger,
    case: Case,
    before: list[Move],
    after: list[Move],
    number: int,
) -> None:
    drill = OperatedDrill(any_store, clock, ledger, case)
    drill.play([*before, ("cancel", number), *after])
    drill.finish_all()
    drill.check_end()


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("chain", [("break_step", 0)]),
        ("one event", [("pause", 0), ("break_step", 0), ("mend", 0)]),
        ("several blocks", [("break_step", 0), ("pause", 0), ("mend", 0), ("claim", 2)]),
        ("several blocks", [("pause", 0), ("break_step", 0), ("unpause", 0), ("mend", 0)]),
        ("retries in rounds", [("break_step", 0), ("mend", 0)]),
    ],
    ids=[
        "who is read by one that reads nothing else",
        "that failed while its run was paused",
        "whose run was paused after it failed",
        "whose run went on after it failed",
        "in a round that is not over",
    ],
)
def test_an_operator_retries_a_step(
    any_store: PersistenceAPI, clock: FakeClock, ledger: Ledger, name: str, moves: list[Move]
) -> None:
    drill = OperatedDrill(any_store, clock, ledger, BY_NAME[name])
    drill.play(moves)
    drill.finish_all()
    drill.check_end()


def test_a_foreach_of_which_one_failed_round_was_retried_fails_with_the_error_of_the_other(
    any_store: PersistenceAPI, clock: FakeClock, ledger: Ledger
) -> None:
    drill = OperatedDrill(any_store, clock, ledger, BY_NAME["foreach in order"])
    drill.play([("break_step", 0), ("break_step", 0), *[("claim", 0), ("finish", 0)] * 4])
    assert drill.is_over
    drill.move("mend", 1)
    while not drill.is_over:
        drill.play([("claim", 0), ("finish", 0)])
    assert str(drill.evaluator.result(drill.run_id).error) == "by the operator"
    drill.finish_all()
    drill.check_end()


def test_a_step_whose_event_was_answered_is_not_tried_again(
    any_store: PersistenceAPI, clock: FakeClock, ledger: Ledger
) -> None:
    drill = OperatedDrill(any_store, clock, ledger, BY_NAME["an event with blocks behind it"])
    drill.play([("claim", 0), ("finish", 0)])
    answered = drill.lost[0]
    drill.move("break_step", 0)
    assert drill.is_over
    with pytest.raises(InvalidStepStateError, match="the step again that failed behind it"):
        drill.evaluator.retry_step(StepId(answered.step_id))
    drill.finish_all()
    drill.check_end()
