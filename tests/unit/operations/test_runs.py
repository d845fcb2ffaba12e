"""Runs are started, looked at, acted on and removed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from afl import compile_source
from afl.clock import FakeClock
from afl.errors import UsageError
from afl.lang.program import UnknownWorkflow
from afl.operations import runs
from afl.operations.inputs import InvalidInputs
from afl.runtime.entities import RunnerState
from afl.runtime.errors import RunNotFoundError
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import WorkflowId

DAY_S = 24 * 3600

PROGRAM = compile_source("""
namespace t

event facet Ask(question: String) => (answer: String)

workflow Greet(name: String) => (text: String) andThen {
    yield Greet(text = "Hello " ++ $.name)
}

workflow Wait() => (text: String) andThen {
    asked = Ask(question = "?")
    yield Wait(text = asked.answer)
}
""")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryStore]:
    store = MemoryStore(clock)
    yield store
    store.close()


@pytest.fixture
def evaluator(store: MemoryStore) -> Evaluator:
    return Evaluator(store)


def greet(evaluator: Evaluator, name: str = "Ada", key: str | None = None) -> WorkflowId:
    return runs.submit(evaluator, PROGRAM, "Greet", {"name": name}, key=key)


def wait(evaluator: Evaluator) -> WorkflowId:
    return runs.submit(evaluator, PROGRAM, "Wait")


def answer(store: MemoryStore, evaluator: Evaluator, text: str) -> None:
    [task] = store.claim_tasks(["t.Ask"], 1)
    evaluator.complete_task(task, {"answer": text})


def test_what_needs_nobody_is_over_at_once(store: MemoryStore, evaluator: Evaluator) -> None:
    run = greet(evaluator)
    assert runs.result(store, evaluator, run, timeout=0) == {"text": "Hello Ada"}
    assert runs.status(store, run).state == RunnerState.COMPLETED


def test_wrong_inputs_start_nothing(store: MemoryStore, evaluator: Evaluator) -> None:
    with pytest.raises(InvalidInputs, match="name: is missing"):
        runs.submit(evaluator, PROGRAM, "Greet", {"nam": "Ada"})
    with pytest.raises(UnknownWorkflow):
        runs.submit(evaluator, PROGRAM, "Great", {})
    assert store.get_all_runners() == []


def test_the_same_key_is_the_same_run(store: MemoryStore, evaluator: Evaluator) -> None:
    assert greet(evaluator, key="k") == greet(evaluator, key="k")
    assert len(store.get_all_runners()) == 1
    with pytest.raises(UsageError, match="other inputs"):
        greet(evaluator, "Bob", key="k")


def test_a_result_is_waited_for(store: MemoryStore, evaluator: Evaluator) -> None:
    run = wait(evaluator)
    later = threading.Thread(target=answer, args=(store, evaluator, "42"))
    later.start()
    assert runs.result(store, evaluator, run) == {"text": "42"}
    later.join()


def test_a_result_that_does_not_come_is_a_timeout(store: MemoryStore, evaluator: Evaluator) -> None:
    run = wait(evaluator)
    with pytest.raises(TimeoutError, match=f"run {run} is not over after 0s; it goes on"):
        runs.result(store, evaluator, run, timeout=0)


def test_a_failed_run_says_why_and_where(store: MemoryStore, evaluator: Evaluator) -> None:
    run = wait(evaluator)
    [task] = store.claim_tasks(["t.Ask"], 1)
    evaluator.fail_task(task, ValueError("nobody knows"))
    with pytest.raises(runs.RunFailed, match="nobody knows") as caught:
        runs.result(store, evaluator, run)
    assert caught.value.error["type"] == "ValueError"
    assert caught.value.error["line"] == 11


def test_a_failed_step_can_be_tried_again(store: MemoryStore, evaluator: Evaluator) -> None:
    run = wait(evaluator)
    [task] = store.claim_tasks(["t.Ask"], 1)
    evaluator.fail_task(task, "no")
    runs.retry(evaluator, task.step_id)
    answer(store, evaluator, "yes")
    assert runs.result(store, evaluator, run) == {"text": "yes"}


CHAIN = compile_source("""
namespace t

event facet Ask(question: String) => (answer: String)

workflow Chain() => (text: String) andThen {
    first = Ask(question = "?")
    second = Ask(question = first.answer)
    third = Ask(question = second.answer)
    fourth = Ask(question = third.answer)
    yield Chain(text = fourth.answer)
}
""")


def test_all_that_was_not_run_goes_on_behind_a_retried_step(
    store: MemoryStore, evaluator: Evaluator
) -> None:
    run = runs.submit(evaluator, CHAIN, "Chain")
    [task] = store.claim_tasks(["t.Ask"], 1)
    evaluator.fail_task(task, "no")
    assert runs.retry_failed(store, evaluator, run).retried == (task.step_id,)
    for text in ("one", "two", "three", "four"):
        answer(store, evaluator, text)
    assert runs.result(store, evaluator, run) == {"text": "four"}


def test_a_run_without_failed_tasks_is_not_tried_again(
    store: MemoryStore, evaluator: Evaluator
) -> None:
    with pytest.raises(UsageError, match=r"is running and has no failed tasks to try again$"):
        runs.retry_failed(store, evaluator, wait(evaluator))
    with pytest.raises(UsageError, match=r"is completed and has .*; submit it again"):
        runs.retry_failed(store, evaluator, greet(evaluator))


def test_a_cancelled_run_says_why_it_is_not_tried_again(
    store: MemoryStore, evaluator: Evaluator
) -> None:
    run = runs.submit(evaluator, CHAIN, "Chain")
    [task] = store.claim_tasks(["t.Ask"], 1)
    evaluator.fail_task(task, "no")
    runs.retry(evaluator, task.step_id)
    assert runs.cancel(evaluator, run) is True
    assert runs.cancel(evaluator, run) is False
    with pytest.raises(UsageError, match="is cancelled and has no failed tasks"):
        runs.retry_failed(store, evaluator, run)


def test_a_run_can_be_cancelled(store: MemoryStore, evaluator: Evaluator) -> None:
    run = wait(evaluator)
    runs.cancel(evaluator, run)
    with pytest.raises(runs.RunCancelled):
        runs.result(store, evaluator, run)


def test_a_paused_run_lends_no_tasks(store: MemoryStore, evaluator: Evaluator) -> None:
    run = wait(evaluator)
    runs.pause(evaluator, run)
    assert store.claim_tasks(["t.Ask"], 1) == []
    runs.unpause(evaluator, run)
    answer(store, evaluator, "at last")
    assert runs.result(store, evaluator, run) == {"text": "at last"}


def test_a_run_that_is_not_there_is_said(store: MemoryStore, evaluator: Evaluator) -> None:
    with pytest.raises(RunNotFoundError):
        runs.status(store, "nowhere")
    with pytest.raises(RunNotFoundError):
        runs.result(store, evaluator, "nowhere")


def test_the_program_of_a_run_is_kept_with_it(store: MemoryStore, evaluator: Evaluator) -> None:
    assert runs.program_of(store, runs.status(store, greet(evaluator))) == PROGRAM


# Removing


def test_old_runs_are_removed_and_others_stay(
    store: MemoryStore, evaluator: Evaluator, clock: FakeClock
) -> None:
    old, waiting = greet(evaluator), wait(evaluator)
    clock.advance(20 * DAY_S)
    fresh = greet(evaluator)
    clock.advance(11 * DAY_S)
    assert [each.workflow_id for each in runs.prunable(store, "30d")] == [old]
    report = runs.prune(store, "30d")
    assert report.runs == 1
    assert report.steps > 0
    assert {each.workflow_id for each in store.get_all_runners()} == {waiting, fresh}


def test_never_keeps_all(store: MemoryStore, evaluator: Evaluator, clock: FakeClock) -> None:
    greet(evaluator)
    clock.advance(10_000 * DAY_S)
    assert runs.prunable(store, "never") == []
    assert runs.prune(store, "never").runs == 0


def test_a_run_may_say_itself_how_long_it_is_kept(
    store: MemoryStore, evaluator: Evaluator, clock: FakeClock
) -> None:
    kept, short = greet(evaluator, "kept"), greet(evaluator, "short")
    for run, retain in ((kept, -1), (short, 1000)):
        record = runs.status(store, run)
        record.retain = retain
        store.save_runner(record)
    clock.advance(100 * DAY_S)
    assert [each.workflow_id for each in runs.prunable(store, "never")] == [short]
    assert runs.prune(store, "30d").runs == 1
    assert [each.workflow_id for each in store.get_all_runners()] == [kept]


@pytest.mark.parametrize(("limit", "left"), [(0, 250), (1, 249), (150, 100), (None, 0)])
def test_removal_can_be_bounded(
    store: MemoryStore, evaluator: Evaluator, clock: FakeClock, limit: int | None, left: int
) -> None:
    for _ in range(250):
        greet(evaluator)
    clock.advance(DAY_S)
    assert runs.prune(store, "1h", limit=limit).runs == 250 - left
    assert len(runs.prunable(store, "1h")) == left
