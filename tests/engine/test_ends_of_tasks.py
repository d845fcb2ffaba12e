"""How tasks end beside their results: retries of handlers, operators who give them up, and results
that are not what was declared."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.rest import check_rest

from afl.clock import FakeClock
from afl.lang.compiler import compile_source
from afl.lang.program import Program
from afl.runtime.claims import RetryPolicy
from afl.runtime.entities import (
    LogDefinition,
    NoteType,
    RunnerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.errors import (
    InvalidStepStateError,
    InvalidTaskStateError,
    StaleFence,
    TaskNotFoundError,
)
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.script_executor import ScriptExecutor
from afl.runtime.types import StepId, WorkflowId
from afl.telemetry import Event, ResultUndeclared, TaskDiscarded, Telemetry

TEXT = """\
namespace t {
    event facet Add(a: Long) => (sum: Long, carry: Boolean)
    event facet Behind(a: Long) => (sum: Long, twice: Long) andThen {
        yield Behind(twice = $.sum * 2)
    }
    workflow Plain() => (r: Json) andThen {
        one = Add(a = 1)
        yield Plain(r = one.sum)
    }
    workflow Retried() => (r: Json) andThen {
        one = Add(a = 1) with afl.Retry(max = 2, backoff = "1s")
        yield Retried(r = one.sum)
    }
    workflow Once() => (r: Json) andThen {
        one = Add(a = 1) with afl.Retry(max = 1)
        yield Once(r = one.sum)
    }
    workflow Caught() => (r: Json) andThen {
        one = Add(a = 1)
        yield Caught(r = one.sum)
    } catch {
        yield Caught(r = "caught")
    }
    workflow Read() => (r: Json) andThen {
        one = Add(a = 1) with afl.Retry(max = 2, backoff = "1s")
    } catch {
        yield Read(r = one.sum)
    }
    event facet Prepared(a: Long) => (sum: Long, carry: Boolean)
        script { result["sum"] = params["a"] + 1 }
    workflow Scripted() => (r: Json) andThen {
        one = Prepared(a = 1) catch { }
        yield Scripted(r = one)
    }
    workflow WithBlocks() => (r: Json) andThen {
        one = Behind(a = 1)
        yield WithBlocks(r = one.twice)
    }
}
"""

#: As a registration may ask.
TWICE = RetryPolicy(max_attempts=3, backoff_ms=2000)


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_source(TEXT)


class Bench:
    """One run, its evaluator, and what is told about it."""

    def __init__(self, store: PersistenceAPI, program: Program, workflow: str) -> None:
        self.store = store
        self.told: list[Event] = []
        telemetry = Telemetry()
        telemetry.subscribe(self.told.append)
        self.evaluator = Evaluator(store, telemetry, scripts=ScriptExecutor())
        self.run_id: WorkflowId = self.evaluator.submit(program, f"t.{workflow}")

    def claim(self) -> TaskDefinition:
        (task,) = self.store.claim_tasks(["Add", "Behind", "Prepared"], 1)
        return task

    def returns(self, task: TaskDefinition) -> dict[str, Any]:
        step = self.store.get_step(StepId(task.step_id))
        assert step is not None
        return {name: each.value for name, each in step.attributes.returns.items()}

    @property
    def task(self) -> TaskDefinition:
        (task,) = self.store.get_all_tasks()
        return task

    @property
    def state(self) -> str:
        run = self.store.get_run(self.run_id)
        assert run is not None
        check_rest(self.store, self.run_id)
        return run.state

    @property
    def error(self) -> str:
        return str(self.evaluator.result(self.run_id).error)

    def warnings(self) -> list[LogDefinition]:
        logs = self.store.get_logs_by_runner(self.run_id)
        return [each for each in logs if each.note_type == NoteType.WARNING]

    def heard(self, kind: type[Event]) -> list[dict[str, Any]]:
        facts = [each.facts() for each in self.told if isinstance(each, kind)]
        return [{name: each[name] for name in each if name != "at"} for each in facts]


# Retries


def test_a_retry_of_the_handler_puts_a_task_back_until_its_tries_are_used_up(
    any_store: PersistenceAPI, program: Program, clock: FakeClock
) -> None:
    bench = Bench(any_store, program, "Plain")
    for wait in (2, 4):
        bench.evaluator.fail_task(bench.claim(), "not now", retry=TWICE)
        assert bench.task.not_before == any_store.now_ms() + wait * 1000
        assert bench.state == RunnerState.RUNNING
        clock.advance(wait)
    bench.evaluator.fail_task(bench.claim(), "not now", retry=TWICE)
    assert (bench.task.state, bench.task.failures) == (TaskState.FAILED, 3)
    assert bench.state == RunnerState.FAILED


def test_what_the_program_asks_goes_before_what_the_handler_asks(
    any_store: PersistenceAPI, program: Program, clock: FakeClock
) -> None:
    bench = Bench(any_store, program, "Retried")
    bench.evaluator.fail_task(bench.claim(), "not now", retry=TWICE)
    assert bench.task.not_before == any_store.now_ms() + 1000
    clock.advance(1)
    bench.evaluator.fail_task(bench.claim(), "not now", retry=TWICE)
    assert bench.state == RunnerState.FAILED


def test_a_program_may_forbid_the_retries_of_a_handler(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Once")
    bench.evaluator.fail_task(bench.claim(), "not now", retry=TWICE)
    assert bench.state == RunnerState.FAILED


def test_nothing_is_retried_that_did_not_ask(any_store: PersistenceAPI, program: Program) -> None:
    bench = Bench(any_store, program, "Plain")
    bench.evaluator.fail_task(bench.claim(), "not now", retry=RetryPolicy())
    assert bench.state == RunnerState.FAILED


# Operators who end steps


def test_a_step_that_asks_nobody_is_given_no_end(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Plain")
    root = any_store.get_workflow_root(bench.run_id)
    assert root is not None
    with pytest.raises(InvalidStepStateError, match=r"expected state\..*EventTransmit"):
        bench.evaluator.continue_step(root.id, {"r": 1})
    with pytest.raises(InvalidStepStateError, match=r"expected state\..*EventTransmit"):
        bench.evaluator.fail_step(root.id, "no")


def test_a_step_that_had_its_result_cannot_fail(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Plain")
    task = bench.claim()
    bench.evaluator.complete_task(task, {"sum": 1, "carry": False})
    bench.evaluator.continue_step(StepId(task.step_id), {"sum": 2, "carry": False})
    with pytest.raises(InvalidStepStateError, match="it had its result before"):
        bench.evaluator.fail_step(StepId(task.step_id), "no")
    assert bench.evaluator.result(bench.run_id).outputs == {"r": 1}


# Parts of results that never came


def test_parts_of_a_failed_attempt_are_no_returns(
    any_store: PersistenceAPI, program: Program, clock: FakeClock
) -> None:
    bench = Bench(any_store, program, "Read")
    for _ in range(2):
        task = bench.claim()
        bench.evaluator.update_step(StepId(task.step_id), {"sum": 42}, fence=task.fence)
        assert bench.returns(task) == {"sum": 42}
        bench.evaluator.fail_task(task, "not now")
        assert bench.returns(task) == {}
        clock.advance(1)
    assert bench.error == ("Attribute 'sum' of step 'one' not found (while handling: not now)")


@pytest.mark.parametrize("how", ["operator", "dead letter", "discarded"])
def test_parts_are_gone_however_the_attempt_was_given_up(
    any_store: PersistenceAPI, program: Program, clock: FakeClock, how: str
) -> None:
    bench = Bench(any_store, program, "Plain")
    task = bench.claim()
    step_id = StepId(task.step_id)
    bench.evaluator.update_step(step_id, {"sum": 42}, order=5)
    if how == "operator":
        bench.evaluator.fail_step(step_id, "no")
    elif how == "dead letter":
        bench.evaluator.dead_letter_task(task, "too often")
    else:
        clock.advance(15)
        bench.evaluator.discard_task(task.uuid, "nobody comes")
    assert bench.returns(task) == {}


def test_the_parts_of_the_next_attempt_begin_anew(
    any_store: PersistenceAPI, program: Program, clock: FakeClock
) -> None:
    bench = Bench(any_store, program, "Retried")
    step_id = StepId(bench.task.step_id)
    for retries in ("declared", "of an operator"):
        task = bench.claim()
        assert bench.evaluator.update_step(step_id, {"part": retries}, order=5)
        assert not bench.evaluator.update_step(step_id, {"part": "late"}, order=4)
        bench.evaluator.fail_task(task, "not now")
        clock.advance(1)
    bench.evaluator.retry_step(step_id)
    task = bench.claim()
    assert bench.evaluator.update_step(step_id, {"carry": True}, order=1)
    bench.evaluator.complete_task(task, {"sum": 1})
    assert bench.returns(task) == {"sum": 1, "carry": True}


def test_what_a_script_in_front_has_left_outlives_an_attempt(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Scripted")
    task = bench.claim()
    assert bench.returns(task) == {"sum": 2}
    bench.evaluator.update_step(StepId(task.step_id), {"sum": 42}, fence=task.fence)
    bench.evaluator.update_step(StepId(task.step_id), {"carry": True}, fence=task.fence)
    bench.evaluator.fail_task(task, "not now")
    assert bench.returns(task) == {"sum": 2}


def test_without_parts_a_failed_attempt_leaves_what_a_script_has_left(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Scripted")
    task = bench.claim()
    bench.evaluator.fail_task(task, "not now")
    assert bench.returns(task) == {"sum": 2}


# Discarding


def test_a_task_that_nobody_will_do_is_ignored_and_its_step_fails(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Plain")
    assert bench.evaluator.discard_task(bench.task.uuid, "there is no handler") is True
    assert bench.task.state == TaskState.IGNORED
    assert bench.state == RunnerState.FAILED
    assert bench.error == "there is no handler"
    assert bench.heard(TaskDiscarded) == [
        {
            "run": bench.run_id,
            "step": bench.task.step_id,
            "facet": "t.Add",
            "reason": "there is no handler",
        }
    ]
    assert bench.evaluator.discard_task(bench.task.uuid, "again") is False


def test_the_catch_of_a_discarded_step_runs(any_store: PersistenceAPI, program: Program) -> None:
    bench = Bench(any_store, program, "Caught")
    bench.evaluator.discard_task(bench.task.uuid)
    assert bench.state == RunnerState.COMPLETED
    assert bench.evaluator.result(bench.run_id).outputs == {"r": "caught"}


def test_a_failed_task_is_seen_and_keeps_its_error(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Plain")
    bench.evaluator.fail_task(bench.claim(), ValueError("no such number"))
    assert bench.evaluator.discard_task(bench.task.uuid, "seen") is True
    assert bench.task.state == TaskState.IGNORED
    assert bench.task.error == {
        "message": "no such number",
        "type": "ValueError",
        "discarded": "seen",
    }
    assert bench.error == "no such number"


def test_a_dead_letter_is_seen_and_can_still_be_retried(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Plain")
    bench.evaluator.dead_letter_task(bench.claim(), "delivered too often")
    assert bench.evaluator.discard_task(bench.task.uuid, "seen") is True
    bench.evaluator.retry_step(StepId(bench.task.step_id))
    assert bench.state == RunnerState.RUNNING
    bench.evaluator.complete_task(bench.claim(), {"sum": 1, "carry": False})
    assert bench.state == RunnerState.COMPLETED


def test_a_task_in_work_is_discarded_only_once_its_lease_has_lapsed(
    any_store: PersistenceAPI, program: Program, clock: FakeClock
) -> None:
    bench = Bench(any_store, program, "Plain")
    claimed = bench.claim()
    with pytest.raises(InvalidTaskStateError, match="drain that worker"):
        bench.evaluator.discard_task(claimed.uuid, "too slow")
    assert bench.state == RunnerState.RUNNING
    clock.advance(15)
    assert bench.evaluator.discard_task(claimed.uuid, "too slow") is True
    with pytest.raises(StaleFence):
        bench.evaluator.complete_task(claimed, {"sum": 1, "carry": False})
    assert bench.error == "too slow"


def test_what_has_ended_well_is_not_discarded(any_store: PersistenceAPI, program: Program) -> None:
    bench = Bench(any_store, program, "Plain")
    bench.evaluator.complete_task(bench.claim(), {"sum": 1, "carry": False})
    assert bench.evaluator.discard_task(bench.task.uuid) is False
    assert bench.task.state == TaskState.COMPLETED


def test_a_task_without_a_run_can_be_discarded(any_store: PersistenceAPI) -> None:
    evaluator = Evaluator(any_store)
    any_store.save_task(TaskDefinition("x", "afl:execute", "", "", "", ""))
    assert evaluator.discard_task("x", "not wanted") is True
    task = any_store.get_task("x")
    assert task is not None
    assert task.state == TaskState.IGNORED
    assert evaluator.discard_task("x", "not wanted") is False
    with pytest.raises(TaskNotFoundError):
        evaluator.discard_task("y", "not wanted")


# Results


@pytest.mark.parametrize(
    ("result", "warning", "missing", "undeclared"),
    [
        ({"sum": 1}, "'carry' is missing", ["carry"], []),
        (
            {"sum": 1, "carry": False, "rest": 2},
            "'rest' is not declared",
            [],
            ["rest"],
        ),
        (
            {"total": 1},
            "'sum' is missing, 'carry' is missing, 'total' is not declared",
            ["sum", "carry"],
            ["total"],
        ),
    ],
    ids=["too little", "too much", "both"],
)
def test_a_result_that_was_not_declared_so_is_a_warning_in_the_log_of_the_run(
    any_store: PersistenceAPI,
    program: Program,
    result: dict[str, Any],
    warning: str,
    missing: list[str],
    undeclared: list[str],
) -> None:
    bench = Bench(any_store, program, "Plain")
    task = bench.claim()
    bench.evaluator.complete_task(task, result)
    (line,) = bench.warnings()
    assert line.message == f"result of t.Add: {warning}"
    assert line.details == {"missing": missing, "undeclared": undeclared}
    assert (line.step_id, line.line) == (task.step_id, 7)
    assert bench.heard(ResultUndeclared) == [
        {
            "run": bench.run_id,
            "step": task.step_id,
            "facet": "t.Add",
            "missing": ", ".join(missing),
            "undeclared": ", ".join(undeclared),
        }
    ]


def test_a_result_that_fits_with_its_parts_leaves_no_line(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "Plain")
    task = bench.claim()
    bench.evaluator.update_step(StepId(task.step_id), {"carry": True}, fence=task.fence)
    bench.evaluator.complete_task(task, {"sum": 1})
    assert bench.state == RunnerState.COMPLETED
    assert bench.warnings() == []


def test_what_blocks_behind_an_event_yield_is_not_missing(
    any_store: PersistenceAPI, program: Program
) -> None:
    bench = Bench(any_store, program, "WithBlocks")
    bench.evaluator.complete_task(bench.claim(), {"sum": 4})
    assert bench.evaluator.result(bench.run_id).outputs == {"r": 8}
    assert bench.warnings() == []
