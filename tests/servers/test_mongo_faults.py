"""Workers on a MongoDB that is stopped, killed, paused, cut off or loses its primary: nothing is
lost, nothing is done twice, and nobody has to be started again.

The ledger is the outside world: it keeps what was done under each idempotency key.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymongo.client_session import ClientSession
from tests.engine.ledger import Ledger
from tests.engine.profile import IS_STORM
from tests.servers.conftest import until
from tests.servers.proxy import Proxy
from tests.servers.test_store_faults import check, claimed, insist, submit
from tests.workers.crew import Crew
from tests.workers.effects import PROGRAM, WORKFLOW

from afl.clock import SYSTEM_CLOCK
from afl.db.mongo import writer
from afl.errors import StoreUnavailable
from afl.ids import new_id
from afl.runtime.claims import NextClaim, ended
from afl.runtime.entities import TaskState
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.queue import PATIENCE_S as PATIENCE_OF_CLAIMS_S
from afl.runtime.persistence import DEFAULT_TASK_LIST, Claiming, IterationChanges, View
from afl.runtime.step import StepDefinition
from afl.testing.contracts.store.exam import add_tasks, new_run, new_step, new_task, read_step
from afl.testing.servers import MongoCluster, MongoServer

TASKS = 1000 if IS_STORM else 40
LONGEST_MS = 300 if IS_STORM else 60
ROUNDS = 12 if IS_STORM else 1
LEASE_MS = 500
PATIENCE_S = 600.0 if IS_STORM else 60.0
OPTIONS = {"max_concurrent": 4, "lease_ms": LEASE_MS, "poll_interval_ms": 200, "drain_s": 20}
#: Who cannot reach a server finds out soon.
SOON = "serverSelectionTimeoutMS=500&connectTimeoutMS=500"

pytestmark = pytest.mark.timeout(3600 if IS_STORM else 120)

Harm = Callable[[MongoServer, Proxy], None]


def stop_and_start(server: MongoServer, _proxy: Proxy) -> None:
    server.stop()
    SYSTEM_CLOCK.sleep(0.3)
    server.start()


def kill_and_start(server: MongoServer, _proxy: Proxy) -> None:
    server.kill()
    server.start()


def pause_longer_than_a_lease(server: MongoServer, _proxy: Proxy) -> None:
    server.pause()
    SYSTEM_CLOCK.sleep(3 * LEASE_MS / 1000)
    server.go_on()


def cut_off_longer_than_a_lease(_server: MongoServer, proxy: Proxy) -> None:
    proxy.cut()
    SYSTEM_CLOCK.sleep(2 * LEASE_MS / 1000)
    proxy.mend()


def lose_answers(_server: MongoServer, proxy: Proxy) -> None:
    """Some of them say that something was committed."""
    for _ in range(10):
        proxy.loses_next_answer = True
        SYSTEM_CLOCK.sleep(0.02)
    proxy.loses_next_answer = False


HARMS: list[Harm] = [kill_and_start, pause_longer_than_a_lease]
if IS_STORM:
    HARMS += [stop_and_start, cut_off_longer_than_a_lease, lose_answers]


@pytest.fixture(scope="module")
def server() -> Iterator[MongoServer]:
    with MongoServer() as started:
        yield started


@pytest.fixture
def proxy(server: MongoServer) -> Iterator[Proxy]:
    with Proxy(server.port) as made:
        yield made


@pytest.fixture
def near(server: MongoServer) -> str:
    """Each test has a database of its own."""
    return f"{server.url}/{_next_name()}?{SOON}"


@pytest.fixture
def far(near: str, server: MongoServer, proxy: Proxy) -> str:
    """The same behind the proxy. Else the client would ask the server where it is, and go there."""
    return near.replace(f":{server.port}", f":{proxy.port}") + "&directConnection=true"


@pytest.fixture
def store(near: str) -> Iterator[MongoStore]:
    with MongoStore(near) as opened:
        yield opened


@pytest.fixture
def far_store(store: MongoStore, far: str) -> Iterator[MongoStore]:
    with MongoStore(far) as opened:
        yield opened


def _next_name() -> str:
    return f"faults_{new_id()[-8:]}"


@pytest.mark.parametrize("harm", HARMS, ids=lambda each: each.__name__.replace("_", " "))
def test_workers_go_on_by_themselves(
    tmp_path: Path,
    server: MongoServer,
    proxy: Proxy,
    store: MongoStore,
    far: str,
    ledger: Ledger,
    harm: Harm,
) -> None:
    run_id = submit(store, TASKS, LONGEST_MS)
    # At the end of the block each of them must end by SIGTERM with 0: none was replaced.
    with Crew(tmp_path, ledger.port, [signal.SIGTERM], size=2, place=far, **OPTIONS):
        for _ in range(ROUNDS):
            done = len(ledger.entries(run_id))
            until(lambda seen=done: len(ledger.entries(run_id)) >= min(seen + 5, TASKS))  # type: ignore[misc]
            harm(server, proxy)
        assert insist(store.wait_for_run, run_id, PATIENCE_S)
    check(store, ledger, run_id, TASKS)


# A replica set that loses its primary


@pytest.fixture
def cluster() -> Iterator[MongoCluster]:
    with MongoCluster() as started:
        yield started


def test_no_decision_is_lost_or_made_twice_when_the_primary_dies(cluster: MongoCluster) -> None:
    with MongoStore(cluster.url) as store:
        step = new_step()
        store.save_step(step)
        kill_at, last = 10, 40

        def one_more(view: View) -> tuple[IterationChanges, int]:
            found = view.get_step(step.id)
            assert found is not None
            found.pending += 1
            return IterationChanges(updated_steps=[found]), found.pending

        for number in range(1, last + 1):
            if number == kill_at:
                threading.Thread(target=cluster.primary().kill, daemon=True).start()
            # Each is told the next number: none before it was lost, or counted twice.
            assert insist(store.decide, one_more) == number
        assert read_step(store, step.id).pending == last
        assert sum(each.is_running for each in cluster.members) == 2


if IS_STORM:

    def test_workers_go_on_when_one_primary_after_the_other_dies(
        tmp_path: Path, cluster: MongoCluster, ledger: Ledger
    ) -> None:
        with MongoStore(cluster.url) as store:
            run_id = submit(store, TASKS, LONGEST_MS)
            with Crew(
                tmp_path, ledger.port, [signal.SIGTERM], size=2, place=cluster.url, **OPTIONS
            ):
                for _ in range(ROUNDS):
                    done = len(ledger.entries(run_id))
                    until(lambda seen=done: len(ledger.entries(run_id)) >= min(seen + 5, TASKS))  # type: ignore[misc]
                    primary = cluster.primary()
                    primary.kill()
                    cluster.primary()
                    primary.start()
                assert insist(store.wait_for_run, run_id, PATIENCE_S)
            check(store, ledger, run_id, TASKS)


# Commits of which nobody knows what became


@contextmanager
def commits_unanswered(proxy: Proxy) -> Iterator[list[None]]:
    """What is committed meanwhile is, but the connection is cut before the first answer comes."""
    commit = ClientSession.commit_transaction
    asked: list[None] = []

    def losing(session: ClientSession) -> None:
        asked.append(None)
        proxy.loses_next_answer = len(asked) == 1
        commit(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientSession, "commit_transaction", losing)
        yield asked


def test_a_commit_that_was_not_answered_is_asked_for_again(
    proxy: Proxy, store: MongoStore, far_store: MongoStore
) -> None:
    run_id, task = claimed(far_store)
    with commits_unanswered(proxy) as asked:
        Evaluator(far_store).complete_task(task, {"number": 0})
    assert asked
    assert Evaluator(store).result(run_id).outputs == {"done": [0]}
    with pytest.raises(StaleFence):
        Evaluator(far_store).complete_task(task, {"number": 0})


def test_what_was_claimed_by_a_commit_that_was_not_answered_is_known(
    proxy: Proxy, store: MongoStore, far_store: MongoStore
) -> None:
    run_id = submit(far_store, 2, 1)
    names = [each.name for each in store.get_pending_tasks()]
    (task,) = far_store.claim_tasks(names, 1)
    further = NextClaim(frozenset(names), "me", task_list=DEFAULT_TASK_LIST)
    with commits_unanswered(proxy) as asked:
        (brought,) = Evaluator(far_store).complete_task(task, {"number": 0}, claim=further)
    assert asked
    assert store.get_task(brought.uuid) == brought
    assert (brought.owner, brought.fence, brought.deliveries) == ("me", 1, 1)
    Evaluator(store).complete_task(brought, {"number": 1})
    assert Evaluator(store).result(run_id).outputs == {"done": [0, 1]}


def test_who_cannot_know_what_became_of_a_commit_is_told_so(
    monkeypatch: pytest.MonkeyPatch, proxy: Proxy, store: MongoStore, far_store: MongoStore
) -> None:
    monkeypatch.setattr(writer, "_UNKNOWN_S", 0.1)
    run_id, task = claimed(far_store)
    commit = ClientSession.commit_transaction

    def cut(session: ClientSession) -> None:
        proxy.cut()
        commit(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientSession, "commit_transaction", cut)
        with pytest.raises(StoreUnavailable, match="may have happened"):
            Evaluator(far_store).complete_task(task, {"number": 0})
    proxy.mend()
    # It did not. What was written and not committed is given up, so it can be done again.
    insist(Evaluator(far_store).complete_task, task, {"number": 0})
    assert Evaluator(store).result(run_id).outputs == {"done": [0]}


def test_a_submission_with_a_key_can_be_repeated(
    proxy: Proxy, store: MongoStore, far_store: MongoStore
) -> None:
    inputs = {"numbers": [1], "shortest_ms": 1, "longest_ms": 1}
    with commits_unanswered(proxy):
        first = Evaluator(far_store).submit(PROGRAM, WORKFLOW, inputs, key="order-1")
    assert Evaluator(store).submit(PROGRAM, WORKFLOW, inputs, key="order-1") == first
    assert len(store.get_all_runners()) == 1


def test_what_was_not_committed_is_not_there(
    monkeypatch: pytest.MonkeyPatch, proxy: Proxy, store: MongoStore, far_store: MongoStore
) -> None:
    monkeypatch.setattr(writer, "_UNREACHABLE_S", 0.1)
    run_id, task = claimed(far_store)

    def cut(view: View) -> tuple[IterationChanges, None]:
        found = view.get_task(task.uuid)
        assert found is not None
        proxy.cut()
        return IterationChanges(updated_tasks=[ended(found, TaskState.CANCELED, 1)]), None

    with pytest.raises(StoreUnavailable):
        far_store.decide(cut)
    proxy.mend()
    insist(Evaluator(far_store).complete_task, task, {"number": 0})
    assert Evaluator(store).result(run_id).outputs == {"done": [0]}


def test_all_who_waited_together_are_decided_though_one_fails(store: MongoStore) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def holding(_view: View) -> tuple[IterationChanges, None]:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return IterationChanges(), None

    def creating(uuid: str) -> Callable[[View], tuple[IterationChanges, None]]:
        return lambda _view: (IterationChanges(created_tasks=[new_task(uuid=uuid)]), None)

    first = store.decide_later(holding)
    assert begun.wait(PATIENCE_S)
    futures = [store.decide_later(creating(each)) for each in "abac"]
    go_on.set()
    errors = [type(each.exception(PATIENCE_S)).__name__ for each in (first, *futures)]
    assert errors == ["NoneType", "NoneType", "NoneType", "Conflict", "NoneType"]
    assert {each.uuid for each in store.get_pending_tasks()} == set("abc")


# Transactions of the dead

_DIES_IN_A_DECISION = """\
import os, sys
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import IterationChanges

def die(view):
    assert view.get_run("run") is not None
    os.kill(os.getpid(), 9)

MongoStore(sys.argv[1]).decide(die)
"""


def test_a_process_that_died_in_a_decision_keeps_nobody_waiting(
    near: str, store: MongoStore
) -> None:
    """The server would keep its transaction, and the run with it, for a minute."""
    store.save_runner(new_run("run"))
    command = [sys.executable, "-c", _DIES_IN_A_DECISION, near]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    step: StepDefinition = new_step()
    begun = SYSTEM_CLOCK.monotonic()
    store.save_step(step)
    assert read_step(store, step.id) == step
    # The only bound of time here: what it is compared with is the minute of the server.
    assert SYSTEM_CLOCK.monotonic() - begun < 30


_DIES_WITH_A_TASK = """\
import os, sys
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.tasks import touch

store = MongoStore(sys.argv[1])
store.writer.run(lambda tx: (touch(tx, ["a", "b"]), os.kill(os.getpid(), 9)))
"""


@pytest.mark.parametrize("limit", [1, 5])
def test_a_task_that_a_dead_process_holds_can_be_claimed(
    near: str, store: MongoStore, limit: int
) -> None:
    add_tasks(store, new_task(uuid="a"), new_task(uuid="b"))
    command = [sys.executable, "-c", _DIES_WITH_A_TASK, near]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    begun = SYSTEM_CLOCK.monotonic()
    claimed = store.claim_tasks(["Pay"], limit)
    assert [each.uuid for each in claimed] == ["a", "b"][:limit]
    assert {each.fence for each in claimed} == {1}
    # Compared with the minute of the server, as above.
    assert SYSTEM_CLOCK.monotonic() - begun < 30


_DIES_BEHIND_A_CLAIM = """\
import os, sys
from pymongo.client_session import ClientSession
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import Claiming, IterationChanges
from afl.testing.contracts.store.exam import new_task

store = MongoStore(sys.argv[1])
claiming = Claiming(["Pay"], "default", "dead", 4000, limit=1)

def die(session):
    assert [each.uuid for each in claiming.tasks] == ["a"]
    os.kill(os.getpid(), 9)

ClientSession.commit_transaction = die
store.commit(IterationChanges(created_tasks=[new_task("x")], claimings=[claiming]))
"""


def test_a_process_that_died_with_a_result_and_its_claim_keeps_nobody_from_the_queue(
    near: str, store: MongoStore
) -> None:
    add_tasks(store, new_task(uuid="a"), new_task(uuid="b"))
    command = [sys.executable, "-c", _DIES_BEHIND_A_CLAIM, near]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    begun = SYSTEM_CLOCK.monotonic()
    claiming = Claiming(["Pay"], "default", "alive", 4000, limit=1)
    store.commit(IterationChanges(created_tasks=[new_task("y", uuid="y")], claimings=[claiming]))
    # What the dead one holds keeps no result waiting, not even for as long as a claim would.
    assert SYSTEM_CLOCK.monotonic() - begun < PATIENCE_OF_CLAIMS_S
    assert store.get_task("y") is not None
    assert list(claiming.tasks) == []
    assert [each.uuid for each in store.claim_tasks(["Pay"], 2)] == ["a", "b"]
    # Compared with the minute of the server, as above.
    assert SYSTEM_CLOCK.monotonic() - begun < 30


def test_a_store_cannot_be_opened_without_its_server(server: MongoServer, near: str) -> None:
    server.stop()
    try:
        with pytest.raises(StoreUnavailable, match="is it running"):
            MongoStore(near)
    finally:
        server.start()
    MongoStore(near).close()
