"""Following a run: what changed since, and waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import StoreClosed
from afl.runtime.entities import LogDefinition, RunnerState, TaskState
from afl.runtime.persistence import IterationChanges, PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId
from afl.testing.contracts.store.exam import (
    StoreExam,
    add_tasks,
    claim_of,
    claim_one,
    end_task,
    new_run,
    new_step,
    new_task,
    read_step,
)

RUN = WorkflowId("run")


def _log(uuid: str, order: int = 0, runner_id: str = "run") -> LogDefinition:
    return LogDefinition(uuid, order, runner_id, message=uuid)


def _steps(store: PersistenceAPI, *ids: str, run: str = RUN) -> list[StepDefinition]:
    steps = [new_step(id=StepId(each), workflow_id=WorkflowId(run)) for each in ids]
    store.commit(IterationChanges(created_steps=steps))
    return steps


def _move(store: PersistenceAPI, step_id: str) -> None:
    step = read_step(store, step_id)
    step.state = StepState.STATEMENT_COMPLETE
    store.commit(IterationChanges(updated_steps=[step]))


#: What is there before each, and what changes something of the run.
CHANGES: Mapping[str, Callable[[PersistenceAPI], object]] = {
    "a new step": lambda store: _steps(store, "new"),
    "a step that moves": lambda store: _move(store, "step"),
    "a step that is saved": lambda store: store.save_step(read_step(store, "step")),
    "a new task": lambda store: add_tasks(store, new_task()),
    "a task that is saved": lambda store: store.save_task(new_task()),
    "a task that ends": lambda store: end_task(store, "task"),
    "a task that is moved": lambda store: store.update_task_state("task", TaskState.IGNORED),
    "a task that is released": lambda store: store.release_task(claim_of(claim_one(store))),
    "a line of its log": lambda store: store.commit(IterationChanges(logs=[_log("line")])),
    "a line that is saved": lambda store: store.save_log(_log("line")),
    "a run that is saved": lambda store: store.save_runner(new_run(RUN)),
    "a run that is paused": lambda store: store.update_runner_state(RUN, RunnerState.PAUSED),
    "the end of the run": lambda store: store.update_runner_state(RUN, RunnerState.COMPLETED),
}


class FollowContract(StoreExam):
    # Steps

    def test_steps_of_a_run_come_in_pages_in_their_order(self, store: PersistenceAPI) -> None:
        _steps(store, *(f"s{each}" for each in range(5)))
        _steps(store, "other", run="other")
        first = store.list_steps(RUN, 3)
        assert [each.id for each in first.items] == ["s0", "s1", "s2"]
        assert first.has_more
        second = store.list_steps(RUN, 3, first.cursor)
        assert [each.id for each in second.items] == ["s3", "s4"]
        assert not second.has_more
        assert first.items + second.items == store.get_steps_by_workflow(RUN)

    def test_the_last_cursor_gives_steps_that_are_created_later(
        self, store: PersistenceAPI
    ) -> None:
        empty = store.list_steps(RUN)
        _steps(store, "a")
        page = store.list_steps(RUN, cursor=empty.cursor)
        assert [each.id for each in page.items] == ["a"]
        nothing = store.list_steps(RUN, cursor=page.cursor)
        assert (nothing.items, nothing.has_more) == ([], False)
        _move(store, "a")
        _steps(store, "b", "c")
        later = store.list_steps(RUN, cursor=nothing.cursor)
        assert [each.id for each in later.items] == ["b", "c"]

    def test_steps_that_changed_are_told_from_those_that_did_not(
        self, store: PersistenceAPI
    ) -> None:
        _steps(store, "a", "b", "c")
        _move(store, "c")
        _move(store, "a")
        known = {StepId(each): 0 for each in ("a", "b", "c", "gone")}
        changed = store.changed_steps(known)
        assert changed == [read_step(store, "a"), read_step(store, "c")]
        assert store.changed_steps({**known, **{each.id: each.sequence for each in changed}}) == []
        assert store.changed_steps({}) == []

    # Tasks

    def test_tasks_that_changed_are_told_from_those_that_did_not(
        self, store: PersistenceAPI
    ) -> None:
        add_tasks(store, *(new_task(uuid=each) for each in ("a", "b", "c")))
        known = dict.fromkeys(("a", "b", "c", "gone"), 0)
        assert store.changed_tasks(known) == []
        taken = claim_one(store)
        assert store.changed_tasks(known) == [taken]
        known[taken.uuid] = taken.version
        end_task(store, "c")
        end_task(store, "a")
        assert [each.uuid for each in store.changed_tasks(known)] == ["a", "c"]

    # Logs

    def test_lines_come_in_the_order_of_their_arrival_each_once(
        self, store: PersistenceAPI
    ) -> None:
        store.commit(IterationChanges(logs=[_log("a", 9), _log("b", 1)]))
        store.save_log(_log("other", runner_id="other"))
        first = store.list_logs("run", 1)
        assert ([each.uuid for each in first.items], first.has_more) == (["a"], True)
        rest = store.list_logs("run", cursor=first.cursor)
        assert ([each.uuid for each in rest.items], rest.has_more) == (["b"], False)
        store.save_log(_log("c", 5))
        news = store.list_logs("run", cursor=rest.cursor)
        assert news.items == [_log("c", 5)]
        store.save_log(_log("a", 9))
        assert store.list_logs("run", cursor=news.cursor).items == []

    def test_no_line_of_many_writers_is_passed_over(self, store: PersistenceAPI) -> None:
        names = [[f"w{writer}-{n}" for n in range(25)] for writer in range(4)]
        start = threading.Barrier(len(names) + 1)

        def write(mine: list[str]) -> None:
            start.wait(self.patience_s)
            for each in mine:
                store.save_log(_log(each))

        writers = [self.begin(lambda mine=mine: write(mine)) for mine in names]  # type: ignore[misc]
        start.wait(self.patience_s)
        read: list[str] = []
        cursor: str | None = None
        while len(read) < 100:
            seen = store.changes_seen(RUN)
            page = store.list_logs("run", cursor=cursor)
            read += [each.uuid for each in page.items]
            cursor = page.cursor
            if not page.items:
                assert store.wait_for_change(RUN, seen, self.patience_s)
        for each in writers:
            each.answer()
        assert sorted(read) == sorted(chain(*names))

    # Waiting

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_what_changes_in_a_run_ends_the_wait_for_it(
        self, store: PersistenceAPI, change: Callable[[PersistenceAPI], object]
    ) -> None:
        store.commit(IterationChanges(created_runs=[new_run(RUN)]))
        _steps(store, "step")
        add_tasks(store, new_task(uuid="task"))
        seen = store.changes_seen(RUN)
        waiting = self.begin(lambda: store.wait_for_change(RUN, seen))
        change(store)
        assert waiting.answer() is True

    def test_a_change_before_the_wait_is_not_missed(self, store: PersistenceAPI) -> None:
        seen = store.changes_seen(RUN)
        _steps(store, "step")
        assert store.wait_for_change(RUN, seen) is True

    def test_tasks_and_the_run_wake_who_waits_by_the_id_of_its_record(
        self, store: PersistenceAPI
    ) -> None:
        record = WorkflowId("record")
        changes: list[Any] = [
            IterationChanges(created_runs=[new_run("run", uuid="record")]),
            IterationChanges(created_tasks=[new_task(runner_id="record")]),
            IterationChanges(logs=[_log("line", runner_id="record")]),
        ]
        for each in changes:
            seen = store.changes_seen(record)
            store.commit(each)
            assert store.wait_for_change(record, seen) is True

    def test_without_a_change_the_wait_ends_at_its_time(self, store: PersistenceAPI) -> None:
        assert store.wait_for_change(RUN, store.changes_seen(RUN), 0) is False

    def test_a_stop_ends_the_wait_for_a_change(self, store: PersistenceAPI) -> None:
        stop = threading.Event()
        waiting = self.begin(lambda: self._until_stopped(store, stop))
        stop.set()
        assert waiting.answer() == "stopped"

    def _until_stopped(self, store: PersistenceAPI, stop: threading.Event) -> str:
        # A wake-up may be for nothing, such as when a connection was made.
        while store.wait_for_change(RUN, store.changes_seen(RUN), stop=stop):
            continue
        return "stopped"

    def test_the_end_of_the_store_ends_the_wait_for_a_change(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        seen = store.changes_seen(RUN)
        waiting = self.begin(lambda: self._until_closed(store, seen))
        store.close()
        clock.advance(60)
        assert waiting.answer() == "closed"

    def _until_closed(self, store: PersistenceAPI, seen: int) -> str:
        try:
            while True:
                store.wait_for_change(RUN, seen)
                seen = store.changes_seen(RUN)
        except StoreClosed:
            return "closed"
