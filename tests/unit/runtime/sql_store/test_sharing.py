"""One file and many stores on it: in one process, and in several."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from afl.clock import FakeClock
from afl.errors import StoreClosed
from afl.runtime.entities import RunnerDefinition, RunnerState, TaskDefinition, WorkflowDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.sql_store import SqliteStore
from afl.runtime.types import WorkflowId

PATIENCE_S = 30.0

WORKER = """\
import sys
from afl.runtime.sql_store import SqliteStore
from afl.runtime.entities import RunnerState

with SqliteStore(sys.argv[1], poll_interval_s=3600) as store:
    print("ready", flush=True)
    assert store.wait_for_work(["Pay"], 30)
    (task,) = store.claim_tasks(["Pay"], 10)
    print(task.uuid, flush=True)
    assert store.update_runner_state("run", RunnerState.COMPLETED)
"""


LISTENER = """\
import sys
from afl.runtime.sql_store import SqliteStore

with SqliteStore(sys.argv[1], poll_interval_s=3600) as store:
    seen = store.registrations_version()
    print("ready", flush=True)
    assert store.wait_for_registrations(seen, 30)
    print(*[each.facet_name for each in store.list_handler_registrations()], flush=True)
"""


def new_task(uuid: str, name: str = "shop.Pay") -> TaskDefinition:
    return TaskDefinition(uuid, name, "run", "run", "flow", "")


def new_run() -> RunnerDefinition:
    workflow = WorkflowDefinition("w", "shop.Order", "shop", "shop.Order", "flow", "", "1.0")
    return RunnerDefinition("run", "run", workflow, state=RunnerState.RUNNING)


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def test_it_is_a_store(store: SqliteStore) -> None:
    assert isinstance(store, PersistenceAPI)


def test_stores_on_one_file_share_what_they_hold_but_not_who_they_are(
    store: SqliteStore, path: Path, clock: FakeClock
) -> None:
    with SqliteStore(path, clock=clock, poll_interval_s=3600) as other:
        assert other.database is store.database
        store.save_task(new_task("a"))
        assert other.claim_task(["Pay"]) is not None
        assert store.claim_task(["Pay"]) is None
        assert store.acquire_lock("x", 1000)
        assert not other.acquire_lock("x", 1000)


def test_closing_one_store_leaves_the_others_open(
    store: SqliteStore, path: Path, clock: FakeClock
) -> None:
    other = SqliteStore(path, clock=clock, poll_interval_s=3600)
    other.close()
    other.close()
    store.save_task(new_task("a"))
    with pytest.raises(StoreClosed):
        other.get_task("a")
    with pytest.raises(StoreClosed):
        other.claim_task(["Pay"])


def test_what_was_kept_is_there_after_a_restart(path: Path) -> None:
    with SqliteStore(path) as store:
        store.save_task(new_task("a"))
    with SqliteStore(f"sqlite:///{path}", owner="me") as store:
        task = store.claim_task(["Pay"])
    assert task is not None
    assert task.owner == "me"


def test_two_processes_wake_each_other(path: Path) -> None:
    with SqliteStore(path, poll_interval_s=3600) as store:
        store.save_runner(new_run())
        command = [sys.executable, "-c", WORKER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            store.save_task(new_task("a"))
            assert worker.stdout.readline() == "a\n"
            assert store.wait_for_run(WorkflowId("run"), PATIENCE_S)
            assert worker.wait(PATIENCE_S) == 0


def test_a_registration_is_heard_of_in_another_process(path: Path) -> None:
    with SqliteStore(path, poll_interval_s=3600) as store:
        command = [sys.executable, "-c", LISTENER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "ready\n"
            store.register_handler("shop.Pay", "shop")
            assert listener.stdout.readline() == "shop.Pay\n"
            assert listener.wait(PATIENCE_S) == 0


def test_looking_for_work_in_vain_writes_nothing(store: SqliteStore, path: Path) -> None:
    store.save_task(new_task("a"))
    store.claim_tasks(["shop.Pay"], 1)
    before = log_size(path)
    assert store.claim_tasks(["shop.Pay", "Ship"], 10) == []
    assert store.claim_tasks([], 10) == []
    assert log_size(path) == before


def test_many_names_and_long_queues_keep_their_order(store: SqliteStore) -> None:
    for number in range(40):
        store.save_task(new_task(f"{number:02}", f"ns{number % 20}.F{number % 7}"))
    names = [f"ns{n}.F{m}" for n in range(0, 20, 2) for m in range(7)] + ["F3"]
    claimed = [each.uuid for each in store.claim_tasks(names, 100)]
    exact = [f"{n:02}" for n in range(40) if n % 20 % 2 == 0]
    short = [f"{n:02}" for n in range(40) if n % 20 % 2 and n % 7 == 3]
    assert claimed == exact + short


def test_threads_that_claim_at_once_never_get_the_same(store: SqliteStore) -> None:
    for number in range(60):
        store.save_task(new_task(str(number)))
    claimed: list[str] = []

    def work() -> None:
        while tasks := store.claim_tasks(["Pay"], 3):
            claimed.extend(each.uuid for each in tasks)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE_S)
    assert sorted(claimed, key=int) == [str(number) for number in range(60)]
