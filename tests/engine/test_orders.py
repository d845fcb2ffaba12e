"""Whatever the order in which tasks are claimed, lost, given back, tried again and finished, a
program ends the same, and each of its effects is done once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.cases import BY_NAME, CASES
from tests.engine.drill import WORK, Drill, Move
from tests.engine.ledger import Ledger
from tests.engine.profile import examples
from tests.engine.programs import Case

from afl.clock import FakeClock
from afl.runtime.handlers import blocks
from afl.runtime.persistence import PersistenceAPI

moves = st.lists(st.tuples(st.sampled_from(WORK), st.integers(0, 7)), max_size=60)
cases = st.sampled_from(CASES)


@given(case=cases, moves=moves)
@examples(60)
def test_any_order_ends_the_same(
    any_store: PersistenceAPI, clock: FakeClock, ledger: Ledger, case: Case, moves: list[Move]
) -> None:
    drill = Drill(any_store, clock, ledger, case)
    drill.play(moves)
    drill.finish_all()
    drill.check_end()


@given(case=cases, moves=moves, window=st.integers(1, 3))
@examples(30)
def test_any_order_ends_the_same_when_rounds_wait_for_others(
    any_store: PersistenceAPI,
    clock: FakeClock,
    ledger: Ledger,
    case: Case,
    moves: list[Move],
    window: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "FOREACH_WINDOW", window)
        drill = Drill(any_store, clock, ledger, case)
        drill.play(moves)
        drill.finish_all()
        drill.check_end()


@pytest.mark.parametrize("window", [1, 2, blocks.FOREACH_WINDOW])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_last_task_first_and_every_task_lost_once(
    any_store: PersistenceAPI,
    clock: FakeClock,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    case: Case,
    window: int,
) -> None:
    monkeypatch.setattr(blocks, "FOREACH_WINDOW", window)
    drill = Drill(any_store, clock, ledger, case)
    while not drill.is_over:
        drill.play([("claim", 2), ("lapse", 0), ("claim", 2), ("finish", len(drill.held) - 1)])
        drill.move("late", 0)
    drill.check_end()


def test_every_try_of_a_task_has_the_same_key(
    any_store: PersistenceAPI, clock: FakeClock, ledger: Ledger
) -> None:
    drill = Drill(any_store, clock, ledger, BY_NAME["declared retries"])
    drill.finish_all()
    drill.check_end()
    assert sorted(each.deliveries for each in ledger.entries(drill.run_id)) == [1, 3]
