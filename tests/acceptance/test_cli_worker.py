"""`afl worker` as a service: it does what is submitted, and stops without losing anything."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import Command

from afl import open_store
from afl.cli.running import run_group
from afl.runtime.entities import RunnerState, ServerState, TaskState
from afl.runtime.lifecycle import BaseLoop, LoopGroup, wait_until
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

PROGRAM = """
namespace t

event facet Work(n: Long) => (n: Long)

workflow Chain(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Work(n = a.n + 1)
    yield Chain(n = b.n)
}
"""

#: Appends to a ledger; 1 says that it has begun and waits until it may go on.
HANDLERS = """
import os
from pathlib import Path
from typing import Any

from afl import handler

HERE = Path(__file__).parent

@handler("t.Work")
def handle(payload, context):
    with open(HERE / "ledger", "a") as ledger:
        print(payload["n"], context.idempotency_key, file=ledger)
    if payload["n"] == 1:
        (HERE / "begun").open("w").close()
        (HERE / "go").open("r").close()
    return {"n": payload["n"]}
"""


@pytest.fixture
def folder(command: Command) -> Path:
    command.write("program.afl", PROGRAM)
    command.write("shop/handlers.py", HANDLERS)
    for name in ("begun", "go"):
        os.mkfifo(command.folder / "shop" / name)
    return command.folder


@pytest.fixture
def store(folder: Path) -> Iterator[PersistenceAPI]:
    with closing(open_store(f"sqlite:///{folder}/afl.db")) as store:
        store.register_handler("t.Work", "shop.handlers")
        yield store


@contextmanager
def starting(command: Command, *args: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command.line("worker", "--drain-deadline", "20s", *args),
        cwd=command.folder,
        env=command.environ({"AFL_LOG_FORMAT": "json"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def worker(command: Command, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that is ready."""
    with starting(command, *args) as process:
        read_until(process, '"phase": "ready"')
        yield process


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"{text!r} was never printed:\n{''.join(lines)}")


def submit(command: Command, n: int) -> WorkflowId:
    done = command("submit", "program.afl", "--input", f"n={n}")
    assert done.code == 0, done.err
    return WorkflowId(done.out.strip())


def wait_until_begun(command: Command) -> None:
    (command.folder / "shop/begun").open("r").close()


def let_go(command: Command) -> None:
    (command.folder / "shop/go").open("w").close()


def ledger(command: Command) -> list[list[str]]:
    return [each.split() for each in (command.folder / "shop/ledger").read_text().splitlines()]


def ended(store: PersistenceAPI, run: WorkflowId, command: Command) -> str:
    assert store.wait_for_run(run, command.patience_s), "the run does not end"
    found = store.get_run(run)
    assert found is not None
    return found.state


def test_a_worker_does_what_is_submitted_and_stops_when_told(
    command: Command, store: PersistenceAPI
) -> None:
    with worker(command) as process:
        done = command("submit", "program.afl", "--input", "n=5", "--wait")
        assert (done.code, done.out) == (0, "n  6\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(command.patience_s) == 0
    assert [n for n, _ in ledger(command)] == ["5", "6"]
    [server] = store.get_all_servers()
    assert server.state == ServerState.SHUTDOWN
    assert [(each.handler, each.handled) for each in server.handled] == [("t.Work", 2)]


def test_a_failed_run_is_told_to_who_waits(command: Command, store: PersistenceAPI) -> None:
    command.write("shop/handlers.py", "def handle(payload): raise ValueError('out of order')\n")
    with worker(command):
        done = command("submit", "program.afl", "--input", "n=5", "--wait")
    assert done.code == 1
    assert "step a: out of order" in done.err


def test_sigterm_finishes_what_runs_and_another_worker_goes_on(
    command: Command, store: PersistenceAPI
) -> None:
    with worker(command) as first:
        run = submit(command, 1)
        wait_until_begun(command)
        first.send_signal(signal.SIGTERM)
        read_until(first, '"phase": "drain"')
        let_go(command)
        assert first.wait(command.patience_s) == 0
    assert [n for n, _ in ledger(command)] == ["1"]
    found = store.get_run(run)
    assert found is not None
    assert found.state == RunnerState.RUNNING
    with worker(command):
        assert ended(store, run, command) == RunnerState.COMPLETED
    assert [n for n, _ in ledger(command)] == ["1", "2"]


@pytest.mark.parametrize("how", ["deadline", "second signal"])
def test_what_does_not_end_in_time_is_given_back(
    command: Command, store: PersistenceAPI, how: str
) -> None:
    args = ("--drain-deadline", "3s") if how == "deadline" else ()
    with worker(command, *args) as first:
        submit(command, 1)
        wait_until_begun(command)
        first.send_signal(signal.SIGTERM)
        read_until(first, '"phase": "drain"')
        if how == "second signal":
            first.send_signal(signal.SIGTERM)
        assert first.wait(command.patience_s) == 0
    [task] = store.get_all_tasks()
    assert (task.state, task.deliveries) == (TaskState.PENDING, 0)


def test_the_work_of_a_killed_worker_is_done_by_another(
    command: Command, store: PersistenceAPI
) -> None:
    with worker(command, "--lease", "1s") as first:
        run = submit(command, 1)
        wait_until_begun(command)
        first.send_signal(signal.SIGKILL)
        first.wait(command.patience_s)
    with worker(command):
        wait_until_begun(command)
        let_go(command)
        assert ended(store, run, command) == RunnerState.COMPLETED
    # Delivered again with its key: whoever keeps keys does the effect once.
    assert [n for n, _ in ledger(command)] == ["1", "1", "2"]
    assert len({key for n, key in ledger(command) if n == "1"}) == 1


def test_handlers_that_are_registered_while_it_works_are_noticed(
    command: Command, store: PersistenceAPI
) -> None:
    store.delete_handler_registration("t.Work")
    with worker(command):
        run = submit(command, 5)
        assert command("handlers", "add", "t.Work", "shop/handlers.py").code == 0
        assert ended(store, run, command) == RunnerState.COMPLETED


def test_handlers_of_a_module_are_served_without_registration(
    command: Command, store: PersistenceAPI
) -> None:
    store.delete_handler_registration("t.Work")
    with worker(command, "--handlers", "shop/handlers.py"):
        run = submit(command, 5)
        assert ended(store, run, command) == RunnerState.COMPLETED
        # One record for one process: who asks it to drain asks for all that it does.
        [server] = store.get_all_servers()
    assert server.handlers == ["t.Work"]


def test_concurrency_counts_all_that_a_worker_does(command: Command, store: PersistenceAPI) -> None:
    text = HANDLERS.replace('"t.Work"', '"t.Other"')
    command.write("shop/others.py", text)
    command.write("others.afl", PROGRAM.replace("Work", "Other"))
    options = ("--handlers", "shop/others.py", "--concurrency", "1")
    with worker(command, *options):
        first = submit(command, 1)
        wait_until_begun(command)
        done = command("submit", "others.afl", "--input", "n=5")
        assert done.code == 0, done.err
        second = WorkflowId(done.out.strip())
        assert not store.wait_for_run(second, 0.5)
        [waiting] = store.get_tasks_by_runner(second)
        assert (waiting.state, waiting.deliveries) == (TaskState.PENDING, 0)
        let_go(command)
        for run in (first, second):
            assert ended(store, run, command) == RunnerState.COMPLETED


def test_what_is_named_to_a_worker_goes_before_what_is_registered(
    command: Command, store: PersistenceAPI
) -> None:
    command.write("own.py", "HANDLERS = {'t.Work': lambda payload: {'n': 100}}\n")
    with worker(command, "--handlers", "own.py"):
        done = command("submit", "program.afl", "--input", "n=5", "--wait")
    assert (done.code, done.out) == (0, "n  100\n")


def test_topics_hold_for_the_handlers_of_a_module(command: Command, store: PersistenceAPI) -> None:
    store.delete_handler_registration("t.Work")
    with worker(command, "--handlers", "shop/handlers.py", "--topics", "other.*"):
        run = submit(command, 5)
        assert not store.wait_for_run(run, 0.5)
        [server] = store.get_all_servers()
        assert (server.handlers, server.topics) == ([], ["other.*"])


def test_a_worker_is_told_where_registered_handlers_may_be(
    command: Command, store: PersistenceAPI, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    path = elsewhere / "trusted.py"
    path.write_text("def handle(payload): return {'n': payload['n']}\n", encoding="utf-8")
    store.register_handler("t.Work", path.as_uri())
    with worker(command, "--handler-path", str(elsewhere)):
        done = command("submit", "program.afl", "--input", "n=5", "--wait")
    assert (done.code, done.out) == (0, "n  6\n")


def test_a_worker_serves_its_topics_and_its_task_list(
    command: Command, store: PersistenceAPI
) -> None:
    with worker(command, "--topics", "other.*"), worker(command, "--task-list", "gpu"):
        waiting = submit(command, 5)
        done = command("submit", "program.afl", "--input", "n=5", "--task-list", "gpu", "--wait")
        assert done.code == 0, done.err
    found = store.get_run(waiting)
    assert found is not None
    assert found.state == RunnerState.RUNNING


def test_probes_are_answered(command: Command, store: PersistenceAPI) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with worker(command, "--health-port", str(port)):
        for probe in ("startup", "live"):
            url = f"http://127.0.0.1:{port}/health/{probe}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                assert answer.status == 200


def test_threads_that_handlers_leave_behind_keep_nobody(
    command: Command, store: PersistenceAPI
) -> None:
    command.write(
        "shop/handlers.py",
        "import threading\n"
        "def handle(payload):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    return {'n': payload['n']}\n",
    )
    with worker(command) as process:
        assert ended(store, submit(command, 5), command) == RunnerState.COMPLETED
        process.send_signal(signal.SIGTERM)
        assert process.wait(command.patience_s) == 0


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([], "a worker needs a drain deadline"),
        (["--drain-deadline", "soon"], "lifecycle.drain_deadline = 'soon' (flag --drain-deadline)"),
        (["--drain-deadline", "5s", "--handlers", "empty.py"], "no handlers are listed"),
        (["--drain-deadline", "5s", "--handlers", "gone.py"], "there is no handler file gone.py"),
        (["--drain-deadline", "5s", "--concurrency", "0"], "--concurrency"),
        (["--drain-deadline", "5s", "--lease", "0s"], "worker.lease = '0s' (flag --lease)"),
        (["--drain-deadline", "5s", "--lease", "1ms"], "30d, of 50ms or more"),
        (["--drain-deadline", "5s", "--store", "memory:"], "nobody could submit anything"),
        (["--drain-deadline", "5s", "--store", "x.db"], "store.url = 'x.db' (flag --store)"),
    ],
)
def test_a_wrong_setting_starts_nothing(command: Command, args: list[str], problem: str) -> None:
    command.write("empty.py", "def work(payload): return {}\n")
    done = command("worker", *args)
    assert done.code == 2
    assert problem in done.err


@pytest.mark.parametrize("args", [[], ["--drain-deadline", "5s", "--handlers", "gone.py"]])
def test_who_is_refused_has_made_no_database(command: Command, args: list[str]) -> None:
    assert command("worker", *args).code == 2
    assert list(command.folder.glob("*.db*")) == []


def test_a_free_port_for_probes_is_told_and_on_the_record(
    command: Command, store: PersistenceAPI
) -> None:
    with worker(command, "--health-port", "0") as process:
        assert wait_until(lambda: bool(_ports(store)), timeout=command.patience_s)
        [port] = _ports(store)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=10) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(command.patience_s) == 0


def _ports(store: PersistenceAPI) -> list[int]:
    return [each.http_port for each in store.get_all_servers()]


def test_what_is_logged_where_it_happens_is_not_logged_again_as_an_event(
    command: Command, store: PersistenceAPI
) -> None:
    store.register_handler("t.Other", "shop.gone")
    with starting(command) as process:
        assert wait_until(lambda: _is_wrong(store, "t.Other"), timeout=command.patience_s)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=command.patience_s)
    assert log.count('"event": "handler_not_loaded"') == 1


def _is_wrong(store: PersistenceAPI, facet: str) -> bool:
    registration = store.get_handler_registration(facet)
    return registration is not None and registration.load_error is not None


class Broken(BaseLoop):
    def work(self, stop: threading.Event, **_options: Any) -> None:
        raise ValueError("the floor is wet")


def test_a_loop_that_fails_is_told_and_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_group(LoopGroup([Broken("one")], drain_deadline_seconds=5)) == 1
    assert "Error: the floor is wet\n" in capsys.readouterr().err


def test_the_missing_deadline_is_told_with_sensible_values(command: Command) -> None:
    done = command("worker")
    for word in ("--drain-deadline", "AFL_LIFECYCLE_DRAIN_DEADLINE", "30s", "2m to 5m", "30m"):
        assert word in done.err
