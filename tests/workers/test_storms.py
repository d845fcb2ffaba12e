"""Real workers on one store, killed, halted and stopped all the way.

The ledger is the outside world: it keeps what was done under each idempotency key, and how often
a handler was started for it.
"""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts import mongo_stores, postgres_stores
from tests.engine.ledger import Ledger, LedgerProcess
from tests.engine.places import Store, open_at
from tests.engine.profile import IS_STORM
from tests.engine.rest import check_rest
from tests.workers.crew import Crew, WorkerProcess
from tests.workers.effects import PROGRAM, WORKFLOW
from tests.workers.effects_process import FACET

from afl.clock import SYSTEM_CLOCK
from afl.runtime.entities import TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.lifecycle import wait_until
from afl.runtime.types import WorkflowId

TASKS, LONGEST_MS = (2000, 500) if IS_STORM else (200, 100)
SHORTEST_MS = 10
#: For a slice on a server, which is slow beside other tests.
FEW_TASKS = 40
#: For runs that several workers do at once.
SMALL_RUNS, PER_RUN = (1000, 6) if IS_STORM else (40, 6)
#: Handlers at work at once, in each worker.
AT_ONCE = 8 if IS_STORM else 2
#: The least number of harms of each kind, on the average.
HARMS = 15 if IS_STORM else 3
#: Seconds between two harms. Few tasks may meet five of them: those would be dead letters.
ROUND_S = 0.4 if IS_STORM else 0.1
PATIENCE_S = 1200.0 if IS_STORM else 150.0

pytestmark = pytest.mark.timeout(3600 if IS_STORM else 240)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets beside a file, which pytest's own folders are not."""
    path = Path(tempfile.mkdtemp(prefix="afl-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with LedgerProcess() as process:
        client = Ledger(process.port)
        yield client
        client.close()


STORES = ["sqlite", "postgres", "mongo"]
#: Where what differs from store to store is shown once already.
SOME_STORES = STORES if IS_STORM else STORES[:1]


@pytest.fixture
def place(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "postgres":
        return postgres_stores.emptied(request.getfixturevalue("postgres_url"))
    if request.param == "mongo":
        return mongo_stores.emptied(request.getfixturevalue("mongo_url"))
    return str(folder / "afl.db")


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with open_at(place) as store:
        yield store


def submit(store: Store, count: int, shortest_ms: int, longest_ms: int) -> WorkflowId:
    inputs = {
        "numbers": list(range(count)),
        "shortest_ms": shortest_ms,
        "longest_ms": longest_ms,
    }
    return Evaluator(store).submit(PROGRAM, WORKFLOW, inputs)


def is_over(store: Store, run_id: WorkflowId) -> bool:
    run = store.get_run(run_id)
    return run is not None and run.is_over


def check(store: Store, ledger: Ledger, run_id: WorkflowId, count: int) -> list[int]:
    """Every task ended, with one effect for each key; how often each was started."""
    result = Evaluator(store).result(run_id)
    assert result.success, result.error
    assert sorted(result.outputs["done"]) == list(range(count))
    entries = ledger.entries(run_id)
    assert sorted(each.payload["number"] for each in entries) == list(range(count))
    assert {each.facet for each in entries} == {FACET}
    return [each.deliveries for each in entries]


def storm(
    crew: Crew, store: Store, harms: int, pause_s: float, tasks: int = TASKS
) -> list[WorkflowId]:
    """Harm the crew until it has done a run, and one more as long as it met too few harms."""
    runs = [submit(store, tasks, SHORTEST_MS, LONGEST_MS)]
    ends_at = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while True:
        if is_over(store, runs[-1]):
            if sum(crew.harmed.values()) >= harms:
                return runs
            runs.append(submit(store, tasks, SHORTEST_MS, LONGEST_MS))
        assert SYSTEM_CLOCK.monotonic() < ends_at, crew.harmed
        SYSTEM_CLOCK.sleep(pause_s)
        crew.harm()


@pytest.mark.parametrize("place", STORES, indirect=True)
def test_every_task_ends_whatever_is_killed_and_halted(
    folder: Path, place: str, store: Store, ledger: Ledger
) -> None:
    # Most halts are longer than this: who goes on finds its task with somebody else.
    options = {"max_concurrent": AT_ONCE, "lease_ms": 500, "poll_interval_ms": 100, "drain_s": 20}
    kinds = [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM]
    tasks = TASKS if IS_STORM or place.endswith(".db") else FEW_TASKS
    with Crew(folder, ledger.port, kinds, place=place, **options) as crew:
        runs = storm(crew, store, 3 * HARMS, ROUND_S, tasks)
    for run_id in runs:
        check(store, ledger, run_id, tasks)


@pytest.mark.parametrize("place", SOME_STORES, indirect=True)
def test_with_stops_alone_every_handler_is_started_once(
    folder: Path, place: str, store: Store, ledger: Ledger
) -> None:
    # Longer than any worker waits for its turn on a busy machine: no lease lapses, and whatever
    # begins twice was given back by a stop.
    options = {
        "max_concurrent": 4 * AT_ONCE,
        "threads": AT_ONCE,
        "lease_ms": 60_000,
        "drain_s": 30,
    }
    with Crew(folder, ledger.port, [signal.SIGTERM], place=place, **options) as crew:
        runs = storm(crew, store, HARMS, 0)
    for run_id in runs:
        starts = check(store, ledger, run_id, TASKS)
        assert set(starts) == {1}, (folder / "workers.log").read_text()


@pytest.mark.parametrize("place", SOME_STORES, indirect=True)
def test_results_of_many_workers_and_an_operator_meet(
    folder: Path, place: str, store: Store, ledger: Ledger
) -> None:
    """Small runs, each done by several workers at once, while an operator interferes."""
    evaluator, chance = Evaluator(store), random.Random(7)
    options = {"max_concurrent": 4 * AT_ONCE, "drain_s": 20}
    with Crew(folder, ledger.port, [], size=3, place=place, **options):
        runs = [submit(store, PER_RUN, 1, 5) for _ in range(SMALL_RUNS)]
        cancelled = {each for each in runs[::7] if evaluator.cancel(each)}
        ends_at = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while left := [each for each in runs if not is_over(store, each)]:
            assert SYSTEM_CLOCK.monotonic() < ends_at
            for each in chance.sample(left, min(3, len(left))):
                evaluator.pause(each)
                check_rest(store, each)
                evaluator.unpause(each)
    for each in runs:
        check_rest(store, each)
        if each not in cancelled:
            check(store, ledger, each, PER_RUN)


@pytest.mark.parametrize("place", SOME_STORES, indirect=True)
def test_a_stop_in_the_middle_loses_nothing_and_starts_nothing_twice(
    folder: Path, place: str, store: Store, ledger: Ledger
) -> None:
    """Eight tasks run and twenty wait in the worker; another one completes the run."""
    running, queued, each_ms = 8, 20, 3000 if IS_STORM else 600
    run_id = submit(store, running + queued, each_ms, each_ms)
    options = {"max_concurrent": running + queued, "threads": running, "drain_s": 15}
    first = WorkerProcess(folder, ledger.port, place=place, **options).wait_until_ready()
    assert wait_until(lambda: len(ledger.entries(run_id)) >= running, timeout=30)
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    left = store.get_tasks_by_state(TaskState.PENDING)
    assert store.get_tasks_by_state(TaskState.RUNNING) == []
    assert [each.deliveries for each in left] == [0] * len(left)
    assert len(left) + len(ledger.entries(run_id)) == running + queued
    second = WorkerProcess(folder, ledger.port, place=place, **options).wait_until_ready()
    assert store.wait_for_run(run_id, 30)
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    assert set(check(store, ledger, run_id, running + queued)) == {1}


@pytest.mark.parametrize("place", SOME_STORES, indirect=True)
def test_work_of_a_killed_worker_is_done_by_another_soon(
    folder: Path, place: str, store: Store, ledger: Ledger
) -> None:
    run_id = submit(store, 8, 200, 200)
    options = {"max_concurrent": 8, "lease_ms": 1000, "drain_s": 15}
    first = WorkerProcess(folder, ledger.port, place=place, **options).wait_until_ready()
    second = WorkerProcess(folder, ledger.port, place=place, **options).wait_until_ready()
    assert wait_until(lambda: bool(ledger.entries(run_id)), timeout=30, poll_interval=0.01)
    first.signal(signal.SIGKILL)
    assert store.wait_for_run(run_id, 30)
    assert first.wait() == -signal.SIGKILL
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    check(store, ledger, run_id, 8)
