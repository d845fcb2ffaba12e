"""`afl tasks`: what waits, for whom, and what is given up."""

from __future__ import annotations

from tests.acceptance.in_process import afl, afl_json
from tests.acceptance.operating.desk import finish, lines, submit

from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner import RunnerService


def test_a_task_that_nobody_can_do_is_shown_as_such(store: PersistenceAPI) -> None:
    submit()
    _, row = lines("tasks", "list")
    assert row[1:3] == ["t.Work", "pending, unserved"]
    [listed] = afl_json("tasks", "list", "--unserved")
    assert listed["is_unserved"] is True
    assert (
        "Nobody can do it: no enabled handler is registered for t.Work"
        in afl("tasks", "show", listed["task"][:13]).out
    )
    assert afl("handlers", "add", "t.Work", "mine").code == 0
    assert afl_json("tasks", "list", "--unserved") == []
    assert afl_json("tasks", "show", listed["task"])["is_unserved"] is False


def test_tasks_are_chosen_by_state_facet_and_list(store: PersistenceAPI) -> None:
    submit("--task-list", "gpu")
    submit()
    finish(store, "bad luck")

    def count(*args: str) -> int:
        return len(afl_json("tasks", "list", *args))

    assert count() == 2
    assert count("--state", "failed") == 1
    assert count("--task-list", "gpu") == 1
    assert count("--facet", "Work") == 2
    assert count("--facet", "Other") == 0
    assert count("--limit", "1") == 1
    _, row = lines("tasks", "list", "--state", "failed")
    assert row[-1] == "bad luck"


def test_queues_tell_what_waits(store: PersistenceAPI) -> None:
    assert afl("tasks", "queues").out == "Nothing waits.\n"
    submit()
    submit()
    header, row = lines("tasks", "queues")
    assert header == ["task list", "facet", "waiting", "held", "oldest", "served"]
    assert (row[:4], row[-1]) == (["default", "t.Work", "2", "0"], "nobody")
    store.register_handler("t.Work", "handlers")
    [queue] = afl_json("tasks", "queues")
    assert (queue["waiting"], queue["is_unserved"]) == ({"number": 2, "is_exact": True}, False)


def test_tasks_of_a_run_are_listed(store: PersistenceAPI) -> None:
    first, _second = submit(), submit()
    [task] = afl_json("tasks", "list", "--run", first[:9])
    assert task["run"] == first


def test_a_request_to_start_a_run_waits_for_a_runner_and_is_tried_again(
    store: PersistenceAPI,
) -> None:
    store.save_task(TaskDefinition("execute-1", "afl:execute", "", "", "", ""))
    [queue] = afl_json("tasks", "queues")
    assert (queue["facet"], queue["is_unserved"]) == ("afl:execute", True)
    assert afl("tasks", "retry", "execute-1").code == 2
    assert RunnerService(store, Evaluator(store)).run_once() == 1
    assert afl_json("tasks", "show", "execute-1")["state"] == "failed"
    done = afl("tasks", "retry", "execute-1")
    assert (done.code, done.out) == (0, "Task execute-1 will be tried again.\n")
    assert afl_json("tasks", "show", "execute-1")["state"] == "pending"


def test_dead_letters_are_listed_tried_again_and_discarded(store: PersistenceAPI) -> None:
    run = submit()

    def bury() -> str:
        [task] = store.claim_tasks(["t.Work"], 1)
        Evaluator(store).dead_letter_task(task, "handed out too often")
        return task.uuid

    dead = bury()
    [listed] = afl_json("tasks", "list", "--dead-letters")
    assert (listed["task"], listed["error"]["message"]) == (dead, "handed out too often")
    assert afl_json("tasks", "retry", dead) == {"task": dead, "state": "pending"}
    assert afl_json("tasks", "list", "--dead-letters") == []
    assert bury() == dead
    assert afl("tasks", "discard", dead, "--reason", "seen").out == f"Task {dead} is given up.\n"
    assert afl_json("tasks", "show", dead)["state"] == "ignored"
    assert afl("tasks", "discard", dead).out == f"Task {dead} was given up before.\n"
    assert afl_json("runs", "show", run)["state"] == "failed"


def test_a_task_that_waits_is_discarded_with_a_reason(store: PersistenceAPI) -> None:
    run = submit()
    [task] = store.get_pending_tasks()
    assert afl("tasks", "discard", task.uuid, "--reason", "nobody will come").code == 0
    assert "nobody will come" in afl_json("runs", "show", run)["error"]["message"]
