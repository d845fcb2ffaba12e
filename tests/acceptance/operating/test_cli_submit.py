"""`afl submit`: a run waits for workers, and who waits for it is told how it stands."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.conftest import Command
from tests.acceptance.in_process import afl, afl_json
from tests.acceptance.operating.desk import server, submit

from afl.errors import StoreUnavailable
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.sql_store import SqliteStore


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "list"),
        ("runs", "cancel", "abcd"),
        ("tasks", "list"),
        ("handlers", "list"),
        ("servers",),
        ("prune",),
        ("prune", "--dry-run", "--turns-older-than", "30d"),
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


@pytest.mark.parametrize(("outages", "end"), [(1, "The run waits"), (1000, "The run goes on")])
def test_who_waits_through_an_outage_knows_that_the_run_was_started(
    store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch, outages: int, end: str
) -> None:
    answers, asked = SqliteStore.get_tasks_by_runner, itertools.count(1)

    def away(self: SqliteStore, runner_id: str) -> list[TaskDefinition]:
        if next(asked) <= outages:
            raise StoreUnavailable("postgresql://db cannot be reached; is it running?")
        return answers(self, runner_id)

    monkeypatch.setattr(SqliteStore, "get_tasks_by_runner", away)
    done = afl(*WAITED, "500ms")
    assert done.code == 130
    [run] = store.get_all_runners()
    assert end in done.err
    assert f"To look at it: afl runs show {run.workflow_id}" in done.err


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
