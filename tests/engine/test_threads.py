"""Threads of one process that finish tasks of one run in the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pytest
from tests.engine.cases import BY_NAME, CASES, check_result, expected
from tests.engine.ledger import Ledger
from tests.engine.programs import Case
from tests.engine.rest import check_rest, shape_of
from tests.engine.worker import NAMES, finish

from afl.clock import FakeClock
from afl.runtime.entities import TaskDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

T = TypeVar("T")

#: As many as a run of the set has tasks at once, twice.
THREADS = 20


def start(evaluator: Evaluator, case: Case) -> WorkflowId:
    return evaluator.submit(case.program, case.workflow, case.inputs)


def check_end(evaluator: Evaluator, case: Case, run_id: WorkflowId, ledger: Ledger) -> None:
    store = evaluator.persistence
    check_rest(store, run_id)
    check_result(case, evaluator.result(run_id))
    assert shape_of(store, run_id) == expected(case.name).shape
    ledger.check(case.name, run_id)


def at_once(actions: Sequence[Callable[[], T]]) -> list[T]:
    """Do all of them in the same moment."""
    barrier = threading.Barrier(len(actions))

    def do(action: Callable[[], T]) -> T:
        barrier.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(do, actions))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_that_come_at_once_and_twice_count_once(
    any_store: PersistenceAPI, clock: FakeClock, ledger: Ledger, case: Case
) -> None:
    # Two of them, as two processes have: they share nothing but the store.
    evaluators = (Evaluator(any_store), Evaluator(any_store))
    run_id = start(evaluators[0], case)

    while tasks := any_store.claim_tasks(NAMES, THREADS // 2):
        for task in tasks:
            ledger.deliver(task)
        actions = [partial(was_taken, each, task) for task in tasks for each in evaluators]
        taken = at_once(actions)
        assert [sum(pair) for pair in zip(taken[::2], taken[1::2], strict=True)] == [1] * len(tasks)
        check_rest(any_store, run_id)
        clock.advance(1)
    check_end(evaluators[0], case, run_id, ledger)


def was_taken(evaluator: Evaluator, task: TaskDefinition) -> bool:
    try:
        finish(evaluator, task)
    except StaleFence:
        return False
    return True


def test_threads_that_race_for_the_tasks_of_many_runs_do_each_once(
    any_store: PersistenceAPI, ledger: Ledger, ledger_port: int
) -> None:
    evaluator = Evaluator(any_store)
    runs = [(case, start(evaluator, case)) for case in CASES]

    def work() -> None:
        own = Ledger(ledger_port)
        while any_store.get_runners_by_state("running"):
            for task in any_store.claim_tasks(NAMES, 2):
                own.deliver(task)
                finish(evaluator, task)
        own.close()

    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(work) for _ in range(6)]:
            each.result()
    for case, run_id in runs:
        check_end(evaluator, case, run_id, ledger)


def test_threads_that_submit_the_same_key_at_once_get_the_same_run(
    any_store: PersistenceAPI,
) -> None:
    case = BY_NAME["one event"]

    def submit() -> WorkflowId:
        return Evaluator(any_store).submit(case.program, case.workflow, case.inputs, key="once")

    assert len(set(at_once([submit] * 8))) == 1
    assert len(any_store.get_all_runners()) == 1
    assert len(any_store.get_pending_tasks()) == 1


def test_a_cancel_among_results_that_come_at_once_leaves_nothing_open(
    any_store: PersistenceAPI,
) -> None:
    case = BY_NAME["wide and joined"]
    evaluator = Evaluator(any_store)
    for number in range(10):
        run_id = start(evaluator, case)
        while len(tasks := any_store.claim_tasks(NAMES, THREADS)) < 5:
            for task in tasks:
                finish(evaluator, task)
        actions: list[Callable[[], bool]] = [partial(was_taken, evaluator, each) for each in tasks]
        actions.insert(number % len(actions), partial(evaluator.cancel, run_id))
        at_once(actions)
        check_rest(any_store, run_id)
        assert str(evaluator.result(run_id).error) == "the run was cancelled"
        assert not any(was_taken(evaluator, each) for each in tasks)
