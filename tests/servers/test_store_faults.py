"""Workers on a PostgreSQL that is stopped, killed, paused or cut off: nothing is lost, nothing is
done twice, and nobody has to be started again.

The ledger is the outside world: it keeps what was done under each idempotency key.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engine.ledger import Ledger
from tests.engine.profile import IS_STORM
from tests.servers.conftest import until
from tests.servers.proxy import Proxy
from tests.workers.crew import Crew
from tests.workers.effects import PROGRAM, WORKFLOW
from tests.workers.effects_process import FACET

from afl.clock import SYSTEM_CLOCK
from afl.db.postgres.wire import Connection
from afl.errors import StoreUnavailable
from afl.runtime.claims import ended
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import IterationChanges, PersistenceAPI, View
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import new_task
from afl.testing.servers import PostgresServer

TASKS = 1000 if IS_STORM else 60
LONGEST_MS = 300 if IS_STORM else 60
ROUNDS = 12 if IS_STORM else 2
LEASE_MS = 500
PATIENCE_S = 600.0 if IS_STORM else 60.0

pytestmark = pytest.mark.timeout(3600 if IS_STORM else 120)

Harm = Callable[[PostgresServer, Proxy], None]


def stop_and_start(server: PostgresServer, _proxy: Proxy) -> None:
    server.stop()
    SYSTEM_CLOCK.sleep(0.3)
    server.start()


def kill_and_start(server: PostgresServer, _proxy: Proxy) -> None:
    server.kill()
    server.start()


def pause_longer_than_a_lease(server: PostgresServer, _proxy: Proxy) -> None:
    server.pause()
    SYSTEM_CLOCK.sleep(3 * LEASE_MS / 1000)
    server.go_on()


def cut_off_longer_than_a_lease(_server: PostgresServer, proxy: Proxy) -> None:
    proxy.cut()
    SYSTEM_CLOCK.sleep(2 * LEASE_MS / 1000)
    proxy.mend()


def lose_answers(_server: PostgresServer, proxy: Proxy) -> None:
    """Some of them say that something was committed."""
    for _ in range(10):
        proxy.loses_next_answer = True
        SYSTEM_CLOCK.sleep(0.02)
    proxy.loses_next_answer = False


HARMS: list[Harm] = [
    stop_and_start,
    kill_and_start,
    pause_longer_than_a_lease,
    cut_off_longer_than_a_lease,
    lose_answers,
]


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="afl-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        yield started


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(server.port) as made:
        yield made


@pytest.fixture
def store(server: PostgresServer) -> Iterator[PostgresStore]:
    with PostgresStore(server.url) as opened:
        yield opened


def submit(store: PersistenceAPI, count: int, longest_ms: int) -> WorkflowId:
    inputs = {"numbers": list(range(count)), "shortest_ms": 10, "longest_ms": longest_ms}
    return Evaluator(store).submit(PROGRAM, WORKFLOW, inputs)


def insist(call: Callable[..., Any], *arguments: Any) -> Any:
    """Ask again as long as the store cannot be reached."""
    while True:
        try:
            return call(*arguments)
        except StoreUnavailable:
            SYSTEM_CLOCK.sleep(0.01)


def check(store: PersistenceAPI, ledger: Ledger, run_id: WorkflowId, count: int) -> None:
    """Every task ended, with one effect for each key."""
    result = Evaluator(store).result(run_id)
    assert result.success, result.error
    assert sorted(result.outputs["done"]) == list(range(count))
    entries = ledger.entries(run_id)
    assert sorted(each.payload["number"] for each in entries) == list(range(count))
    for state in (TaskState.PENDING, TaskState.RUNNING, TaskState.DEAD_LETTER):
        assert store.get_tasks_by_state(state) == []


@pytest.mark.parametrize("harm", HARMS, ids=lambda each: each.__name__.replace("_", " "))
def test_workers_go_on_by_themselves(
    folder: Path,
    server: PostgresServer,
    proxy: Proxy,
    store: PostgresStore,
    ledger: Ledger,
    harm: Harm,
) -> None:
    place = server.url.replace(f":{server.port}", f":{proxy.port}")
    run_id = submit(store, TASKS, LONGEST_MS)
    options = {"max_concurrent": 4, "lease_ms": LEASE_MS, "poll_interval_ms": 200, "drain_s": 20}
    # At the end of the block each of them must end by SIGTERM with 0: none was replaced.
    with Crew(folder, ledger.port, [signal.SIGTERM], size=2, place=place, **options):
        for _ in range(ROUNDS):
            done = len(ledger.entries(run_id))
            until(lambda seen=done: len(ledger.entries(run_id)) >= min(seen + 5, TASKS))  # type: ignore[misc]
            harm(server, proxy)
        assert insist(store.wait_for_run, run_id, PATIENCE_S)
    check(store, ledger, run_id, TASKS)


def test_workers_that_are_killed_while_the_server_restarts_lose_nothing(
    folder: Path, server: PostgresServer, store: PostgresStore, ledger: Ledger
) -> None:
    run_id = submit(store, TASKS, LONGEST_MS)
    options = {"max_concurrent": 4, "lease_ms": LEASE_MS, "poll_interval_ms": 200, "drain_s": 20}
    kinds = [signal.SIGKILL, signal.SIGSTOP]
    is_over = threading.Event()

    def restart() -> None:
        for number in range(ROUNDS):
            SYSTEM_CLOCK.wait(is_over, 0.3)
            server.restart(is_killed=number % 2 == 0)

    # Started while it answers: a new worker needs the server once, to begin.
    with Crew(folder, ledger.port, kinds, size=3, place=server.url, **options) as crew:
        restarts = threading.Thread(target=restart, daemon=True)
        restarts.start()
        restarts.join(PATIENCE_S)
        for _ in range(2 * ROUNDS):
            crew.harm()
            SYSTEM_CLOCK.sleep(0.1)
        assert insist(store.wait_for_run, run_id, PATIENCE_S)
    check(store, ledger, run_id, TASKS)


# Commits of which nobody knows what became


@pytest.fixture
def far_store(server: PostgresServer, proxy: Proxy) -> Iterator[PostgresStore]:
    """On the same database, behind the proxy."""
    with PostgresStore(server.url.replace(f":{server.port}", f":{proxy.port}")) as opened:
        yield opened


@contextmanager
def commits_unanswered(proxy: Proxy) -> Iterator[None]:
    """What is committed meanwhile is, but the connection is cut before the answer comes."""
    ask = Connection.ask

    def losing(connection: Connection, statements: Sequence[tuple[str, Any]]) -> Any:
        # Answers are sent when all is done.
        proxy.loses_next_answer = any(sql == "COMMIT" for sql, _ in statements)
        return ask(connection, statements)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "ask", losing)
        yield


def claimed(store: PersistenceAPI) -> tuple[WorkflowId, TaskDefinition]:
    run_id = submit(store, 1, 10)
    (task,) = store.claim_tasks([FACET], 1, lease_ms=600_000)
    return run_id, task


def test_a_result_whose_commit_was_not_answered_counts_once(
    proxy: Proxy, store: PostgresStore, far_store: PostgresStore
) -> None:
    run_id, task = claimed(far_store)
    evaluator = Evaluator(far_store)
    with commits_unanswered(proxy), pytest.raises(StoreUnavailable, match="may have happened"):
        evaluator.complete_task(task, {"number": 0})
    assert store.wait_for_run(run_id, PATIENCE_S)
    # Who was not answered tries again, and is told that it is over.
    with pytest.raises(StaleFence):
        evaluator.complete_task(task, {"number": 0})
    assert Evaluator(store).result(run_id).outputs == {"done": [0]}


def test_all_whose_common_commit_was_not_answered_are_told_so(
    proxy: Proxy, store: PostgresStore, far_store: PostgresStore
) -> None:
    def creating(uuid: str) -> Callable[[View], tuple[IterationChanges, None]]:
        return lambda _view: (IterationChanges(created_tasks=[new_task(uuid=uuid)]), None)

    begun, go_on = threading.Event(), threading.Event()

    def holding(view: View) -> tuple[IterationChanges, None]:
        assert view.now_ms()
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return IterationChanges(), None

    first = far_store.decide_later(holding)
    assert begun.wait(PATIENCE_S)
    futures = [far_store.decide_later(creating(each)) for each in "abc"]
    with commits_unanswered(proxy):
        go_on.set()
        errors = [each.exception(PATIENCE_S) for each in (first, *futures)]
    assert [type(each) for each in errors] == [StoreUnavailable] * 4
    # One for each: a shared one would collect the tracebacks of all who raise it.
    assert len(set(map(id, errors))) == 4
    assert {each.uuid for each in store.get_pending_tasks()} == set("abc")


def test_a_submission_with_a_key_can_be_repeated_if_it_was_not_answered(
    proxy: Proxy, store: PostgresStore, far_store: PostgresStore
) -> None:
    inputs = {"numbers": [1], "shortest_ms": 1, "longest_ms": 1}
    evaluator = Evaluator(far_store)
    with commits_unanswered(proxy), pytest.raises(StoreUnavailable):
        evaluator.submit(PROGRAM, WORKFLOW, inputs, key="order-1")
    (made,) = store.get_all_runners()
    assert evaluator.submit(PROGRAM, WORKFLOW, inputs, key="order-1") == made.workflow_id
    assert len(store.get_all_runners()) == 1


def test_what_was_not_committed_is_not_there(
    server: PostgresServer, proxy: Proxy, store: PostgresStore, far_store: PostgresStore
) -> None:
    run_id, task = claimed(far_store)

    def cut(view: View) -> tuple[IterationChanges, None]:
        found = view.get_task(task.uuid)
        assert found is not None
        proxy.cut()
        return IterationChanges(updated_tasks=[ended(found, TaskState.CANCELED, 1)]), None

    with pytest.raises(StoreUnavailable):
        far_store.decide(cut)
    proxy.mend()
    Evaluator(far_store).complete_task(task, {"number": 0})
    assert Evaluator(store).result(run_id).outputs == {"done": [0]}


def test_results_that_could_not_be_written_can_be_written_later(
    server: PostgresServer, store: PostgresStore
) -> None:
    run_id, task = claimed(store)
    evaluator = Evaluator(store)
    server.stop()
    with pytest.raises(StoreUnavailable):
        evaluator.complete_task_later(task, {"number": 0}).result(PATIENCE_S)
    server.start()
    insist(lambda: evaluator.complete_task_later(task, {"number": 0}).result(PATIENCE_S))
    assert evaluator.result(run_id).outputs == {"done": [0]}


def test_a_store_cannot_be_opened_without_its_server(server: PostgresServer) -> None:
    server.stop()
    with pytest.raises(StoreUnavailable, match="is it running"):
        PostgresStore(server.url)
    server.start()
    PostgresStore(server.url).close()


def test_a_worker_that_hangs_in_a_transaction_can_be_cut_off(
    server: PostgresServer, store: PostgresStore
) -> None:
    """The server does so by itself, or a worker that was halted would keep all others from its
    runs. Here an operator is faster."""
    (setting,) = store.database.query("SHOW idle_in_transaction_session_timeout")
    assert setting == ("10s",)
    run_id, task = claimed(store)
    with PostgresStore(server.url + "?application_name=other") as other:
        begun, go_on = threading.Event(), threading.Event()

        def hang(view: View) -> tuple[IterationChanges, None]:
            assert view.get_run(run_id) is not None
            begun.set()
            assert go_on.wait(PATIENCE_S)
            return IterationChanges(), None

        hanging = other.decide_later(hang)
        assert begun.wait(PATIENCE_S)
        store.database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'other' AND state = 'idle in transaction'"
        )
        Evaluator(store).complete_task(task, {"number": 0})
        go_on.set()
        assert isinstance(hanging.exception(PATIENCE_S), StoreUnavailable)
