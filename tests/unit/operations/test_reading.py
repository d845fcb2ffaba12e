"""What is shown of runs: lists of records, one run as a tree, its counts and its log."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from tests.unit.operations.stage import Stage

from afl.errors import UsageError
from afl.operations import reading, runs
from afl.operations.reading import StepView, TaskCounts
from afl.operations.waiting import look
from afl.runtime.entities import LogDefinition, RunnerDefinition


def tree(step: StepView) -> object:
    """Names and states, nested."""
    inner = {each.name: tree(each) for each in step.steps}
    return (step.state, inner) if inner else step.state


def root_of(stage: Stage, run: RunnerDefinition) -> StepView:
    root = reading.detail(stage.store, run).root
    assert root is not None
    return root


def step_of(stage: Stage, run: RunnerDefinition, name: str) -> StepView:
    [found] = [each for each in root_of(stage, run).walk() if each.name == name]
    return found


# Lists


def test_runs_are_listed_newest_first(stage: Stage) -> None:
    first, second = stage.greet(), stage.talk()
    listed = reading.list_runs(stage.store)
    assert [each.run for each in listed] == [second.workflow_id, first.workflow_id]
    assert [each.workflow for each in listed] == ["t.Talk", "t.Greet"]
    assert [each.state for each in listed] == ["running", "completed"]
    assert [each.run for each in reading.list_runs(stage.store, limit=1)] == [second.workflow_id]


@pytest.mark.parametrize("state", ["completed", "running", "failed"])
def test_runs_are_listed_by_their_state(stage: Stage, state: str) -> None:
    stage.greet()
    failing = stage.talk()
    stage.fail()
    stage.talk()
    stage.talk()
    found = reading.list_runs(stage.store, state=state)
    assert {each.state for each in found} == {state}
    assert len(found) == {"completed": 1, "running": 2, "failed": 1}[state]
    if state == "running":
        assert found[0].started is not None
        assert found[1].started is not None
        assert found[0].started > found[1].started
    if state == "failed":
        assert found[0].run == failing.workflow_id
        assert found[0].error is not None
        assert found[0].error["message"] == "nobody knows"


def test_runs_are_listed_by_their_workflow(stage: Stage) -> None:
    stage.greet()
    for _ in range(20):
        stage.talk()
    for name in ("Greet", "t.Greet"):
        assert len(reading.list_runs(stage.store, workflow=name, limit=2)) == 1
    assert reading.list_runs(stage.store, workflow="reet") == []


def test_a_state_that_does_not_exist_is_refused_with_those_that_do(stage: Stage) -> None:
    with pytest.raises(UsageError, match=r"no state 'done'; use one of .*completed"):
        reading.list_runs(stage.store, state="done")


def test_a_run_takes_time_until_it_is_over(stage: Stage) -> None:
    run = stage.talk()
    stage.clock.advance(59)
    [listed] = reading.list_runs(stage.store)
    assert (listed.duration_s, listed.ended) == (60.0, None)
    runs.cancel(stage.evaluator, run.workflow_id)
    stage.clock.advance(100)
    [listed] = reading.list_runs(stage.store)
    assert listed.duration_s == 60.0
    assert listed.started is not None
    assert listed.ended == listed.started + timedelta(seconds=60)


# One run


def test_a_run_is_a_tree_of_its_steps(stage: Stage) -> None:
    run = stage.talk("a", "b")
    stage.answer("one")
    assert tree(root_of(stage, run)) == (
        "running",
        {
            "andThen:0": (
                "running",
                {"first": "completed", "second": "waiting", "_sys_2": "completed"},
            ),
            "andThen:1": (
                "running",
                {
                    "round:0": ("running", {"asked": "waiting"}),
                    "round:1": ("running", {"asked": "waiting"}),
                },
            ),
        },
    )
    first = step_of(stage, run, "first")
    assert (first.facet, first.task) == ("t.Ask", "completed")
    assert (first.inputs, first.outputs) == ({"question": "first?"}, {"answer": "one"})


def test_a_claimed_step_is_running(stage: Stage) -> None:
    run = stage.talk()
    stage.claim()
    first = step_of(stage, run, "first")
    assert (first.state, first.attempts) == ("running", 1)


def test_failed_steps_say_why_and_those_behind_them_were_not_run(stage: Stage) -> None:
    run = stage.talk()
    stage.fail("the line is dead")
    first, second = step_of(stage, run, "first"), step_of(stage, run, "second")
    assert (first.state, first.attempts) == ("failed", 1)
    assert first.error is not None
    assert first.error["message"] == "the line is dead"
    assert second.state == "not run"


def test_a_run_has_its_inputs_and_outputs(stage: Stage) -> None:
    found = reading.detail(stage.store, stage.greet("Bob"))
    assert (found.inputs, found.outputs) == ({"name": "Bob"}, {"text": "Hello Bob"})


def test_attempts_count_failures_and_workers_that_died(stage: Stage) -> None:
    stage.talk()
    task = stage.claim()
    stage.clock.advance(60)
    task = stage.claim()
    assert reading.attempts(task) == 2
    stage.evaluator.fail_task(task, "no")
    stored = stage.store.get_task(task.uuid)
    assert stored is not None
    assert reading.attempts(stored) == 2
    runs.retry(stage.evaluator, task.step_id)
    stored = stage.store.get_task(task.uuid)
    assert stored is not None
    assert reading.attempts(stored) == 0


def test_a_step_began_and_ended_and_so_did_what_it_is_in(stage: Stage) -> None:
    run = stage.talk()
    first = step_of(stage, run, "first")
    assert (first.started, first.ended) == (reading.moment(run.start_time), None)
    stage.clock.advance(4)
    stage.answer("one")
    first, root = step_of(stage, run, "first"), root_of(stage, run)
    assert first.ended == reading.moment(stage.store.now_ms())
    assert root.ended is None
    stage.clock.advance(2)
    stage.answer("two")
    bars = {each.name: each for each in reading.timeline(root_of(stage, run))}
    assert [each.depth for each in bars.values()][:3] == [0, 1, 2]
    assert bars["first"].ended == first.ended
    now = reading.moment(stage.store.now_ms())
    assert bars["andThen:0"].ended == bars["second"].ended == now
    assert bars["andThen:0"].state == "completed"


# Lists in pages


def test_runs_come_in_pages(stage: Stage) -> None:
    made = [stage.greet().workflow_id for _ in range(5)]
    first = reading.run_page(stage.store, limit=3)
    assert [each.run for each in first.runs] == made[:1:-1]
    second = reading.run_page(stage.store, limit=3, cursor=first.cursor)
    assert [each.run for each in second.runs] == made[1::-1]
    assert second.cursor is None


@pytest.mark.parametrize("text", ["t.Gr", "greet", "Greet", "t.greet"])
def test_runs_are_found_by_the_beginning_of_their_workflow(stage: Stage, text: str) -> None:
    greeting, _other = stage.greet(), stage.talk()
    page = reading.run_page(stage.store, text=text)
    assert [each.run for each in page.runs] == [greeting.workflow_id]


def test_runs_are_found_by_the_beginning_of_their_id(stage: Stage) -> None:
    wanted, _other = stage.talk(), stage.talk()

    def found(text: str, **more: str) -> list[str]:
        return [each.run for each in reading.run_page(stage.store, text=text, **more).runs]  # type: ignore[arg-type]

    assert found(wanted.workflow_id[:9]) == [wanted.workflow_id]
    assert found(wanted.workflow_id[:9], workflow="Talk") == [wanted.workflow_id]
    assert found(wanted.workflow_id[:9], workflow="Greet") == []
    assert found(wanted.workflow_id[:9], state="failed") == []
    assert found(wanted.workflow_id[:3]) == []
    assert found("eet") == []


# How far it has come


def test_tasks_are_counted(stage: Stage) -> None:
    run = stage.talk("a", "b", "c")
    stage.fail()
    stage.answer("one")
    stage.claim()
    counts = look(stage.store, run).counts
    assert counts == TaskCounts(done=1, failed=1, running=1, waiting=1)
    assert str(counts) == "1 done, 1 running, 1 waiting, 1 failed"


# Its log


def test_each_line_of_a_log_is_read_once(stage: Stage) -> None:
    run = stage.talk()
    reader = reading.LogReader(stage.store, run)
    assert reader.news() == []
    stage.answer("one")
    stage.answer("two")
    [line] = reader.news()
    assert (line.message, line.level, line.originator) == ("first: one", "info", "workflow")
    assert reader.news() == []
    # A slow clock elsewhere: the line comes late and stands before the other one.
    stage.store.save_log(LogDefinition("early", 1, run.uuid, message="early", time=1))
    assert [each.message for each in reader.news()] == ["early"]


def test_a_log_is_followed_line_by_line_without_looking_in_between(stage: Stage) -> None:
    run = stage.talk()
    lines = reading.LogReader(stage.store, run).follow()
    answering = threading.Thread(target=stage.answer_all, args=("one", "two"))
    stage.store.save_log(LogDefinition("line", 1, run.uuid, message="begun"))
    assert next(lines).message == "begun"
    answering.start()
    # The clock stands still: only announcements end these waits.
    assert [each.message for each in lines] == ["first: one"]
    answering.join()


def test_a_log_is_followed_until_it_is_told_to_stop(stage: Stage) -> None:
    stop = threading.Event()
    lines = reading.LogReader(stage.store, stage.talk()).follow(stop)
    stop.set()
    assert list(lines) == []


def test_a_log_is_followed_to_the_end_of_the_run(stage: Stage) -> None:
    run = stage.talk()
    lines = reading.LogReader(stage.store, run).follow()
    stage.answer("one")
    stage.answer("two")
    assert [each.message for each in lines] == ["first: one"]
