"""`afl run` and `afl prune` as people use them: results, mistakes, interruptions."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import IO, Any

import pytest
from tests.acceptance.conftest import Command, Outcome

import afl

CHECKOUT = Path(afl.__file__).parents[2] / "examples" / "checkout"

PROGRAM = """
namespace t

event facet Work(n: Long) => (n: Long)
event facet Refund(n: Long) => (text: String)

workflow Chain(n: Long = 1) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Work(n = a.n + 1)
    c = Work(n = b.n + 1)
    yield Chain(n = c.n)
}

workflow Careful(n: Long) => (text: String) andThen {
    a = Work(n = $.n)
    yield Careful(text = "done")
} catch {
    back = Refund(n = $.n)
    yield Careful(text = back.text ++ ": " ++ $.error)
}
"""

HANDLERS = """
def work(payload):
    if payload["n"] < 0:
        raise ValueError("less than nothing")
    return {"n": payload["n"]}

def refund(payload):
    return {"text": "refunded"}
"""

#: Appends to a ledger; the second step says that it has begun and waits until it may go on.
HELD = """
import os
from pathlib import Path

HERE = Path(__file__).parent

def work(payload, context):
    with open(HERE / "ledger", "a") as ledger:
        print(payload["n"], context.idempotency_key, file=ledger)
    if payload["n"] == 2 and context.attempt == 1:
        (HERE / "begun").open("w").close()
        (HERE / "go").open("r").close()
    return {"n": payload["n"]}

def refund(payload):
    return {}
"""


@pytest.fixture
def program(command: Command) -> str:
    command.write("handlers.py", HANDLERS)
    return str(command.write("program.afl", PROGRAM))


def outputs(outcome: Outcome) -> dict[str, Any]:
    assert outcome.code == 0, outcome.err
    answer = json.loads(outcome.out)
    assert answer["status"] == "completed"
    found: dict[str, Any] = answer["outputs"]
    return found


# Results


def test_the_outputs_are_printed_and_progress_is_kept_apart(command: Command, program: str) -> None:
    done = command("run", program, "--workflow", "Chain", "--input", "n=5")
    assert done.code == 0, done.err
    assert done.out == "n  7\n"
    lines = done.err.splitlines()
    assert lines[0].endswith(" of t.Chain")
    assert lines[1:] == ["done: a (t.Work)", "done: b (t.Work)", "done: c (t.Work)"]
    assert (command.folder / "afl.db").exists()


def test_json_is_for_machines(command: Command, program: str) -> None:
    done = command("run", program, "--workflow", "t.Chain", "--json")
    answer = json.loads(done.out)
    assert sorted(answer) == ["duration_s", "error", "outputs", "run", "status"]
    assert answer["outputs"] == {"n": 3}
    assert answer["error"] is None
    assert answer["duration_s"] >= 0


def test_the_checkout_example_runs(command: Command) -> None:
    values = {
        "order": "o1",
        "customer": "Ada",
        "total": 12,
        "lines": [{"sku": "tea", "count": 2}, {"sku": "cup", "count": 1}],
    }
    command.write("inputs.json", json.dumps(values))
    done = command("run", str(CHECKOUT), "--inputs", "@inputs.json", "--json")
    assert outputs(done) == {
        "payment": "pay-o1",
        "parcels": ["2 x tea", "1 x cup"],
        "note": "Dear Ada, your parcels are on their way: 2 x tea and 1 x cup.",
    }


def test_handlers_can_be_elsewhere(command: Command) -> None:
    program = str(command.write("program.afl", PROGRAM))
    command.write("lib/mine.py", HANDLERS)
    for source in ("lib/mine.py", "lib.mine"):
        done = command("run", program, "--workflow", "Chain", "--handlers", source, "--json")
        assert outputs(done) == {"n": 3}


def test_the_same_key_twice_is_one_run(command: Command, program: str) -> None:
    line = ("run", program, "--workflow", "Chain", "--key", "order-1", "--json")
    first, second = command(*line), command(*line)
    assert json.loads(first.out) == json.loads(second.out)
    other = command(*line, "--input", "n=5")
    assert other.code == 2
    assert "the key 'order-1' belongs to run" in other.err


def test_what_handlers_print_is_not_the_result(command: Command) -> None:
    program = str(command.write("program.afl", PROGRAM))
    command.write(
        "handlers.py", 'print("hello")\n' + HANDLERS.replace("    if", "    print(1)\n    if")
    )
    done = command("run", program, "--workflow", "Chain", "--json")
    assert outputs(done) == {"n": 3}
    assert "hello\n" in done.err
    assert "1\n" in done.err


#: A program, what is written past Python, and what is written to where the result goes.
PRINTING = """
    subprocess.run([sys.executable, "-c", "print('by a program')"], check=True)
    os.write(1, b"past Python\\n")
    sys.__stdout__.write("to the screen\\n")
"""


def test_what_programs_of_handlers_print_is_not_the_result(command: Command, program: str) -> None:
    handlers = HANDLERS.replace("\n    if", f"{PRINTING}    if")
    command.write("handlers.py", f"import os, subprocess, sys\n{handlers}")
    done = command("run", program, "--workflow", "Chain", "--json")
    assert outputs(done) == {"n": 3}
    for each in ("by a program\n", "past Python\n", "to the screen\n"):
        assert each in done.err


def test_a_run_is_done_without_a_place_for_its_result(
    command: Command, here: Command, program: str
) -> None:
    handlers = HANDLERS.replace("    if", "    print('hello')\n    if")
    command.write("handlers.py", handlers)
    line = command.line("run", program, "--workflow", "Chain", "--json")
    ended = subprocess.run(
        ["bash", "-c", 'exec "$@" >&-', "bash", *line],
        cwd=command.folder,
        env=command.environ({}),
        capture_output=True,
        timeout=command.patience_s,
        check=False,
    )
    assert (ended.returncode, b"hello\n" in ended.stderr) == (0, True), ended.stderr
    (run,) = json.loads(here("runs", "list", "--json").out)
    assert run["state"] == "completed"


def test_a_store_in_memory_leaves_nothing_behind(command: Command, program: str) -> None:
    done = command("run", program, "--workflow", "Chain", "--store", "memory:", "--json")
    assert outputs(done) == {"n": 3}
    assert not (command.folder / "afl.db").exists()


# Failures


def test_a_failing_handler_fails_the_run_with_its_place(command: Command, program: str) -> None:
    done = command("run", program, "--workflow", "Chain", "--input", "n=-1")
    assert done.code == 1
    assert done.out == ""
    assert "failed: a (t.Work): less than nothing" in done.err
    assert "program.afl:8:5: " in done.err.splitlines()[-1]
    assert done.err.rstrip().endswith("less than nothing")


def test_a_failure_is_json_too(command: Command, program: str) -> None:
    done = command("run", program, "--workflow", "Chain", "--input", "n=-1", "--json")
    assert done.code == 1
    answer = json.loads(done.out)
    assert answer["status"] == "failed"
    assert answer["outputs"] == {}
    assert answer["error"]["message"] == "less than nothing"
    assert answer["error"]["type"] == "ValueError"


def test_a_catch_makes_good(command: Command, program: str) -> None:
    done = command("run", program, "--workflow", "Careful", "--input", "n=-1", "--json")
    assert outputs(done) == {"text": "refunded: less than nothing"}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--input", "n=x"], "--input n=x: expected Long, written as JSON"),
        (["--input", "n=1.5"], "n: expected Long, got 1.5 (a number)"),
        (["--input", "m=1"], "m: there is no such input; the workflow has n"),
        (["--input", "n"], "--input n: expected name=value"),
        (["--inputs", "[]"], "--inputs holds [] (a list)"),
        (["--inputs", "@none.json"], "--inputs @none.json cannot be read"),
        (["--workflow", "Chian"], "there is no workflow 'Chian'; did you mean 'Chain'?"),
        (["--handlers", "nowhere.py"], "there is no handler file nowhere.py"),
        (["--handlers", "broken.py"], "handlers cannot be loaded from broken.py: ZeroDivision"),
        (["--handlers", "empty.py"], "there is no handler for t.Work in empty.py"),
        (["--store", "redis://x"], "store.url = 'redis://x' (flag --store)"),
        (["--store", "x.db"], "did you mean sqlite:///x.db?"),
        (["--store", "mongo://h/db"], "did you mean mongodb:?"),
        (["--resume", "x"], "--resume goes on with what the run began with"),
        (["--concurrency", "0"], "--concurrency"),
    ],
)
def test_a_wrong_request_starts_nothing(
    here: Command, program: str, args: list[str], problem: str
) -> None:
    here.write("broken.py", "1 / 0\n")
    here.write("empty.py", "")
    workflow = [] if "--workflow" in args else ["--workflow", "Chain"]
    done = here("run", program, *workflow, *args)
    assert done.code == 2
    assert problem in done.err
    assert done.out == ""
    assert not (here.folder / "afl.db").exists()


def test_a_missing_input_and_a_missing_workflow_are_said(here: Command, program: str) -> None:
    missing = here("run", program, "--workflow", "Careful")
    assert (missing.code, "n: is missing; expected Long" in missing.err) == (2, True)
    which = here("run", program)
    assert (which.code, "say which workflow with --workflow" in which.err) == (2, True)
    nothing = here("run")
    assert (nothing.code, "name the AFL files" in nothing.err) == (2, True)
    nobody = here("run", "--resume", "no-such-run")
    assert (nobody.code, "Run no-such-run not found" in nobody.err) == (2, True)


def test_a_run_to_go_on_with_is_named_by_the_beginning_of_its_id(
    command: Command, here: Command, program: str
) -> None:
    first = json.loads(command("run", program, "--workflow", "Chain", "--json").out)
    resumed = command("run", "--resume", first["run"][:13], "--json")
    assert json.loads(resumed.out) == first
    short = here("run", "--resume", first["run"][:3])
    assert (short.code, "give at least four characters" in short.err) == (2, True)


def test_a_wrong_program_is_drawn(here: Command, program: str) -> None:
    broken = str(here.write("wrong.afl", "workflow W( {\n"))
    done = here("run", broken)
    assert done.code == 1
    assert "wrong.afl:1:" in done.err


# Scripts


SCRIPTED = "workflow W() => (x: Long) andThen { s = S() yield W(x = s.x) }\n" + (
    "facet S() => (x: Long) script { result['x'] = 6 * 7 }\n"
)


def test_scripts_are_off_unless_they_are_turned_on(command: Command) -> None:
    program = str(command.write("scripted.afl", SCRIPTED))
    off = command("run", program)
    assert off.code == 1
    assert "script blocks are turned off" in off.err
    assert "scripts.enabled" in off.err
    assert outputs(command("run", program, "--scripts", "--json")) == {"x": 42}
    enabled = {"AFL_SCRIPTS_ENABLED": "true"}
    assert outputs(command("run", program, "--json", environ=enabled)) == {"x": 42}


# While it runs


class Held:
    """A run in a process of its own whose second step waits to be let go."""

    def __init__(self, command: Command, line: list[str], stderr: int = subprocess.PIPE) -> None:
        self._folder = command.folder
        command.write("handlers.py", HELD)
        command.write("program.afl", PROGRAM)
        for name in ("begun", "go"):
            os.mkfifo(command.folder / name)
        self.process = subprocess.Popen(
            line,
            cwd=command.folder,
            env=command.environ({}),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        (self._folder / "begun").open("r").close()

    @property
    def err(self) -> IO[str]:
        assert self.process.stderr is not None
        return self.process.stderr

    def let_go(self) -> None:
        (self._folder / "go").open("w").close()

    def line_with(self, text: str) -> str:
        for line in self.err:
            if text in line:
                return line
        raise AssertionError(f"{text!r} was never printed")

    def ledger(self) -> list[list[str]]:
        return [each.split() for each in (self._folder / "ledger").read_text().splitlines()]

    def close(self) -> None:
        with self.process:
            self.process.kill()


def test_a_terminal_shows_what_is_going_on(command: Command) -> None:
    master, terminal = os.openpty()
    line = command.line("run", "program.afl", "--workflow", "Chain", "--json")
    held = Held(command, line, stderr=terminal)
    os.close(terminal)
    seen = b""
    while b"1 done, 1 running, 0 waiting  b" not in seen:
        seen += os.read(master, 1000)
    held.let_go()
    out, _ = held.process.communicate(timeout=command.patience_s)
    os.close(master)
    assert json.loads(out)["outputs"] == {"n": 3}


# Interruptions


@pytest.fixture
def held(command: Command) -> Iterator[Held]:
    found = Held(command, command.line("run", "program.afl", "--workflow", "Chain"))
    yield found
    found.close()


def resume_arguments(line: str) -> list[str]:
    words = shlex.split(line.partition("To go on: ")[2])
    assert words[:2] == ["afl", "run"]
    return words[1:]


def test_an_interrupted_run_goes_on_and_does_nothing_twice(command: Command, held: Held) -> None:
    held.process.send_signal(signal.SIGINT)
    held.line_with("Stopping: waiting for 1 handler at work")
    held.let_go()
    line = held.line_with("To go on: ")
    assert held.process.wait(command.patience_s) == 130
    assert [n for n, _ in held.ledger()] == ["1", "2"]

    resumed = command(*resume_arguments(line), "--json")
    assert outputs(resumed) == {"n": 3}
    assert [n for n, _ in held.ledger()] == ["1", "2", "3"]
    again = command(*resume_arguments(line), "--json")
    assert json.loads(again.out) == json.loads(resumed.out)
    assert len(held.ledger()) == 3


def test_a_second_interrupt_does_not_wait(command: Command, held: Held) -> None:
    held.process.send_signal(signal.SIGINT)
    held.line_with("Stopping: waiting")
    held.process.send_signal(signal.SIGINT)
    line = held.line_with("To go on: ")
    assert held.process.wait(command.patience_s) == 130

    # The interrupted attempt did not count, so the handler waits again, as at first.
    with subprocess.Popen(
        command.line(*resume_arguments(line), "--json"),
        cwd=command.folder,
        env=command.environ({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as resumed:
        (command.folder / "begun").open("r").close()
        held.let_go()
        out, _ = resumed.communicate(timeout=command.patience_s)
    assert json.loads(out)["outputs"] == {"n": 3}
    keys = [key for n, key in held.ledger() if n == "2"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


#: A run with a short lease: nobody has to wait long for what a killed process held.
DRIVER = """
from afl import bootstrap, config
from afl.operations import own_run, runs
from afl.operations.local_run import Options
from afl.operations.programs import compile_paths

settings = config.load_config()
store = bootstrap.open_store(settings.store.url)
engine = bootstrap.evaluator(store, settings)
program = compile_paths(["program.afl"]).require()
work = own_run.prepare(program, program.workflow("Chain"), ["handlers.py"])
run = own_run.begin(engine, work, {})
options = Options(lease_ms=1000)
own_run.local_run(store, engine, work, runs.status(store, run), options).work()
"""


def test_a_killed_run_goes_on_when_its_leases_have_lapsed(command: Command) -> None:
    held = Held(command, [sys.executable, "-c", DRIVER])
    held.process.send_signal(signal.SIGKILL)
    held.process.wait(command.patience_s)
    held.close()
    with closing(afl.open_store(f"sqlite:///{command.folder}/afl.db")) as store:
        [run] = store.get_all_runners()

    resumed = command("run", "--resume", run.workflow_id, "--json")
    assert outputs(resumed) == {"n": 3}
    # Delivered again with its key: whoever keeps keys does the effect once.
    ledger = held.ledger()
    assert [n for n, _ in ledger] == ["1", "2", "2", "3"]
    assert len({tuple(each) for each in ledger}) == 3


# Old runs


def test_old_runs_are_removed(command: Command, here: Command, program: str) -> None:
    line = ("run", program, "--workflow", "Chain", "--json")
    assert outputs(command(*line)) == {"n": 3}
    assert here("prune").out == "Removed 0 runs with 0 steps and 0 tasks.\n"
    assert here("prune", "--older-than", "0s", "--dry-run").out == "Would remove 1 run.\n"
    removed = here("prune", "--older-than", "0s", "--json")
    assert json.loads(removed.out)["runs"] == 1
    assert here("prune", "--older-than", "0s").out.startswith("Removed 0 runs")


def test_a_run_removes_some_old_ones_on_its_way_out(
    command: Command, here: Command, program: str
) -> None:
    line = ("run", program, "--workflow", "Chain", "--json")
    keep_none = {"AFL_RETENTION_RUNS": "0s"}
    first = json.loads(command(*line).out)["run"]
    assert outputs(command(*line, environ=keep_none)) == {"n": 3}
    assert here("run", "--resume", first).code == 2


def test_a_number_without_a_unit_removes_nothing(
    command: Command, here: Command, program: str
) -> None:
    run = json.loads(command("run", program, "--workflow", "Chain", "--json").out)["run"]
    for flag, value in product(["--older-than", "--turns-older-than"], ["3", "0", " 1.5 "]):
        done = here("prune", flag, value)
        number = value.strip()
        assert done.code == 2
        assert f"Error: {flag} {number}: {number} what? Write {number}d for days" in done.err
    assert here("runs", "show", run).code == 0


@pytest.mark.parametrize("value", ["never", "NEVER", "1h30m", "1.5d"])
def test_a_retention_with_its_unit_is_taken(here: Command, value: str) -> None:
    afl.open_store(f"sqlite:///{here.folder}/afl.db").close()
    done = here("prune", "--older-than", value, "--turns-older-than", value)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("value", ["soon", "-1d", ""])
def test_a_retention_that_is_no_duration_is_refused(here: Command, value: str) -> None:
    done = here("prune", "--older-than", value)
    assert done.code == 2
    assert "retention.runs" in done.err
    assert "a duration such as 30s, 15m or 30d, or never" in done.err
