"""Runs: how they are found, and how the old ones are removed."""

from __future__ import annotations

from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import Conflict
from afl.ids import new_id
from afl.runtime.entities import LogDefinition, RunnerDefinition, RunnerState
from afl.runtime.persistence import IterationChanges, PersistenceAPI, Pruned
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store.exam import (
    StoreExam,
    new_event,
    new_flow,
    new_run,
    new_step,
    new_task,
)

DAY_MS = 86_400_000


def _ids(runs: list[RunnerDefinition]) -> list[str]:
    return [each.uuid for each in runs]


def _ended(store: PersistenceAPI, run_id: str, ago_ms: int = DAY_MS, **fields: Any) -> None:
    """A run that ended some time ago, with two steps, a task, an event and a log."""
    given = {"state": RunnerState.COMPLETED, "end_time": store.now_ms() - ago_ms, **fields}
    steps = [new_step(workflow_id=run_id) for _ in range(2)]
    store.commit(
        IterationChanges(
            created_runs=[new_run(run_id, **given)],
            created_steps=steps,
            created_tasks=[new_task(workflow_id=run_id, runner_id=run_id, step_id=steps[0].id)],
            created_events=[new_event(steps[0].id, workflow_id=run_id)],
            logs=[LogDefinition(new_id(), 0, run_id)],
        )
    )


class RunContract(StoreExam):
    def test_a_run_is_found_by_its_record_its_run_and_its_key(self, store: PersistenceAPI) -> None:
        run = new_run("record", workflow_id="run", key="order-1")
        store.save_runner(run)
        store.save_runner(new_run("other"))
        for found in (
            store.get_runner("record"),
            store.get_run(WorkflowId("run")),
            store.get_run_by_key("order-1"),
        ):
            assert found is not None
            assert found.uuid == "record"
        assert _ids(store.get_runners_by_workflow(WorkflowId("run"))) == ["record"]
        assert store.get_runner("run") is None
        assert store.get_run(WorkflowId("record")) is None
        assert store.get_run_by_key("order-2") is None
        assert store.get_runners_by_workflow(WorkflowId("record")) == []

    def test_a_key_belongs_to_one_run(self, store: PersistenceAPI) -> None:
        store.save_runner(new_run("first", key="order-1"))
        with pytest.raises(Conflict):
            store.commit(IterationChanges(created_runs=[new_run("second", key="order-1")]))
        assert store.get_runner("second") is None
        store.commit(IterationChanges(created_runs=[new_run("third"), new_run("fourth")]))

    def test_runs_are_listed_by_state_and_newest_first(self, store: PersistenceAPI) -> None:
        for at, run_id in enumerate("cab"):
            store.save_runner(new_run(run_id, start_time=at))
        assert store.update_runner_state("a", RunnerState.PAUSED)
        assert sorted(_ids(store.get_runners_by_state(RunnerState.RUNNING))) == ["b", "c"]
        assert _ids(store.get_runners_by_state(RunnerState.PAUSED)) == ["a"]
        assert _ids(store.get_all_runners()) == ["b", "a", "c"]
        assert _ids(store.get_all_runners(limit=2)) == ["b", "a"]

    def test_saving_a_run_again_replaces_it(self, store: PersistenceAPI) -> None:
        run = new_run("run")
        store.save_runner(run)
        run.state = RunnerState.PAUSED
        store.save_runner(run)
        found = store.get_runner("run")
        assert found is not None
        assert found.state == RunnerState.PAUSED
        assert len(store.get_all_runners()) == 1

    def test_the_state_of_a_run_that_is_not_there_cannot_change(
        self, store: PersistenceAPI
    ) -> None:
        assert store.update_runner_state("nobody", RunnerState.PAUSED) is False

    def test_pruning_removes_a_run_with_all_that_belongs_to_it(self, store: PersistenceAPI) -> None:
        _ended(store, "old")
        _ended(store, "new", ago_ms=1000)
        assert store.prune_runs(DAY_MS - 1) == Pruned(runs=1, steps=2, tasks=1)
        assert [each.workflow_id for each in store.get_all_events()] == ["new"]
        assert [each.workflow_id for each in store.get_all_tasks()] == ["new"]
        assert store.get_steps_by_workflow(WorkflowId("old")) == []
        assert len(store.get_steps_by_workflow(WorkflowId("new"))) == 2
        assert store.get_logs_by_runner("old") == []
        assert len(store.get_logs_by_runner("new")) == 1
        assert _ids(store.get_all_runners()) == ["new"]
        assert store.prune_runs(DAY_MS - 1) == Pruned(0, 0, 0)

    def test_logs_go_with_a_run_whose_record_has_another_id(self, store: PersistenceAPI) -> None:
        _ended(store, "run", uuid="record")
        store.save_log(LogDefinition(new_id(), 1, "record"))
        assert store.prune_runs(1000).runs == 1
        assert store.get_runner("record") is None
        assert store.get_logs_by_runner("record") == []

    @pytest.mark.parametrize(
        "state", [RunnerState.CREATED, RunnerState.RUNNING, RunnerState.PAUSED]
    )
    def test_runs_that_are_not_over_stay(self, store: PersistenceAPI, state: RunnerState) -> None:
        _ended(store, "open", state=state)
        assert store.prune_runs(0) == Pruned(0, 0, 0)
        assert len(store.get_steps_by_workflow(WorkflowId("open"))) == 2

    @pytest.mark.parametrize(
        "state", [RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELLED]
    )
    def test_runs_that_are_over_go_however_they_ended(
        self, store: PersistenceAPI, state: RunnerState
    ) -> None:
        _ended(store, "over", state=state)
        assert store.prune_runs(1000).runs == 1

    def test_a_run_may_say_itself_how_long_it_stays(self, store: PersistenceAPI) -> None:
        _ended(store, "for ever", retain=-1)
        _ended(store, "longer", retain=2 * DAY_MS)
        _ended(store, "shorter", ago_ms=2000, retain=1000)
        _ended(store, "as told", ago_ms=2000)
        assert store.prune_runs(3000).runs == 1
        assert sorted(_ids(store.get_all_runners())) == ["as told", "for ever", "longer"]
        assert store.prune_runs(0).runs == 1
        assert sorted(_ids(store.get_all_runners())) == ["for ever", "longer"]

    def test_pruning_stops_at_its_limit(self, store: PersistenceAPI) -> None:
        for each in range(5):
            _ended(store, str(each), ago_ms=DAY_MS - each)
        assert store.prune_runs(1000, limit=2) == Pruned(2, 4, 2)
        assert store.prune_runs(1000, limit=0) == Pruned(0, 0, 0)
        assert store.prune_runs(1000, limit=9).runs == 3

    def test_a_run_that_an_operator_ended_just_now_stays(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        store.save_runner(new_run("run", start_time=store.now_ms()))
        clock.advance(5)
        assert store.update_runner_state("run", RunnerState.CANCELLED)
        assert store.prune_runs(1000).runs == 0
        clock.advance(5)
        assert store.prune_runs(1000).runs == 1

    def test_programs_without_a_name_go_with_their_last_run(self, store: PersistenceAPI) -> None:
        for flow in (new_flow("nameless"), new_flow("needed"), new_flow("named", "shop")):
            store.save_flow(flow)
        for flow_id in ("nameless", "needed", "named"):
            _ended(store, f"run of {flow_id}", flow_id=flow_id)
        store.save_runner(new_run("second", flow_id="needed"))
        assert store.prune_runs(1000).runs == 3
        assert sorted(each.uuid for each in store.get_all_flows()) == ["named", "needed"]
