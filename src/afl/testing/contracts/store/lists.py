"""Lists in pages, counts that end early, and ids by their beginnings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from afl.errors import UsageError
from afl.runtime.entities import Parameter, RunnerDefinition, RunnerState, TaskState
from afl.runtime.listing import Count, Page, Queue, RunQuery, TaskQuery
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.testing.contracts.store.exam import (
    StoreExam,
    add_tasks,
    claim_of,
    claim_one,
    new_run,
    new_task,
)


def _run(run_id: str, workflow: str = "shop.Order", **fields: Any) -> RunnerDefinition:
    run = new_run(run_id, **fields)
    return replace(run, workflow=replace(run.workflow, name=workflow))


def _add(store: PersistenceAPI, *runs: RunnerDefinition) -> None:
    store.commit(IterationChanges(created_runs=list(runs)))


def _runs(store: PersistenceAPI, **query: Any) -> list[str]:
    page = store.list_runs(RunQuery(**query))
    assert not page.has_more
    return [each.workflow_id for each in page.items]


def _tasks(store: PersistenceAPI, **query: Any) -> list[str]:
    page = store.list_tasks(TaskQuery(**query))
    assert not page.has_more
    return [each.uuid for each in page.items]


def _pages(ask: Callable[[str | None], Page[Any]], name: str) -> list[list[str]]:
    """The names of all records, page by page."""
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = ask(cursor)
        pages.append([getattr(each, name) for each in page.items])
        if not page.has_more:
            return pages
        cursor = page.cursor


class ListContract(StoreExam):
    # Runs

    def test_runs_are_listed_newest_first_without_their_parameters(
        self, store: PersistenceAPI
    ) -> None:
        _add(store, _run("a", parameters=[Parameter("n", 1)]), _run("b"))
        page = store.list_runs(RunQuery())
        assert page.items == [_run("b"), _run("a")]
        assert not page.has_more

    def test_pages_of_runs_hold_each_run_once(self, store: PersistenceAPI) -> None:
        _add(store, *(_run(f"r{each}") for each in range(7)))
        found = _pages(lambda cursor: store.list_runs(RunQuery(), 3, cursor), "workflow_id")
        assert found == [["r6", "r5", "r4"], ["r3", "r2", "r1"], ["r0"]]
        whole = store.list_runs(RunQuery(), 7)
        assert (len(whole.items), whole.has_more) == (7, False)

    def test_new_runs_and_removed_ones_shift_no_page(self, store: PersistenceAPI) -> None:
        ended: dict[str, Any] = {"state": RunnerState.COMPLETED, "end_time": 1}
        _add(store, *(_run(f"r{each}", **ended if each == 3 else {}) for each in range(6)))
        first = store.list_runs(RunQuery(), 2)
        _add(store, _run("new"))
        assert store.prune_runs(1).runs == 1
        second = store.list_runs(RunQuery(), 2, first.cursor)
        assert [each.workflow_id for each in second.items] == ["r2", "r1"]

    def test_runs_are_listed_by_state_as_it_is_now(self, store: PersistenceAPI) -> None:
        _add(store, *(_run(each) for each in ("a", "b", "c")))
        store.update_runner_state("b", RunnerState.FAILED)
        assert _runs(store, state=RunnerState.FAILED) == ["b"]
        assert _runs(store, state=RunnerState.RUNNING) == ["c", "a"]
        assert _runs(store, state=RunnerState.PAUSED) == []

    def test_runs_are_listed_by_workflows_and_state(self, store: PersistenceAPI) -> None:
        _add(
            store,
            _run("a", "shop.Order"),
            _run("b", "shop.Refund", state=RunnerState.FAILED),
            _run("c", "shop.Order", state=RunnerState.FAILED),
            _run("d", "bank.Pay"),
        )
        assert _runs(store, workflows=("shop.Order",)) == ["c", "a"]
        assert _runs(store, workflows=("shop.Order", "bank.Pay", "shop.Order")) == ["d", "c", "a"]
        both = ("shop.Order", "shop.Refund")
        assert _runs(store, workflows=both, state=RunnerState.FAILED) == ["c", "b"]
        assert _runs(store, workflows=("Order", "shop", "shop.Orders")) == []
        assert _runs(store, workflows=()) == []

    def test_runs_fit_by_their_workflow_or_by_their_id(self, store: PersistenceAPI) -> None:
        _add(store, _run("a", "x.X"), _run("b", "x.Y"), _run("c", "x.Y"), _run("d", "x.Z"))
        assert _runs(store, ids=("a", "d", "none")) == ["d", "a"]
        assert _runs(store, workflows=("x.Y",), ids=("b", "d")) == ["d", "c", "b"]
        store.update_runner_state("d", RunnerState.FAILED)
        assert _runs(store, ids=("a", "d"), state=RunnerState.FAILED) == ["d"]

    def test_pages_of_what_fits_hold_each_run_once(self, store: PersistenceAPI) -> None:
        states = [RunnerState.RUNNING, RunnerState.FAILED, RunnerState.PAUSED]
        names = ["x.X", "x.Y"]
        runs = [_run(f"r{n}", names[n % 2], state=states[n % 3]) for n in range(12)]
        _add(store, *runs)
        query = RunQuery(workflows=tuple(names), ids=("r0", "r11"))
        found = _pages(lambda cursor: store.list_runs(query, 5, cursor), "workflow_id")
        assert list(chain(*found)) == [f"r{n}" for n in range(11, -1, -1)]
        query = RunQuery(RunnerState.FAILED, tuple(names))
        found = _pages(lambda cursor: store.list_runs(query, 2, cursor), "workflow_id")
        assert found == [["r10", "r7"], ["r4", "r1"]]

    def test_a_run_that_is_saved_again_keeps_its_place(self, store: PersistenceAPI) -> None:
        store.save_runner(_run("a"))
        store.save_runner(_run("b", "x.X"))
        store.save_runner(_run("a", "x.X"))
        assert _runs(store, workflows=("x.X",)) == ["b", "a"]
        assert _runs(store, workflows=("shop.Order",)) == []

    def test_runs_are_counted_by_state_as_far_as_asked(self, store: PersistenceAPI) -> None:
        assert store.count_runs() == {}
        _add(store, *(_run(str(each)) for each in range(3)))
        _add(store, _run("x", state=RunnerState.FAILED))
        assert store.count_runs() == {"running": Count(3), "failed": Count(1)}
        assert store.count_runs(3)["running"] == Count(3)
        assert store.count_runs(2) == {"running": Count(2, is_exact=False), "failed": Count(1)}

    def test_workflows_that_have_runs_are_listed_once(self, store: PersistenceAPI) -> None:
        assert store.list_run_workflows() == []
        _add(store, *(_run(f"{n}", f"x.W{n % 3}") for n in range(9)), _run("B", "a.B"))
        assert store.list_run_workflows() == ["a.B", "x.W0", "x.W1", "x.W2"]

    def test_ids_of_runs_are_found_by_their_beginnings(self, store: PersistenceAPI) -> None:
        ids = ["ab-1", "ab-2", "a", "ac", "b", "ab_2", "AB-3", "a%", "ab"]
        _add(store, *map(_run, ids))
        assert store.find_run_ids("ab-") == ["ab-1", "ab-2"]
        assert store.find_run_ids("ab") == ["ab", "ab-1", "ab-2", "ab_2"]
        assert store.find_run_ids("ab", 2) == ["ab", "ab-1"]
        assert store.find_run_ids("a%") == ["a%"]
        assert store.find_run_ids("ab_") == ["ab_2"]
        assert store.find_run_ids("zz") == []

    def test_a_cursor_that_is_none_is_refused(self, store: PersistenceAPI) -> None:
        with pytest.raises(UsageError):
            store.list_runs(RunQuery(), 5, "nowhere!")
        with pytest.raises(UsageError):
            store.list_tasks(TaskQuery(), 5, "-?-")

    # Tasks

    def test_tasks_are_listed_newest_first(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task(uuid=f"t{each}", data={"n": each}) for each in range(5)))
        found = _pages(lambda cursor: store.list_tasks(TaskQuery(), 2, cursor), "uuid")
        assert found == [["t4", "t3"], ["t2", "t1"], ["t0"]]
        (newest, *_) = store.list_tasks(TaskQuery()).items
        assert newest == store.get_task("t4")

    @pytest.mark.parametrize("state", list(TaskState))
    def test_tasks_are_listed_by_state(self, store: PersistenceAPI, state: TaskState) -> None:
        for each in TaskState:
            add_tasks(store, *(new_task(uuid=f"{each}-{n}", state=each) for n in range(3)))
        query = TaskQuery(state)
        found = _pages(lambda cursor: store.list_tasks(query, 2, cursor), "uuid")
        assert found == [[f"{state}-2", f"{state}-1"], [f"{state}-0"]]

    @pytest.mark.parametrize(
        "state", [None, TaskState.PENDING, TaskState.RUNNING, TaskState.FAILED, TaskState.COMPLETED]
    )
    def test_tasks_are_listed_by_name_list_and_run(
        self, store: PersistenceAPI, state: TaskState | None
    ) -> None:
        given: dict[str, Any] = {"state": state or TaskState.IGNORED}
        add_tasks(
            store,
            new_task("a.Pay", uuid="1", **given),
            new_task("b.Pay", uuid="2", workflow_id="other", **given),
            new_task("a.Ship", uuid="3", task_list_name="slow", **given),
            new_task("a.Pay", uuid="4", task_list_name="slow", **given),
            new_task("a.Pay", uuid="5", state=TaskState.CANCELED),
        )
        cancelled = ["5"] if state is None else []
        assert _tasks(store, state=state, name="Pay") == [*cancelled, "4", "2", "1"]
        assert _tasks(store, state=state, name="a.Pay") == [*cancelled, "4", "1"]
        assert _tasks(store, state=state, name="a") == []
        assert _tasks(store, state=state, task_list="slow") == ["4", "3"]
        assert _tasks(store, state=state, task_list="slow", name="Ship") == ["3"]
        assert _tasks(store, state=state, workflow_id="other") == ["2"]
        assert _tasks(store, state=state, workflow_id="run", name="b.Pay") == []

    def test_pending_tasks_are_listed_whether_held_or_to_be_retried(
        self, store: PersistenceAPI
    ) -> None:
        soon = store.now_ms() + 60_000
        names = ["a.X", "a.Y", "b.X"]
        waits: list[dict[str, Any]] = [{}, {"held": True}, {"not_before": soon}]
        tasks = [new_task(names[n % 3], uuid=f"t{n:02}", **waits[n // 2 % 3]) for n in range(18)]
        add_tasks(store, *tasks)
        query = TaskQuery(TaskState.PENDING)
        found = _pages(lambda cursor: store.list_tasks(query, 4, cursor), "uuid")
        assert list(chain(*found)) == [f"t{n:02}" for n in range(17, -1, -1)]
        assert [len(each) for each in found] == [4, 4, 4, 4, 2]

    def test_tasks_of_a_run_come_in_pages(self, store: PersistenceAPI) -> None:
        tasks = [new_task(uuid=f"t{n}", workflow_id=f"r{n % 2}") for n in range(10)]
        add_tasks(store, *tasks)
        query = TaskQuery(workflow_id="r1")
        found = _pages(lambda cursor: store.list_tasks(query, 3, cursor), "uuid")
        assert found == [["t9", "t7", "t5"], ["t3", "t1"]]

    def test_tasks_are_counted_by_state_as_far_as_asked(self, store: PersistenceAPI) -> None:
        assert store.count_tasks() == {}
        states = [TaskState.PENDING] * 3 + [TaskState.FAILED, TaskState.DEAD_LETTER]
        add_tasks(store, *(new_task(state=each) for each in states))
        add_tasks(store, new_task(state=TaskState.COMPLETED))
        claim_one(store)
        counts = {"pending": Count(2), "running": Count(1), "failed": Count(1)}
        assert store.count_tasks() == {**counts, "dead_letter": Count(1)}
        assert store.count_tasks(1)["pending"] == Count(1, is_exact=False)

    def test_ids_of_tasks_are_found_by_their_beginnings(self, store: PersistenceAPI) -> None:
        add_tasks(store, *(new_task(uuid=each) for each in ("ab-1", "ab-2", "a", "b", "ab_2")))
        assert store.find_task_ids("ab-") == ["ab-1", "ab-2"]
        assert store.find_task_ids("ab", 1) == ["ab-1"]
        assert store.find_task_ids("c") == []

    # Queues

    def test_queues_tell_what_waits_and_since_when(self, store: PersistenceAPI) -> None:
        add_tasks(
            store,
            new_task("b.Pay", created=5),
            new_task("b.Pay", created=6),
            new_task("b.Pay", created=3, held=True),
            new_task("a.Pay", created=7, task_list_name="slow"),
            new_task("a.Ship", created=1, state=TaskState.RUNNING),
            new_task("z.Held", created=1, held=True),
        )
        assert store.list_queues() == [
            Queue("default", "b.Pay", Count(2), Count(1), 5),
            Queue("default", "z.Held", Count(0), Count(1), 0),
            Queue("slow", "a.Pay", Count(1), Count(0), 7),
        ]
        (first, *_) = store.list_queues(1)
        assert first.waiting == Count(1, is_exact=False)

    def test_a_retry_waits_behind_what_can_be_claimed(self, store: PersistenceAPI) -> None:
        add_tasks(store, new_task(created=5), new_task(created=6))
        task = claim_one(store)
        assert store.release_task(claim_of(task), not_before=store.now_ms() + 60_000)
        assert store.list_queues() == [Queue("default", "shop.Pay", Count(2), Count(0), 6)]
        claim_one(store)
        assert store.list_queues() == [Queue("default", "shop.Pay", Count(1), Count(0), 5)]

    def test_queues_without_pending_tasks_are_gone(self, store: PersistenceAPI) -> None:
        assert store.list_queues() == []
        add_tasks(store, new_task())
        claim_one(store)
        assert store.list_queues() == []
