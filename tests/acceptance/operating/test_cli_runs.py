"""`afl runs`: looking at runs, and acting on them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.conftest import Command
from tests.acceptance.in_process import afl, afl_json
from tests.acceptance.operating.desk import finish, lines, submit

from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI


def test_runs_are_listed_for_people_and_for_programs(store: PersistenceAPI) -> None:
    assert afl("runs", "list").out == "There are no such runs.\n"
    run = submit()
    header, row = lines("runs", "list")
    assert header == ["run", "workflow", "state", "started", "took", "error"]
    assert row[:3] == [run, "t.Chain", "running"]
    [listed] = afl_json("runs", "list", "--state", "running", "--workflow", "Chain")
    assert sorted(listed) == [
        "duration_s",
        "ended",
        "error",
        "key",
        "run",
        "started",
        "state",
        "task_list",
        "workflow",
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", listed["started"])
    assert afl_json("runs", "list", "--state", "completed") == []


def test_runs_come_in_pages_and_are_found_by_their_beginnings(store: PersistenceAPI) -> None:
    made = [submit() for _ in range(3)]
    page = afl("runs", "list", "--limit", "2", "--json")
    assert [each["run"] for each in json.loads(page.out)] == made[:0:-1]
    [cursor] = re.findall(r"There are more: --before (\w+) goes on\.", page.err)
    rest = afl("runs", "list", "--limit", "2", "--before", cursor, "--json")
    assert [each["run"] for each in json.loads(rest.out)] == made[:1]
    assert rest.err == ""
    assert [each["run"] for each in afl_json("runs", "list", "--find", made[1][:9])] == [made[1]]
    assert len(afl_json("runs", "list", "--find", "t.Ch")) == 3
    assert afl_json("runs", "list", "--find", "Now") == []


def test_a_terminal_shows_short_ids(command: Command) -> None:
    run = submit()
    terminal, inner = os.openpty()
    with subprocess.Popen(
        command.line("runs", "list"),
        cwd=command.folder,
        env=command.environ({"COLUMNS": "100", "TERM": "xterm"}),
        stdout=inner,
    ) as listing:
        os.close(inner)
        printed = b""
        while b"running" not in printed:
            printed += os.read(terminal, 1000)
        assert listing.wait(command.patience_s) == 0
    os.close(terminal)
    assert run[:13].encode() in printed
    assert run.encode() not in printed


def test_a_run_is_shown_with_its_steps(store: PersistenceAPI) -> None:
    run = submit("--input", "n=4")
    finish(store)
    finish(store, "out of\norder")
    done = afl("runs", "show", run[:13])
    assert done.code == 0
    head, _, steps = done.out.partition("\n\n")
    assert "\nerror      out of\n           order\n" in head
    [failed] = store.get_tasks_by_state("failed")
    assert steps.splitlines() == [
        "a: completed t.Work n=4 -> n=4",
        f"b: failed t.Work n=5 -> out of order [{failed.step_id}]",
        '_sys_2: completed sys.log message="a is 4", level="info"',
    ]


def test_a_run_is_shown_as_json(store: PersistenceAPI) -> None:
    run = submit("--input", "n=4")
    finish(store)
    shown = afl_json("runs", "show", run)
    assert (shown["run"], shown["inputs"], shown["outputs"]) == (run, {"n": 4}, {})
    [block] = shown["root"]["steps"]
    step = block["steps"][0]
    assert {key: step[key] for key in ("name", "state", "attempts", "inputs", "outputs")} == {
        "name": "a",
        "state": "completed",
        "attempts": 1,
        "inputs": {"n": 4},
        "outputs": {"n": 4},
    }


def test_many_steps_are_cut_for_people(store: PersistenceAPI) -> None:
    run = submit()
    finish(store)
    done = afl("runs", "show", run, "--limit", "1")
    assert done.out.splitlines()[-1] == "… 2 more; --limit shows them, --json has all"


def test_runs_in_which_nothing_waits_for_ever_are_told_so(store: PersistenceAPI) -> None:
    submit()
    run = submit()
    assert afl("runs", "check").out == "2 runs checked: nothing waits for ever.\n"
    assert afl_json("runs", "check", run[:13]) == {"checked": 1, "problems": []}


def test_a_run_in_which_something_waits_for_ever_is_found(store: PersistenceAPI) -> None:
    submit()
    run = submit()
    [task] = store.get_tasks_by_runner(run)
    assert store.update_task_state(task.uuid, "canceled")
    found = afl("runs", "check")
    assert found.code == 1
    assert f"Run {run}:\n  a (t.Work, state.EventTransmit): it waits for a task" in found.out
    assert "2 runs checked: 1 run cannot go on." in found.out


def test_a_run_is_paused_resumed_and_cancelled(store: PersistenceAPI) -> None:
    run = submit()
    assert afl("runs", "pause", run).out == f"Run {run} is paused.\n"
    assert afl("runs", "pause", run).out == f"Run {run} stays paused.\n"
    assert store.claim_tasks(["t.Work"], 1) == []
    assert afl_json("runs", "resume", run) == {"run": run, "state": "running", "changed": True}
    assert afl_json("runs", "cancel", run[:6])["state"] == "cancelled"
    assert afl_json("runs", "cancel", run) == {"run": run, "state": "cancelled", "changed": False}


def test_all_failed_steps_of_a_run_are_tried_again(store: PersistenceAPI) -> None:
    run = submit()
    finish(store, "bad luck")
    [task] = store.get_tasks_by_state("failed")
    answer = afl_json("runs", "retry", run)
    assert answer == {"run": run, "retried": [task.step_id], "refused": {}}
    finish(store)
    finish(store, "bad luck")
    assert afl("runs", "retry", run).out == f"1 step of run {run} will be tried again.\n"
    finish(store)
    assert afl_json("runs", "show", run)["outputs"] == {"n": 2}


def test_one_failed_step_is_tried_again(store: PersistenceAPI) -> None:
    run = submit()
    finish(store, "bad luck")
    [task] = store.get_tasks_by_state("failed")
    assert afl_json("runs", "retry", task.step_id[:13])["run"] == run
    assert afl_json("runs", "show", run)["state"] == "running"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["runs", "show", "nowhere"], "Run nowhere not found"),
        (["runs", "retry", "nowhere"], "neither a run nor a step has the id nowhere"),
        (["runs", "retry", "RUN"], "is running and has no failed tasks to try again"),
        (["runs", "list", "--state", "done"], "there is no state 'done'; use one of created,"),
        (["runs", "list", "--before", "?"], "'?' is no place in a list; use the cursor of a page,"),
        (["tasks", "show", "nowhere"], "Task nowhere not found"),
        (["tasks", "list", "--state", "failed", "--unserved"], "give one of --state,"),
        (["handlers", "show", "t.Work"], "no handler is registered for t.Work"),
        (["handlers", "remove", "t.Work"], "no handler is registered for t.Work"),
        (["handlers", "add", "t.Work", "m", "--metadata", "[]"], "--metadata is a JSON object"),
        (["handlers", "add", "t.Work", "m", "--metadata", "{"], "--metadata is no JSON"),
        (["servers", "drain", "nowhere"], "Server nowhere not found"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(args: list[str], problem: str) -> None:
    run = submit()
    done = afl(*[run if each == "RUN" else each for each in args])
    assert done.code == 2
    assert problem in done.err


def test_what_was_caught_is_not_tried_again(store: PersistenceAPI, folder: Path) -> None:
    (folder / "caught.afl").write_text(
        "event facet F()\n"
        "workflow W() => (x: Long) andThen { a = F() yield W(x = 1) } catch { yield W(x = 2) }\n"
    )
    run = afl_json("submit", "caught.afl")["run"]
    [task] = store.claim_tasks(["F"], 1)
    Evaluator(store).fail_task(task, "no")
    done = afl("runs", "retry", run)
    assert done.code == 1
    assert "Not tried again: " in done.err


def test_the_log_of_a_run_is_printed_and_followed(command: Command, store: PersistenceAPI) -> None:
    run = submit()
    with subprocess.Popen(
        command.line("runs", "logs", run, "--follow"),
        cwd=command.folder,
        env=command.environ({}),
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        finish(store)
        assert following.stdout is not None
        assert following.stdout.readline().endswith("  info     a is 1\n")
        finish(store)
        assert following.wait(command.patience_s) == 0
    done = afl("runs", "logs", run, "--json")
    [line] = map(json.loads, done.out.splitlines())
    assert (line["message"], line["level"], line["originator"]) == ("a is 1", "info", "workflow")
