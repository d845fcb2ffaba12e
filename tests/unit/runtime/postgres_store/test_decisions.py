"""Decisions of several processes on one database: who waits for whom, and what each sees."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest
from tests.engine.programs import compiled
from tests.unit.runtime.postgres_store.conftest import Opened

from afl.db.postgres import Transaction
from afl.errors import Conflict, StoreMisused
from afl.runtime.claims import claimed
from afl.runtime.errors import InvalidTaskStateError
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import Claim, IterationChanges, PersistenceAPI, View
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.types import StepId, WorkflowId
from afl.testing.contracts.store.exam import add_tasks, new_flow, new_run, new_step, new_task

T = TypeVar("T")

PATIENCE_S = 20.0
#: Long enough for who does not have to wait, and short enough to be waited for.
MOMENT_S = 0.3

TEXT = """workflow W(items: [Long]) => (sums: [Long]) andThen foreach i in $.items {
    a = Add(a = i) yield W(sums = a.sum)
}"""


class Inside:
    """A decision that has read, and goes on when it may."""

    def __init__(self, store: PersistenceAPI, read: Callable[[View], Any]) -> None:
        self._read = read
        self.seen: list[Any] = []
        self.has_read, self.may_go_on = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.future = self._pool.submit(store.decide, self._decide)
        assert self.has_read.wait(PATIENCE_S)

    def _decide(self, view: View) -> tuple[IterationChanges, Any]:
        self._read(view)
        self.has_read.set()
        assert self.may_go_on.wait(PATIENCE_S)
        return IterationChanges(), self._read(view)

    def end(self) -> Any:
        self.may_go_on.set()
        try:
            return self.future.result(PATIENCE_S)
        finally:
            self._pool.shutdown()


@contextmanager
def inside(store: PersistenceAPI, read: Callable[[View], Any]) -> Iterator[Inside]:
    decision = Inside(store, read)
    try:
        yield decision
    finally:
        decision.end()


@contextmanager
def aside(action: Callable[[], T]) -> Iterator[Future[T]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(action)


def waits(future: Future[Any]) -> bool:
    try:
        future.result(MOMENT_S)
    except TimeoutError:
        return True
    return False


def one_more(view: View, step_id: StepId) -> tuple[IterationChanges, int]:
    step = view.get_step(step_id)
    assert step is not None
    step.pending += 1
    return IterationChanges(updated_steps=[step]), step.pending


@pytest.fixture
def other(opened: Opened) -> PostgresStore:
    return opened()


def new_runs(store: PersistenceAPI, *names: str) -> None:
    store.commit(
        IterationChanges(
            created_runs=[new_run(each) for each in names],
            created_steps=[
                new_step(id=StepId(f"step of {each}"), workflow_id=WorkflowId(each))
                for each in names
            ],
        )
    )


def test_decisions_about_different_runs_do_not_wait_for_each_other(
    store: PostgresStore, other: PostgresStore
) -> None:
    new_runs(store, "one", "two")
    with inside(store, lambda view: view.get_run(WorkflowId("one"))):
        assert other.decide(lambda view: one_more(view, StepId("step of two"))) == 1


def test_decisions_about_one_run_see_each_other(store: PostgresStore, other: PostgresStore) -> None:
    new_runs(store, "one")
    with (
        inside(store, lambda view: view.get_steps_by_workflow(WorkflowId("one"))) as first,
        aside(lambda: other.decide(lambda view: one_more(view, StepId("step of one")))) as second,
    ):
        assert waits(second)
        assert first.end()[0].pending == 0
        assert second.result(PATIENCE_S) == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.save_step(store.get_step(StepId("step of one"))),
        lambda store: store.commit(
            IterationChanges(created_steps=[new_step(workflow_id=WorkflowId("one"))])
        ),
        lambda store: add_tasks(store, new_task(workflow_id="one")),
        lambda store: store.save_task(new_task(workflow_id="one")),
        lambda store: store.update_runner_state("one", "paused"),
        lambda store: store.save_runner(new_run("one", state="paused")),
    ],
    ids=["a step", "a new step", "a new task", "a saved task", "the state", "the run"],
)
def test_nothing_that_a_decision_has_read_changes(
    store: PostgresStore, other: PostgresStore, write: Callable[[PersistenceAPI], None]
) -> None:
    new_runs(store, "one")

    def read(view: View) -> Any:
        run = WorkflowId("one")
        return view.get_run(run), view.get_steps_by_workflow(run), view.get_open_tasks(run)

    before = store.decide(lambda view: (IterationChanges(), read(view)))
    with inside(store, read) as first, aside(lambda: write(other)) as change:
        assert waits(change)
        assert first.end() == before
        change.result(PATIENCE_S)
    assert store.decide(lambda view: (IterationChanges(), read(view))) != before


def test_a_step_of_a_run_that_nobody_keeps_is_as_safe(
    store: PostgresStore, other: PostgresStore
) -> None:
    step = new_step()
    store.save_step(step)
    with (
        inside(store, lambda view: view.get_step(step.id)) as first,
        aside(lambda: other.decide(lambda view: one_more(view, step.id))) as second,
    ):
        assert waits(second)
        assert first.end().pending == 0


def test_nobody_claims_a_task_that_a_decision_has_read(
    store: PostgresStore, other: PostgresStore
) -> None:
    add_tasks(store, new_task(uuid="task"), new_task(uuid="free"))
    with inside(store, lambda view: view.get_task("task")):
        assert [each.uuid for each in other.claim_tasks(["Pay"], 5)] == ["free"]
    assert [each.uuid for each in other.claim_tasks(["Pay"], 5)] == ["task"]


def test_a_renewal_waits_for_a_decision_about_its_task(
    store: PostgresStore, other: PostgresStore
) -> None:
    add_tasks(store, new_task())
    (task,) = store.claim_tasks(["Pay"], 1)
    with (
        inside(store, lambda view: view.get_task(task.uuid)) as first,
        aside(lambda: other.extend_leases([Claim(task.uuid, task.fence)])) as renewal,
    ):
        assert waits(renewal)
        assert first.end() == task
        assert renewal.result(PATIENCE_S) == [True]


def test_who_met_a_row_that_was_not_there_looks_again(
    store: PostgresStore, other: PostgresStore
) -> None:
    """As submits with the same key do."""
    looks: list[bool] = []

    def submit(view: View) -> tuple[IterationChanges, str]:
        known = view.get_run_by_key("once")
        looks.append(known is not None)
        if known is not None:
            return IterationChanges(), known.uuid
        if len(looks) == 1:
            other.save_runner(new_run("first", key="once"))
        return IterationChanges(created_runs=[new_run("second", key="once")]), "second"

    assert store.decide(submit) == "first"
    assert looks == [False, True]


def test_a_row_that_is_in_the_way_again_is_a_conflict(store: PostgresStore) -> None:
    store.save_runner(new_run("first", key="once"))
    runs: list[None] = []

    def stubborn(_view: View) -> tuple[IterationChanges, None]:
        runs.append(None)
        return IterationChanges(created_runs=[new_run("second", key="once")]), None

    with pytest.raises(Conflict):
        store.decide(stubborn)
    assert len(runs) == 2


def test_a_program_is_not_removed_while_a_run_of_it_is_made(
    store: PostgresStore, other: PostgresStore
) -> None:
    store.commit(IterationChanges(flows=[new_flow("flow")], created_runs=[new_run("old")]))
    store.update_runner_state("old", "completed")
    with ThreadPoolExecutor(1) as pool:
        has_kept, may_end = threading.Event(), threading.Event()

        def submit(view: View) -> tuple[IterationChanges, None]:
            assert view.get_flow("flow") is not None
            has_kept.set()
            assert may_end.wait(PATIENCE_S)
            return IterationChanges(created_runs=[new_run("new")]), None

        made = pool.submit(store.decide, submit)
        assert has_kept.wait(PATIENCE_S)
        with aside(lambda: other.prune_runs(-1000)) as pruned:
            assert waits(pruned)
            may_end.set()
            made.result(PATIENCE_S)
            assert pruned.result(PATIENCE_S).runs == 1
    assert store.get_flow("flow") is not None


def test_a_task_that_is_claimed_while_its_run_is_waited_for_is_not_given_up(
    store: PostgresStore, other: PostgresStore
) -> None:
    evaluator = Evaluator(store)
    run_id = evaluator.submit(compiled(TEXT), "W", {"items": [1]})
    (task,) = store.get_all_tasks()
    with (
        inside(other, lambda view: view.get_run(run_id)) as busy,
        aside(lambda: evaluator.discard_task(task.uuid)) as discarded,
    ):
        assert waits(discarded)
        (held,) = other.claim_tasks(["Add"], 1)
        busy.end()
        with pytest.raises(InvalidTaskStateError):
            discarded.result(PATIENCE_S)
    evaluator.complete_task(held, {"sum": 1})
    assert evaluator.result(run_id).outputs == {"sums": [1]}


def test_a_task_of_no_run_that_is_claimed_while_it_is_waited_for_is_not_given_up(
    store: PostgresStore, other: PostgresStore
) -> None:
    add_tasks(store, new_task(uuid="task"))
    has_read, may_claim = threading.Event(), threading.Event()
    times: list[int] = []

    def claim(view: View) -> tuple[IterationChanges, None]:
        task = view.get_task("task")
        assert task is not None
        has_read.set()
        assert may_claim.wait(PATIENCE_S)
        taken = replace(claimed(task, "worker", times[0], 15_000), version=task.version)
        return IterationChanges(updated_tasks=[taken]), None

    with aside(lambda: other.decide(claim)) as claiming:
        assert has_read.wait(PATIENCE_S)
        with aside(lambda: Evaluator(store).discard_task("task")) as discarded:
            assert waits(discarded)
            times.append(store.now_ms())
            may_claim.set()
            claiming.result(PATIENCE_S)
            with pytest.raises(InvalidTaskStateError):
                discarded.result(PATIENCE_S)


# Together


@contextmanager
def writer_held(store: PostgresStore) -> Iterator[None]:
    """As long as another write goes on, decisions have to wait together."""
    with inside(store, lambda view: view.now_ms()):
        yield


def creating(uuid: str) -> Callable[[View], tuple[IterationChanges, str]]:
    return lambda _view: (IterationChanges(created_tasks=[new_task(uuid=uuid)]), uuid)


def test_decisions_that_wait_together_share_a_transaction(store: PostgresStore) -> None:
    with writer_held(store):
        before = store.writer.counts.batches
        futures = [store.decide_later(creating(each)) for each in "abcde"]
        assert not any(each.done() for each in futures)
    assert [each.result(PATIENCE_S) for each in futures] == list("abcde")
    assert [each.uuid for each in store.get_pending_tasks()] == list("abcde")
    assert store.writer.counts.batches - before == 2
    assert store.writer.counts.largest_batch == 5


def test_results_that_wait_together_are_one_decision(store: PostgresStore) -> None:
    evaluator = Evaluator(store)
    program = compiled(TEXT)
    runs = [evaluator.submit(program, "W", {"items": [number, 7]}) for number in range(10)]
    tasks = store.claim_tasks(["t.Add"], 20)
    with writer_held(store):
        before = store.writer.counts.requests
        pending = [evaluator.complete_task_later(each, {"sum": 1}) for each in tasks]
    for each in pending:
        each.result(PATIENCE_S)
    assert store.writer.counts.requests - before == 2
    assert [evaluator.result(each).outputs for each in runs] == [{"sums": [1, 1]}] * 10


def test_in_a_transaction_of_many_only_the_first_waits_for_others(
    store: PostgresStore, url: str
) -> None:
    new_runs(store, "one", "two", "three")
    with psycopg.connect(url) as blocker:
        with writer_held(store):
            blocker.execute("SELECT FROM afl_run WHERE uuid = 'two' FOR UPDATE")
            futures = [
                store.decide_later(partial(one_more, step_id=StepId(f"step of {name}")))
                for name in ("one", "two", "three")
            ]
        # They are durable, seen from elsewhere, while the second one waits.
        pendings = "SELECT pending FROM afl_step WHERE id = ANY (%s) AND pending = 1"
        ids = ["step of one", "step of three"]
        with psycopg.connect(url, autocommit=True) as observer:
            for _ in range(2000):
                if len(observer.execute(pendings, (ids,)).fetchall()) == 2:
                    break
            else:
                pytest.fail("those behind it wait, too")
        assert not futures[1].done()
        blocker.rollback()
    assert [each.result(PATIENCE_S) for each in futures] == [1, 1, 1]


def test_who_fails_among_many_fails_alone(store: PostgresStore) -> None:
    add_tasks(store, new_task(uuid="there"))

    def raising(_view: View) -> tuple[IterationChanges, None]:
        raise LookupError("no such thing")

    with writer_held(store):
        futures: list[Future[Any]] = [
            store.decide_later(creating("a")),
            store.decide_later(raising),
            store.decide_later(creating("there")),
            store.decide_later(creating("b")),
        ]
    kinds = [type(each.exception(PATIENCE_S)) for each in futures]
    assert kinds == [type(None), LookupError, Conflict, type(None)]
    assert {each.uuid for each in store.get_pending_tasks()} == {"a", "b", "there"}


# Misuse


def test_the_store_itself_cannot_be_asked_inside_a_decision(store: PostgresStore) -> None:
    for ask in (
        lambda: store.get_all_tasks(),
        lambda: store.save_task(new_task()),
        lambda: store.decide(lambda _view: (IterationChanges(), None)),
        store.close,
    ):
        with pytest.raises(StoreMisused, match="inside a decision"):
            store.decide(lambda _view, ask=ask: (IterationChanges(), ask()))  # type: ignore[misc]


def test_an_error_of_the_database_that_was_swallowed_undoes_everything(
    store: PostgresStore,
) -> None:
    def careless(tx: Transaction) -> None:
        tx.put("DELETE FROM afl_task", [()])
        with pytest.raises(psycopg.Error):
            tx.query_one("SELECT 1 / 0")

    add_tasks(store, new_task())
    with pytest.raises(StoreMisused, match="undone after an error"):
        store.writer.run(careless)
    assert len(store.get_pending_tasks()) == 1
