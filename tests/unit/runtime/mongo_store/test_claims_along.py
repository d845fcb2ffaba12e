"""What waits is claimed in the transaction of a result, and never in the way of the result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymongo
import pytest
from pymongo.monitoring import CommandListener
from tests.unit.runtime.mongo_store.conftest import Opened

from afl.clock import FakeClock
from afl.errors import Conflict
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.tasks import touch
from afl.runtime.persistence import Claiming, IterationChanges, View
from afl.testing.contracts.store.exam import add_tasks, claim_one, new_task, read_task

PATIENCE_S = 30.0
TASKS, WORKERS = 80, 4

Decided = tuple[IterationChanges, None]


class Commits(CommandListener):
    """Does something right before the next commit is sent."""

    def __init__(self) -> None:
        self.harm: Callable[[Any], object] | None = None

    def started(self, event: Any) -> None:
        if event.command_name == "commitTransaction" and self.harm is not None:
            harm, self.harm = self.harm, None
            harm(event.command)

    def succeeded(self, event: Any) -> None: ...

    def failed(self, event: Any) -> None: ...


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(url: str, clock: FakeClock, commits: Commits) -> Iterator[MongoStore]:
    client: pymongo.MongoClient[dict[str, Any]]
    client = pymongo.MongoClient(url, appname="afl", event_listeners=[commits])
    with client, MongoStore(client=client, clock=clock) as opened:
        yield opened


@pytest.fixture
def other(opened: Opened) -> MongoStore:
    return opened()


@pytest.fixture
def asked() -> Claiming:
    return _asked()


def _asked(limit: int = 1, owner: str = "me") -> Claiming:
    return Claiming(["Pay"], "default", owner, 4000, limit)


def _result(asked: Claiming) -> IterationChanges:
    """Stands for the end of a task: something is written, and more is asked for."""
    return IterationChanges(
        created_tasks=[new_task("shop.Done", state=TaskState.COMPLETED)], claimings=[asked]
    )


def _begun(view: View) -> None:
    """With its first question a transaction sees what is there, and nothing that comes later."""
    assert view.get_tasks(["none"]) == {}


def _brought(asked: Claiming) -> list[str]:
    return [each.uuid for each in asked.tasks]


def _make_busy(store: MongoStore) -> None:
    """The first that waits is of a step that has a running task."""
    add_tasks(store, new_task(uuid="first", step_id="busy"))
    claim_one(store)
    add_tasks(store, new_task(uuid="second", step_id="busy"))


@pytest.mark.parametrize("limit", [1, 3])
def test_claims_along_are_by_the_clock_of_the_server(store: MongoStore, limit: int) -> None:
    add_tasks(store, *(new_task(uuid=f"{each}") for each in range(limit + 1)))
    before, asked = store.now_ms(), _asked(limit)
    store.commit(_result(asked))
    assert _brought(asked) == [f"{each}" for each in range(limit)]
    for each in asked.tasks:
        assert each == read_task(store, each.uuid)
        assert (each.owner, each.fence, each.deliveries) == ("me", 1, 1)
        assert each.lease_expires == each.updated + 4000
        assert before <= each.updated <= store.now_ms()


def test_a_task_that_somebody_takes_meanwhile_costs_one_more_try(
    store: MongoStore, other: MongoStore, asked: Claiming
) -> None:
    add_tasks(store, new_task(uuid="a"), new_task(uuid="b"))
    runs: list[View] = []

    def decision(view: View) -> Decided:
        _begun(view)
        runs.append(view)
        if len(runs) == 1:
            claim_one(other)
        return _result(asked), None

    store.decide(decision)
    assert len(runs) == 2
    assert _brought(asked) == []
    assert [each.uuid for each in store.claim_tasks(["Pay"], 9)] == ["b"]


def test_where_others_are_at_the_queue_results_bring_nothing_for_a_while(
    store: MongoStore, other: MongoStore, clock: FakeClock
) -> None:
    add_tasks(store, *(new_task(uuid=each) for each in "abcd"))

    def disturbed(view: View) -> Decided:
        _begun(view)
        if read_task(other, "a").fence == 0:
            claim_one(other)
        return _result(_asked()), None

    store.decide(disturbed)
    clock.advance(4)
    store.commit(_result(during := _asked()))
    clock.advance(1.5)
    store.commit(_result(after := _asked()))
    assert (_brought(during), _brought(after)) == ([], ["b"])


def test_once_in_a_second_a_worker_looks_for_itself(store: MongoStore, clock: FakeClock) -> None:
    """What has become due goes before what is new; along with results only what is new comes."""
    add_tasks(store, new_task(uuid="due", not_before=1), *(new_task(uuid=each) for each in "abc"))
    brought = []
    for seconds in (0, 0.9, 0.2, 0.2):
        clock.advance(seconds)
        store.commit(_result(asked := _asked()))
        brought.append(_brought(asked))
    assert brought == [["a"], ["b"], [], ["c"]]
    assert [each.uuid for each in store.claim_tasks(["Pay"], 1)] == ["due"]


def test_a_step_that_is_busy_does_not_keep_a_result_from_being_written(
    store: MongoStore, asked: Claiming
) -> None:
    _make_busy(store)
    store.commit(changes := _result(asked))
    assert _brought(asked) == []
    assert read_task(store, changes.created_tasks[0].uuid)
    assert read_task(store, "second").state == TaskState.PENDING


def test_a_document_in_the_way_of_the_result_is_seen_though_a_claim_failed_before(
    store: MongoStore, asked: Claiming
) -> None:
    """Who meets one looks again, once; the claim does not count."""
    _make_busy(store)
    runs: list[View] = []

    def decision(view: View) -> Decided:
        runs.append(view)
        made = new_task("x", uuid="first" if len(runs) == 2 else "new")
        return IterationChanges(created_tasks=[made], claimings=[asked]), None

    store.decide(decision)
    assert len(runs) == 3
    assert read_task(store, "new")


def test_nobody_waits_for_who_holds_the_task(
    store: MongoStore, other: MongoStore, asked: Claiming
) -> None:
    add_tasks(store, new_task(uuid="a"))
    held, go_on = threading.Event(), threading.Event()

    def hold(tx: Any) -> None:
        touch(tx, ["a"])
        held.set()
        assert go_on.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(other.writer.run, hold)
        assert held.wait(PATIENCE_S)
        try:
            store.commit(_result(asked))
            assert not holding.done()
        finally:
            go_on.set()
        holding.result(PATIENCE_S)
    assert _brought(asked) == []


def test_a_transaction_that_is_ended_takes_its_claims_with_it(
    store: MongoStore, opened: Opened, commits: Commits, asked: Claiming
) -> None:
    """As whoever waits for long does with transactions of the dead. It is run again."""
    add_tasks(store, new_task(uuid="a"))
    admin = opened().database.client.admin
    commits.harm = lambda command: admin.command("killSessions", [command["lsid"]])
    store.commit(changes := _result(asked))
    assert commits.harm is None
    assert _brought(asked) == []
    assert read_task(store, "a").state == TaskState.PENDING
    assert read_task(store, changes.created_tasks[0].uuid)


@pytest.mark.parametrize("last", ["new", "a"], ids=["all good", "one fails"])
def test_decisions_that_share_a_transaction_claim_nothing(store: MongoStore, last: str) -> None:
    """The claim of one would undo the others. Nor do those that are run again, each alone."""
    add_tasks(store, *(new_task(uuid=each) for each in "abc"))
    begun, go_on = threading.Event(), threading.Event()

    def hold(_view: View) -> Decided:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return IterationChanges(), None

    waited = [store.decide_later(hold)]
    assert begun.wait(PATIENCE_S)
    claims = [_asked(), _asked()]
    waited += [store.decide_later(lambda _, each=each: (_result(each), None)) for each in claims]  # type: ignore[misc]
    made = IterationChanges(created_tasks=[new_task("x", uuid=last)])
    waited.append(store.decide_later(lambda _: (made, None)))
    go_on.set()
    errors = [each.exception(PATIENCE_S) for each in waited]
    assert [type(each) for each in errors if each is not None] == (
        [Conflict] if last == "a" else []
    )
    assert [_brought(each) for each in claims] == [[], []]
    assert len(store.claim_tasks(["Pay"], 9)) == 3


def test_many_who_claim_along_get_each_task_once(store: MongoStore, opened: Opened) -> None:
    add_tasks(store, *(new_task() for _ in range(TASKS)))

    def work(mine: MongoStore) -> list[TaskDefinition]:
        taken: list[TaskDefinition] = []
        while store.get_pending_tasks():
            mine.commit(_result(asked := _asked()))
            taken += asked.tasks or mine.claim_tasks(["Pay"], 1)
        return taken

    stores = [opened() for _ in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        claims = [each for some in pool.map(work, stores) for each in some]
    assert len({each.uuid for each in claims}) == len(claims) == TASKS
    assert {(each.fence, each.deliveries) for each in claims} == {(1, 1)}
