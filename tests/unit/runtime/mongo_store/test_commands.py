"""How often the server is asked: each command takes a journey, in a transaction others wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from pymongo.monitoring import CommandListener
from tests.unit.runtime.mongo_store.conftest import Opened

from afl.db.mongo import Transaction
from afl.errors import Conflict
from afl.lang.compiler import compile_source
from afl.runtime.claims import NextClaim
from afl.runtime.evaluator import Evaluator
from afl.runtime.mongo_store import MongoStore
from afl.runtime.mongo_store.tasks import get_with_steps
from afl.runtime.persistence import DEFAULT_TASK_LIST
from afl.testing.contracts.store.exam import add_tasks, claim_one, new_task

PROGRAM = compile_source(
    """namespace shop {
    event facet Pay(n: Long) => (n: Long)
    workflow W(n: Long) => (n: Long) andThen {
        paid = Pay(n = $.n)
        yield W(n = paid.n)
    }
    workflow Each(items: [Long]) => (n: [Long]) andThen foreach i in $.items {
        paid = Pay(n = i)
        yield Each(n = paid.n)
    }
}"""
)
SHELF = "shelf"


def nothing() -> None:
    """Nobody does anything meanwhile."""


class Commands(CommandListener):
    """What was sent inside transactions; how many changes were in each command; and how many
    changes gave what they had changed."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.changes: list[int] = []
        self.takes = 0
        #: Done once, when a question was answered.
        self.meanwhile: Callable[[], object] = nothing

    def started(self, event: Any) -> None:
        if "txnNumber" in event.command and "autocommit" in event.command:
            self.names.append(event.command_name)
        if event.command_name == "update":
            self.changes.append(len(event.command["updates"]))
        self.takes += event.command_name == "findAndModify"

    def succeeded(self, event: Any) -> None:
        if event.command_name == "aggregate":
            meanwhile, self.meanwhile = self.meanwhile, nothing
            meanwhile()

    def failed(self, event: Any) -> None: ...


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
def store(url: str, commands: Commands) -> Iterator[MongoStore]:
    with pymongo.MongoClient[dict[str, Any]](url, event_listeners=[commands]) as client:
        client.get_default_database("afl")[SHELF].drop()
        with MongoStore(client=client) as opened:
            yield opened


def test_a_result_that_ends_its_run_takes_five_commands(
    store: MongoStore, commands: Commands
) -> None:
    evaluator = Evaluator(store)
    run = evaluator.submit(PROGRAM, "shop.W", {"n": 1})
    (task,) = store.claim_tasks(["shop.Pay"], 1)
    commands.names.clear()
    evaluator.complete_task(task, {"n": 2})
    assert commands.names == ["aggregate", *["update"] * 3, "commitTransaction"]
    assert store.wait_for_run(run)


def test_the_next_task_is_claimed_right_before_the_commit_of_a_result(
    store: MongoStore, commands: Commands
) -> None:
    """Until the commit nobody else can have it."""
    evaluator = Evaluator(store)
    for number in range(2):
        evaluator.submit(PROGRAM, "shop.W", {"n": number})
    (task,) = store.claim_tasks(["shop.Pay"], 1)
    further = NextClaim(frozenset(["shop.Pay"]), "me", task_list=DEFAULT_TASK_LIST)
    commands.names.clear()
    (brought,) = evaluator.complete_task(task, {"n": 0}, claim=further)
    assert commands.names[-2:] == ["findAndModify", "commitTransaction"]
    assert len(commands.names) == 6
    assert brought == store.get_task(brought.uuid)


def test_many_that_wait_are_claimed_by_one_change(store: MongoStore, commands: Commands) -> None:
    add_tasks(store, *(new_task() for _ in range(20)))
    commands.changes.clear()
    assert len(store.claim_tasks(["Pay"], 20)) == 20
    assert commands.changes == [1]


def test_a_step_that_is_busy_keeps_nobody_from_the_others(
    store: MongoStore, commands: Commands
) -> None:
    """The change of many ends at it, and leaves some behind."""
    add_tasks(store, new_task(uuid="first", step_id="busy"))
    claim_one(store)
    add_tasks(store, new_task(uuid="second", step_id="busy"))
    add_tasks(store, *(new_task(uuid=f"free-{each}") for each in range(3)))
    commands.changes.clear()
    claimed = store.claim_tasks(["Pay"], 4)
    assert {each.uuid for each in claimed} == {f"free-{each}" for each in range(3)}
    assert {(each.fence, each.deliveries) for each in claimed} == {(1, 1)}
    assert commands.changes[:2] == [1, 4], "of many, and then one by one"


def test_who_comes_late_finds_the_first_that_is_left_by_one_change(
    store: MongoStore, commands: Commands, opened: Opened
) -> None:
    """In a crowd others have taken most of what was seen."""
    add_tasks(store, *(new_task(uuid=f"task-{each}") for each in range(6)))
    other = opened()
    commands.meanwhile = lambda: other.claim_tasks(["Pay"], 4)
    commands.takes = 0
    assert [each.uuid for each in store.claim_tasks(["Pay"], 1)] == ["task-4"]
    assert commands.takes == 1


def test_who_comes_late_goes_on_with_the_next_kind(
    store: MongoStore, commands: Commands, opened: Opened
) -> None:
    """Retries that have become due go first; then what is new."""
    now = store.now_ms()
    add_tasks(store, *(new_task(uuid=f"new-{each}") for each in range(2)))
    add_tasks(store, *(new_task(uuid=f"due-{each}", not_before=now - 1) for each in range(2)))
    other = opened()
    commands.meanwhile = lambda: other.claim_tasks(["Pay"], 3)
    assert [each.uuid for each in store.claim_tasks(["Pay"], 1)] == ["new-1"]


def test_who_wants_one_passes_over_a_step_that_is_busy(store: MongoStore) -> None:
    add_tasks(store, new_task(name="Other", step_id="busy"))
    claim_one(store, "Other")
    add_tasks(store, new_task(uuid="second", step_id="busy"))
    add_tasks(store, *(new_task(uuid=f"free-{each}") for each in range(2)))
    assert [each.uuid for each in store.claim_tasks(["Pay"], 1)] == ["free-0"]


def test_the_end_of_a_round_does_not_read_what_all_rounds_are_about(store: MongoStore) -> None:
    evaluator = Evaluator(store)
    run = evaluator.submit(PROGRAM, "shop.Each", {"items": [1, 2]})
    root = store.get_workflow_root(run)
    assert root is not None
    first, last = store.claim_tasks(["shop.Pay"], 2)
    assert root.id not in _around(store, first.uuid)
    evaluator.complete_task(first, {"n": 1})
    assert root.id in _around(store, last.uuid), "the foreach ends with it"


def _around(store: MongoStore, task_id: str) -> set[str]:
    found = store.database.read(lambda reader: get_with_steps(reader, task_id))
    assert found is not None
    return {each["_id"] for each in found[1]}


def test_what_is_new_goes_along_with_what_is_changed(store: MongoStore, commands: Commands) -> None:
    _shelve(store, {"_id": "old", "n": 1})
    commands.names.clear()

    def change(tx: Transaction) -> None:
        tx.insert(SHELF, [{"_id": "new", "n": 5}])
        tx.update(SHELF, [({"_id": "old"}, {"$set": {"n": 2}})], LookupError("old is gone"))

    store.writer.run(change)
    assert commands.names == ["update", "commitTransaction"]
    assert _shelf(store) == [{"_id": "new", "n": 5}, {"_id": "old", "n": 2}]


def test_what_is_there_already_is_not_new(store: MongoStore) -> None:
    _shelve(store, {"_id": "old", "n": 1})
    attempts = []

    def change(tx: Transaction) -> None:
        attempts.append(tx)
        tx.insert(SHELF, [{"_id": "old", "n": 5}])
        tx.update(SHELF, [({"_id": "old"}, {"$set": {"n": 2}})], LookupError("old is gone"))

    with pytest.raises(Conflict, match="already there"):
        store.writer.run(change)
    assert len(attempts) == 2, "who meets one looks again"
    assert _shelf(store) == [{"_id": "old", "n": 1}]


def test_what_is_gone_is_not_changed_along_with_what_is_new(store: MongoStore) -> None:
    _shelve(store, {"_id": "old", "n": 1})

    def change(tx: Transaction) -> None:
        tx.insert(SHELF, [{"_id": "new", "n": 5}])
        tx.update(SHELF, [({"_id": "gone"}, {"$set": {"n": 2}})], LookupError("it is gone"))

    with pytest.raises(LookupError, match="it is gone"):
        store.writer.run(change)
    assert _shelf(store) == [{"_id": "old", "n": 1}]


def _shelve(store: MongoStore, document: dict[str, Any]) -> None:
    store.writer.run(lambda tx: tx.insert(SHELF, [document]))


def _shelf(store: MongoStore) -> list[dict[str, Any]]:
    return store.database.read(lambda reader: reader.all(SHELF, {}, sort=[("_id", 1)]))
