"""How the store is opened, shared and closed."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.unit.runtime.postgres_store.conftest import Opened

import afl
from afl.errors import ConfigurationError, StoreClosed, StoreMisused
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import add_tasks, new_run, new_task

WORKER = """\
import sys
from afl.runtime.postgres_store import PostgresStore

with PostgresStore(sys.argv[1]) as store:
    print("ready", flush=True)
    assert store.wait_for_work(["Pay"], 30)
    (task,) = store.claim_tasks(["Pay"], 10)
    print(task.uuid, flush=True)
    assert store.update_runner_state("run", "completed")
"""


def test_a_url_opens_it(url: str) -> None:
    store = afl.open_store(url)
    assert isinstance(store, PostgresStore)
    assert isinstance(store, PersistenceAPI)
    store.close()


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ("afl.runtime.postgres_store", "afl.db.postgres")
    for name in [each for each in sys.modules if each.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'afl\[postgres\]'") as refusal:
        afl.open_store("postgresql://me:secret@nowhere/db")
    assert "secret" not in str(refusal.value)


def test_stores_at_one_url_share_connections_but_not_who_they_are(
    store: PostgresStore, opened: Opened
) -> None:
    other = opened()
    assert other.database is store.database
    assert store.acquire_lock("x", 60_000)
    assert not other.acquire_lock("x", 60_000)


def test_closing_one_leaves_the_others_open(store: PostgresStore, opened: Opened) -> None:
    other = opened()
    other.close()
    other.close()
    add_tasks(store, new_task())
    with pytest.raises(StoreClosed):
        other.get_all_tasks()


def test_what_was_submitted_is_written_before_the_end(url: str, store: PostgresStore) -> None:
    with PostgresStore(url) as other:
        future = other.decide_later(
            lambda _view: (IterationChanges(created_tasks=[new_task(uuid="last")]), None)
        )
    assert future.result() is None
    assert store.get_task("last") is not None


def test_processes_wake_each_other(url: str, store: PostgresStore) -> None:
    store.save_runner(new_run("run"))
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        add_tasks(store, new_task(uuid="for-you"))
        assert worker.stdout.readline() == "for-you\n"
        assert store.wait_for_run(WorkflowId("run"), 30)
    assert worker.returncode == 0


def _decide(store: PersistenceAPI, task: TaskDefinition) -> None:
    store.decide(lambda _view: (IterationChanges(created_tasks=[task]), None))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda store: store.save_task(new_task(data={"x": "\ud800"})), "not valid Unicode"),
        (lambda store: store.save_task(new_task(owner="\ud800")), "not valid Unicode"),
        (lambda store: _decide(store, new_task(workflow_id="\ud800")), "not valid Unicode"),
        (lambda store: _decide(store, new_task(workflow_id="w", fence=2**64)), "64 bits"),
        (lambda store: store.save_task(new_task(fence=2**64)), "64 bits"),
        (lambda store: store.save_task(new_task(owner=None)), "wrong kind"),
        (lambda store: store.save_task(new_task(created="now")), "wrong kind"),
        (lambda store: store.save_task(new_task(data={"x": float("nan")})), "NaN"),
        (lambda store: store.save_runner(new_run(key=_noise())), "too long"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused(
    store: PostgresStore, write: Callable[[PersistenceAPI], None], words: str
) -> None:
    with pytest.raises(StoreMisused, match=words):
        write(store)
    assert store.get_all_tasks() == []
    assert store.get_all_runners() == []


def _noise() -> str:
    """Long, and not to be made shorter."""
    return "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9000))
