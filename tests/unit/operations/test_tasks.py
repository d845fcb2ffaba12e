"""Tasks are listed, mended and given up; those that nobody can do are told apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.operations.stage import Stage

from afl.errors import UsageError
from afl.operations import handlers, tasks
from afl.runtime.entities import HandlerRegistration, ServerState, TaskDefinition, TaskState
from afl.runtime.errors import InvalidStepStateError, InvalidTaskStateError, TaskNotFoundError
from afl.runtime.listing import Count
from afl.runtime.own_lists import own_task_list
from afl.runtime.types import WorkflowId


def unserved(stage: Stage) -> list[str]:
    return [each.name for each in tasks.unserved(stage.store)]


# Who can do what


def test_a_task_that_nobody_can_do_is_unserved(stage: Stage) -> None:
    stage.talk()
    assert unserved(stage) == ["t.Ask"]
    [listed] = tasks.list_tasks(stage.store, only_unserved=True)
    assert (listed.facet, listed.is_unserved) == ("t.Ask", True)


@pytest.mark.parametrize("name", ["t.Ask", "Ask"])
def test_a_registration_serves_by_its_full_or_short_name(stage: Stage, name: str) -> None:
    stage.talk()
    stage.store.register_handler(name, "handlers")
    assert unserved(stage) == []
    handlers.enable(stage.store, name, is_enabled=False)
    assert unserved(stage) == ["t.Ask"]


def test_another_name_serves_nothing(stage: Stage) -> None:
    stage.talk()
    stage.store.register_handler("other.Ask", "handlers")
    stage.server(handlers=["t.Tell"])
    assert unserved(stage) == ["t.Ask"]


def test_a_server_serves_while_it_is_alive(stage: Stage) -> None:
    stage.talk()
    stage.server(handlers=["t.Ask"])
    assert unserved(stage) == []
    stage.clock.advance(31)
    assert unserved(stage) == ["t.Ask"]


@pytest.mark.parametrize("state", [ServerState.SHUTDOWN, ServerState.ERROR])
def test_a_server_that_has_ended_serves_nothing(stage: Stage, state: ServerState) -> None:
    stage.talk()
    stage.server(handlers=["t.Ask"], state=state)
    assert unserved(stage) == ["t.Ask"]


def test_a_server_serves_its_own_task_list_only(stage: Stage) -> None:
    stage.talk(task_list="gpu")
    stage.server(handlers=["t.Ask"])
    assert unserved(stage) == ["t.Ask"]
    stage.server("server-2", handlers=["t.Ask"], task_list="gpu")
    assert unserved(stage) == []


def test_a_task_of_a_run_in_one_process_belongs_to_that_process(stage: Stage) -> None:
    stage.talk(task_list=own_task_list())
    assert unserved(stage) == []


@pytest.mark.parametrize("name", ["afl:execute", "afl:resume", "afl:script"])
def test_a_task_of_the_runtime_is_served_by_servers_that_say_so(stage: Stage, name: str) -> None:
    stage.store.save_task(TaskDefinition("x", name, "", "", "", ""))
    stage.server(handlers=["t.Ask"])
    assert unserved(stage) == [name]
    assert [each.is_unserved for each in tasks.queues(stage.store)] == [True]
    stage.server("server-2", handlers=[name])
    assert unserved(stage) == []
    assert [each.is_unserved for each in tasks.queues(stage.store)] == [False]


def test_what_is_not_pending_is_not_unserved(stage: Stage) -> None:
    stage.talk()
    stage.claim()
    assert unserved(stage) == []
    [listed] = tasks.list_tasks(stage.store)
    assert listed.is_unserved is False


# Lists


def test_tasks_are_listed_by_state_facet_and_list(stage: Stage) -> None:
    stage.talk()
    stage.talk(task_list="gpu")
    failed = stage.fail()

    def ids(**wanted: str) -> list[str]:
        return [each.task for each in tasks.list_tasks(stage.store, **wanted)]  # type: ignore[arg-type]

    assert len(ids()) == 2
    assert ids(state="failed") == [failed.uuid]
    assert ids(facet="Ask") == ids(facet="t.Ask") == ids()
    assert ids(facet="Tell") == []
    assert ids(task_list="gpu", state="pending") == [ids()[0]]
    assert ids(task_list="gpu", state="failed") == []
    with pytest.raises(UsageError, match="no state 'dead'; use one of pending, "):
        ids(state="dead")


def test_a_listed_task_says_what_went_wrong(stage: Stage) -> None:
    stage.talk()
    task = stage.fail("the line is dead")
    [listed] = tasks.list_tasks(stage.store)
    assert listed.error is not None
    assert listed.error["message"] == "the line is dead"
    assert (listed.attempts, listed.run) == (1, task.workflow_id)
    assert listed.inputs == {"question": "first?"}


def test_tasks_come_in_pages_also_of_one_run(stage: Stage) -> None:
    run = stage.talk("a", "b", "c")
    stage.talk()
    first = tasks.task_page(stage.store, run=run.workflow_id, limit=3)
    assert len(first.tasks) == 3
    second = tasks.task_page(stage.store, run=run.workflow_id, limit=3, cursor=first.cursor)
    assert (len(second.tasks), second.cursor) == (1, None)
    assert {each.run for each in (*first.tasks, *second.tasks)} == {run.workflow_id}


def test_unserved_tasks_are_picked_from_among_the_others(stage: Stage) -> None:
    for task_list in ("gpu", "default", "tpu", "default", "gpu"):
        stage.talk(task_list=task_list)
    stage.server(handlers=["t.Ask"])
    pages = [tasks.task_page(stage.store, only_unserved=True, limit=2)]
    while (cursor := pages[-1].cursor) is not None:
        pages.append(tasks.task_page(stage.store, only_unserved=True, limit=2, cursor=cursor))
    assert [each.task_list for page in pages for each in page.tasks] == ["gpu", "tpu", "gpu"]
    listed = tasks.list_tasks(stage.store, only_unserved=True, task_list="gpu")
    assert [each.task_list for each in listed] == ["gpu", "gpu"]
    assert tasks.list_tasks(stage.store, only_unserved=True, facet="Tell") == []


def test_the_one_queue_that_nobody_serves_is_listed_as_asked(stage: Stage) -> None:
    stage.talk(task_list="gpu")
    stage.talk()
    stage.server(handlers=["t.Ask"])
    assert len(tasks.list_tasks(stage.store, only_unserved=True)) == 1
    assert tasks.list_tasks(stage.store, only_unserved=True, task_list="default") == []
    assert len(tasks.list_tasks(stage.store, only_unserved=True, facet="Ask")) == 1


def test_queues_say_what_waits_since_when_and_for_whom(stage: Stage) -> None:
    stage.talk("a")
    stage.talk(task_list="gpu")
    stage.server(handlers=["t.Ask"])
    stage.claim()
    default, gpu = tasks.queues(stage.store)
    assert (default.task_list, default.waiting, default.is_unserved) == ("default", Count(1), False)
    assert (gpu.task_list, gpu.facet, gpu.is_unserved) == ("gpu", "t.Ask", True)
    assert (default.oldest_age_s, gpu.oldest_age_s) == (2.0, 1.0)


# Acting


def test_a_dead_letter_can_be_tried_again(stage: Stage) -> None:
    run = stage.talk()
    task = stage.claim()
    stage.evaluator.dead_letter_task(task, "handed out too often")
    [dead] = tasks.list_tasks(stage.store, state=TaskState.DEAD_LETTER)
    assert dead.task == task.uuid
    tasks.retry(stage.evaluator, task)
    stage.answer("one")
    stage.answer("two")
    ended = stage.store.get_run(run.workflow_id)  # type: ignore[arg-type]
    assert ended is not None
    assert ended.state == "completed"


def test_what_has_not_failed_cannot_be_tried_again(stage: Stage) -> None:
    stage.talk()
    [task] = stage.store.get_all_tasks()
    with pytest.raises(InvalidStepStateError):
        tasks.retry(stage.evaluator, task)


def lonely(stage: Stage, state: str, **facts: Any) -> TaskDefinition:
    """A task without a step, in some state."""
    task = TaskDefinition("x", "afl:execute", "", "", "", "")
    stage.store.save_task(replace(task, **facts))
    [claimed] = stage.store.claim_tasks([task.name], 1)
    ended = replace(claimed, state=state, error={"message": "no such flow"}, failures=1)
    stage.store.save_task(ended)
    return ended


def stored(stage: Stage, task: TaskDefinition) -> TaskDefinition:
    found = stage.store.get_task(task.uuid)
    assert found is not None
    return found


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.DEAD_LETTER])
def test_a_task_without_a_step_can_be_tried_again(stage: Stage, state: str) -> None:
    task = lonely(stage, state)
    tasks.retry(stage.evaluator, task)
    again = stored(stage, task)
    assert (again.state, again.error, again.deliveries, again.failures) == ("pending", None, 0, 0)
    assert [each.uuid for each in stage.store.claim_tasks([task.name], 1)] == [task.uuid]


@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.IGNORED, TaskState.RUNNING])
def test_a_task_without_a_step_that_has_not_failed_is_left_alone(stage: Stage, state: str) -> None:
    task = stored(stage, lonely(stage, state))
    advice = f"Task x is {state}; only one that is failed or dead_letter can be tried again"
    with pytest.raises(InvalidTaskStateError, match=advice):
        tasks.retry(stage.evaluator, task)
    assert stored(stage, task) == task


def test_a_task_without_a_step_that_is_gone_cannot_be_tried_again(stage: Stage) -> None:
    with pytest.raises(TaskNotFoundError):
        tasks.retry(stage.evaluator, TaskDefinition("x", "afl:execute", "", "", "", ""))


def test_a_task_without_a_step_waits_for_its_run_if_that_is_paused(stage: Stage) -> None:
    run = stage.talk().workflow_id
    task = lonely(stage, TaskState.FAILED, name="afl:execute", workflow_id=run)
    stage.evaluator.pause(WorkflowId(run))
    tasks.retry(stage.evaluator, task)
    assert stored(stage, task).held is True
    stage.evaluator.unpause(WorkflowId(run))
    assert stored(stage, task).held is False


def test_a_task_that_waits_is_given_up_and_its_step_fails(stage: Stage) -> None:
    run = stage.talk()
    [task] = stage.store.get_all_tasks()
    assert tasks.discard(stage.evaluator, task, "nobody will come") is True
    stored = stage.store.get_task(task.uuid)
    assert stored is not None
    assert stored.state == TaskState.IGNORED
    ended = stage.store.get_run(run.workflow_id)  # type: ignore[arg-type]
    assert ended is not None
    assert ended.error is not None
    assert "nobody will come" in ended.error["message"]


def test_a_registration_of_two_namespaces_serves_no_bare_name(stage: Stage) -> None:
    for name in ("a.Bare", "b.Bare"):
        stage.store.save_handler_registration(HandlerRegistration(name, "handlers"))
    stage.talk()
    [task] = stage.store.get_all_tasks()
    bare = replace(task, name="Bare")
    assert tasks.serving(stage.store).serves(bare) is False
