"""`afl submit`, `runs`, `tasks`, `handlers` and `servers` as people and programs use them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import Command
from tests.acceptance.in_process import afl, afl_json

from afl import open_store
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner import RunnerService

PROGRAM = """
namespace t

event facet Work(n: Long) => (n: Long)

workflow Chain(n: Long = 1) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Work(n = a.n + 1)
    sys.log("a is " ++ a.n)
    yield Chain(n = b.n)
}

workflow Now(text: String) => (text: String) andThen {
    yield Now(text = $.text)
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("AFL_")]:
        monkeypatch.delenv(name)
    (tmp_path / "program.afl").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[PersistenceAPI]:
    with closing(open_store("sqlite:///./afl.db")) as store:
        yield store


def submit(*args: str) -> str:
    run: str = afl_json("submit", "program.afl", "--workflow", "Chain", *args)["run"]
    return run


def finish(store: PersistenceAPI, error: str | None = None) -> None:
    """Do one task."""
    [task] = store.claim_tasks(["t.Work"], 1)
    if error is None:
        Evaluator(store).complete_task(task, {"n": (task.data or {})["n"]})
    else:
        Evaluator(store).fail_task(task, ValueError(error))


def lines(*args: str) -> list[list[str]]:
    """The cells of a table."""
    done = afl(*args)
    assert done.code == 0, done.err
    return [re.split(r"\s{2,}", each) for each in done.out.splitlines()]


# Submitting


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "list"),
        ("runs", "cancel", "abcd"),
        ("tasks", "list"),
        ("handlers", "list"),
        ("servers",),
    ],
)
def test_a_store_that_is_not_there_is_named_and_not_made(
    command: tuple[str, ...], folder: Path
) -> None:
    outcome = afl(*command, "--store", "sqlite:///typo.db")
    assert outcome.code == 2
    assert f"there is no database {folder / 'typo.db'}" in outcome.err
    assert not (folder / "typo.db").exists()


def test_a_submitted_run_waits_for_workers(store: PersistenceAPI) -> None:
    done = afl("submit", "program.afl", "--workflow", "Chain", "--input", "n=5")
    assert (done.code, done.err) == (0, "")
    [run] = store.get_all_runners()
    assert done.out == f"{run.workflow_id}\n"
    assert (run.state, run.task_list) == ("running", "default")
    [task] = store.get_pending_tasks()
    assert task.data == {"n": 5}


def test_inputs_keys_and_task_lists_are_taken(store: PersistenceAPI) -> None:
    given = ("--inputs", '{"n": 7}', "--key", "order-1", "--task-list", "gpu")
    assert submit(*given) == submit(*given)
    [run] = store.get_all_runners()
    assert (run.key, run.task_list) == ("order-1", "gpu")
    [task] = store.get_pending_tasks("gpu")
    assert task.data == {"n": 7}


def test_the_task_list_is_a_setting(store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_WORKER_TASK_LIST", "gpu")
    submit()
    assert len(store.get_pending_tasks("gpu")) == 1


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        (["--workflow", "Chian"], 2, "did you mean 'Chain'?"),
        (["--workflow", "Chain", "--input", "n=x"], 2, "expected Long, written as JSON"),
        (["--workflow", "Chain", "--timeout", "1s"], 2, "--timeout is for --wait"),
        (["--workflow", "Chain", "--wait", "--timeout", "soon"], 2, "'soon' is not a duration"),
        (["--workflow", "Chain", "--store", "memory:"], 2, "a store in memory dies"),
        ([], 2, "say which workflow"),
        (["wrong.afl"], 1, "wrong.afl:1:"),
    ],
)
def test_a_wrong_request_submits_nothing(
    folder: Path, args: list[str], code: int, problem: str
) -> None:
    (folder / "wrong.afl").write_text("workflow W( {\n")
    done = afl("submit", "program.afl", *args)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert not (folder / "afl.db").exists()


def test_waiting_prints_the_outputs_of_a_run_that_is_over() -> None:
    done = afl("submit", "program.afl", "--workflow", "Now", "--input", "text=hello", "--wait")
    assert (done.code, done.out) == (0, "text  hello\n")
    assert done.err.splitlines()[0].startswith("run ")


def test_waiting_has_an_end_and_the_run_goes_on(store: PersistenceAPI) -> None:
    args = ("submit", "program.afl", "--workflow", "Chain", "--wait", "--timeout", "0s")
    done = afl(*args, "--store", "sqlite:///./afl.db", "--json")
    assert done.code == 130
    answer = json.loads(done.out)
    assert (answer["status"], answer["outputs"]) == ("running", {})
    assert f"afl runs show {answer['run']} --store sqlite:///./afl.db" in done.err
    assert "0 done, 0 running, 1 waiting" in done.err
    assert store.get_all_runners()[0].state == "running"


WAITED = ("submit", "program.afl", "--workflow", "Chain", "--wait", "--timeout")


@pytest.mark.parametrize("timeout", ["0s", "1500ms"])
def test_who_waits_is_told_that_nobody_serves_the_work(timeout: str) -> None:
    done = afl(*WAITED, timeout, "--json")
    assert done.code == 130
    _, counts, advice, end = done.err.splitlines()
    assert counts == "0 done, 0 running, 1 waiting"
    assert advice.startswith("Nobody serves t.Work: no handler is registered")
    assert "`afl handlers add`" in advice
    assert "`afl worker`" in advice
    assert end.startswith("The run waits: nobody serves t.Work. To look at it: afl runs show ")
    answer = json.loads(done.out)
    assert (answer["unserved"], answer["unattended"]) == (["t.Work"], [])


def test_who_waits_is_told_that_no_worker_is_there(store: PersistenceAPI) -> None:
    store.register_handler("t.Work", "handlers")
    done = afl(*WAITED, "0s", "--task-list", "gpu", "--json")
    assert "A handler is registered for t.Work, but no worker that serves task list 'gpu'" in (
        done.err
    )
    answer = json.loads(done.out)
    assert (answer["unserved"], answer["unattended"]) == ([], ["t.Work"])


def test_who_waits_is_told_nothing_while_somebody_serves_the_work(store: PersistenceAPI) -> None:
    server(store, "alive", handlers=["t.Work"])
    done = afl(*WAITED, "0s", "--json")
    assert "obody" not in done.err
    assert "The run goes on." in done.err
    answer = json.loads(done.out)
    assert (answer["unserved"], answer["unattended"]) == ([], [])


def test_a_run_says_which_of_its_steps_nobody_serves(store: PersistenceAPI) -> None:
    run = submit()
    assert "a: waiting, nobody serves it: t.Work n=1" in afl("runs", "show", run).out
    [block] = afl_json("runs", "show", run)["root"]["steps"]
    assert {each["name"]: each["is_unserved"] for each in block["steps"]} == {"a": True}
    store.register_handler("t.Work", "handlers")
    assert "a: waiting t.Work n=1" in afl("runs", "show", run).out
    [block] = afl_json("runs", "show", run)["root"]["steps"]
    assert {each["name"]: each["is_unserved"] for each in block["steps"]} == {"a": False}


def test_an_interrupted_wait_leaves_the_run_alone(command: Command, store: PersistenceAPI) -> None:
    with subprocess.Popen(
        command.line("submit", "program.afl", "--workflow", "Chain", "--wait"),
        cwd=command.folder,
        env=command.environ({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        while "1 waiting" not in waiting.stderr.readline():
            pass
        waiting.send_signal(signal.SIGINT)
        while "The run goes on" not in (line := waiting.stderr.readline()):
            assert line, "it ends without a word"
        assert waiting.wait(command.patience_s) == 130
    assert store.get_all_runners()[0].state == "running"


# Runs


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


# Tasks


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


# Handlers


def test_a_handler_is_added_shown_disabled_and_removed(folder: Path) -> None:
    (folder / "mine.py").write_text("def work(payload): return {}\n")
    added = afl_json(
        *("handlers", "add", "t.Work", "mine", "--entrypoint", "work", "--checksum", "auto"),
        *("--timeout", "2m", "--isolation", "process", "--on-lost", "unknown", "--version", "2"),
        *("--retry-max", "3", "--retry-backoff", "5s", "--metadata", '{"region": "eu"}'),
    )
    assert added["checksum"].startswith("sha256:")
    wanted = {
        "facet": "t.Work",
        "module_uri": "mine",
        "entrypoint": "work",
        "timeout_ms": 120_000,
        "isolation": "process",
        "on_lost": "unknown",
        "version": "2",
        "is_enabled": True,
        "metadata": {"region": "eu", "retry": {"max": 3, "backoff": "5s"}},
    }
    assert {key: added[key] for key in wanted} == wanted
    assert afl_json("handlers", "show", "t.Work") == added
    assert afl_json("handlers", "list") == [added]
    assert afl("handlers", "disable", "t.Work").out == "The handler of t.Work is disabled.\n"
    assert lines("handlers", "list")[1] == ["t.Work", "mine", "work", "2", "disabled"]
    assert afl_json("handlers", "enable", "t.Work")["is_enabled"] is True
    assert "\ntimeout       2m\n" in afl("handlers", "show", "t.Work").out
    assert afl_json("handlers", "remove", "t.Work") == {"facet": "t.Work", "removed": True}
    assert afl("handlers", "list").out == "No handlers are registered.\n"


def test_handlers_are_verified_here(folder: Path) -> None:
    (folder / "mine.py").write_text("def handle(payload): return {}\n")
    afl("handlers", "add", "t.Work", "mine")
    done = afl("handlers", "verify")
    assert (done.code, done.out) == (0, "OK: t.Work: mine, handle\n1 handler, 0 wrong\n")
    afl("handlers", "add", "t.Other", "mine", "--entrypoint", "other")
    done = afl("handlers", "verify", "--json")
    assert done.code == 1
    verdicts = json.loads(done.out)
    assert [(each["facet"], each["ok"]) for each in verdicts] == [
        ("t.Other", False),
        ("t.Work", True),
    ]
    assert "it has no 'other'" in verdicts[0]["problem"]
    assert afl("handlers", "verify", "t.Work").code == 0
    assert "mine" not in sys.modules


def test_handlers_may_be_in_the_folders_of_the_settings(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far.py").write_text("def handle(payload): return {}\n")
    afl("handlers", "add", "t.Work", str(elsewhere / "far.py"))
    refused = afl("handlers", "verify")
    assert refused.code == 1
    assert "outside of the places" in refused.out
    monkeypatch.setenv("AFL_HANDLER_PATHS", str(elsewhere))
    assert afl("handlers", "verify").code == 0


# Servers


def server(store: PersistenceAPI, name: str, **facts: Any) -> None:
    record = ServerDefinition(name, "default", "afl-registry-runner", "host-1", version="1.0")
    record.state = facts.pop("state", ServerState.RUNNING)
    record.ping_time = store.now_ms() - facts.pop("age_ms", 0)
    for key, value in facts.items():
        setattr(record, key, value)
    store.save_server(record)


def test_servers_are_listed_with_how_they_stand(store: PersistenceAPI) -> None:
    assert afl("servers").out == "There are no servers.\n"
    server(store, "alive", in_flight=2, handled=[HandledCount("t.Work", 7)])
    lost = {"kind": "lost", "message": "its process is gone", "time": 1}
    server(store, "lost", state=ServerState.ERROR, age_ms=40_000, incidents=[lost])
    server(store, "silent", age_ms=50_000)
    table = lines("servers")
    assert table[0] == [
        *("server", "name", "service", "state", "phase", "beat", "in flight", "handled"),
        "version",
    ]
    assert [row[0] for row in table[1:4]] == ["alive", "lost", "silent"]
    assert [row[3] for row in table[1:4]] == ["running", "error", "running, silent"]
    assert [row[4] for row in table[1:4]] == ["ready", "terminate", "ready"]
    assert table[1][6:] == ["2", "7", "1.0"]
    assert table[4] == ["incident of lost: its process is gone"]
    assert [each["server"] for each in afl_json("servers", "list", "--alive")] == ["alive"]


def test_a_server_is_asked_to_drain_and_back(store: PersistenceAPI) -> None:
    server(store, "server-1")
    assert "is asked to drain" in afl("servers", "drain", "serv").out
    assert afl_json("servers")[0]["wanted"] == "drain"
    assert lines("servers")[1][3] == "running, drain asked"
    assert afl_json("servers", "undrain", "server-1") == {"server": "server-1", "wanted": ""}
    assert afl_json("servers")[0]["wanted"] == ""


def test_a_server_that_is_gone_cannot_drain(store: PersistenceAPI) -> None:
    server(store, "server-1", age_ms=60_000)
    done = afl("servers", "drain", "server-1")
    assert done.code == 2
    assert "silent for 60 s; only a server that is alive can drain" in done.err
