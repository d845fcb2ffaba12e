"""The consumer on tasks of a SQLite store."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.work.running import Running, eventually

from afl import compile_source
from afl.runtime.entities import TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.loading import Handler
from afl.runtime.sql_store import SqliteStore
from afl.runtime.task_source import Served, TaskSource
from afl.runtime.types import WorkflowId
from afl.work.consumer import Consumer, Options

PROGRAM = compile_source(
    """
namespace sums

event facet Add(number: Long) => (sum: Long)

workflow All(numbers: [Long]) => (sums: [Long]) andThen foreach number in $.numbers {
    first = Add(number = number)
    second = Add(number = first.sum)
    yield All(sums = second.sum)
}
"""
)
NUMBERS = list(range(300))


def add(payload: dict[str, Any]) -> dict[str, Any]:
    return {"sum": payload["number"] + 1}


async def add_later(payload: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(0.001)
    return add(payload)


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    with SqliteStore(folder / "afl.db") as store:
        yield store
    shutil.rmtree(folder)


def source(store: SqliteStore, call: Callable[..., Any]) -> TaskSource:
    served = Served({"sums.Add": Handler("sums.Add", call, "here")})
    names = served.names
    evaluator = Evaluator(store)
    return TaskSource(store, evaluator, lambda: names, lambda task: served.handler_for(task.name))


def submit(store: SqliteStore) -> WorkflowId:
    return Evaluator(store).submit(PROGRAM, "All", {"numbers": NUMBERS})


def check(store: SqliteStore, run_id: WorkflowId) -> None:
    result = Evaluator(store).result(run_id)
    assert result.success
    assert result.outputs["sums"] == [each + 2 for each in NUMBERS]


@pytest.mark.parametrize("call", [add, add_later])
def test_runs_are_done_to_their_end(store: SqliteStore, call: Callable[..., Any]) -> None:
    consumer = Consumer(source(store, call), Options(concurrency=50))
    with Running(consumer):
        run_id = submit(store)
        assert store.wait_for_run(run_id, 30)
        eventually(lambda: consumer.in_flight == 0)
    check(store, run_id)
    assert consumer.leases_lost == 0


def work_a_little(store: SqliteStore, run_id: WorkflowId) -> None:
    consumer = Consumer(source(store, add), Options(concurrency=20, threads=2))
    with Running(consumer):
        eventually(lambda: consumer.progress > 5 or store.wait_for_run(run_id, 0))


def test_runs_go_on_where_the_last_consumer_stopped(store: SqliteStore) -> None:
    run_id = submit(store)
    stops = 0
    while not store.wait_for_run(run_id, 0):
        work_a_little(store, run_id)
        stops += 1
        assert not store.get_tasks_by_state(TaskState.RUNNING)
    assert stops > 1
    check(store, run_id)


def test_a_poll_does_what_it_can(store: SqliteStore) -> None:
    run_id = submit(store)
    consumer = Consumer(source(store, add), Options(concurrency=100))
    counts = []
    while count := consumer.poll_once():
        counts.append(count)
    assert counts == [100] * 6
    check(store, run_id)
