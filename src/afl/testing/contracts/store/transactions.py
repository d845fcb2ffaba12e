"""One commit, decisions that see the truth, and the end of a store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import Conflict, StoreClosed
from afl.ids import new_id
from afl.runtime.entities import LogDefinition, RunnerState, TaskState
from afl.runtime.persistence import IterationChanges, PersistenceAPI, View
from afl.runtime.states import EventState, StepState
from afl.runtime.types import BlockId, StatementId, WorkflowId
from afl.testing.contracts.store.exam import (
    StoreExam,
    add_tasks,
    claim_one,
    new_event,
    new_flow,
    new_run,
    new_step,
    new_task,
    read_step,
    read_task,
)

Refusal = Callable[[PersistenceAPI, IterationChanges], None]


def _step_that_is_there(store: PersistenceAPI, changes: IterationChanges) -> None:
    step = new_step()
    store.save_step(step)
    changes.created_steps.append(step)


def _statement_that_has_a_step(store: PersistenceAPI, changes: IterationChanges) -> None:
    place: dict[str, Any] = {"block_id": BlockId("block"), "statement_id": StatementId("pay")}
    store.save_step(new_step(**place))
    changes.created_steps.append(new_step(**place))


def _step_that_is_missing(_store: PersistenceAPI, changes: IterationChanges) -> None:
    changes.updated_steps.append(new_step())


def _step_that_was_written_since(store: PersistenceAPI, changes: IterationChanges) -> None:
    step = new_step()
    store.save_step(step)
    changes.updated_steps.append(read_step(store, step.id))
    store.save_step(step)


def _event_that_is_there(store: PersistenceAPI, changes: IterationChanges) -> None:
    event = new_event("step")
    store.save_event(event)
    changes.created_events.append(event)


def _task_that_is_there(store: PersistenceAPI, changes: IterationChanges) -> None:
    task = new_task()
    add_tasks(store, task)
    changes.created_tasks.append(task)


def _task_that_is_missing(_store: PersistenceAPI, changes: IterationChanges) -> None:
    changes.updated_tasks.append(new_task())


def _task_that_was_claimed_since(store: PersistenceAPI, changes: IterationChanges) -> None:
    task = new_task("other.Claimed")
    add_tasks(store, task)
    changes.updated_tasks.append(read_task(store, task.uuid))
    claim_one(store, "other.Claimed")


def _second_running_task_of_a_step(store: PersistenceAPI, changes: IterationChanges) -> None:
    add_tasks(store, new_task(step_id="busy", state=TaskState.RUNNING))
    changes.created_tasks.append(new_task(step_id="busy", state=TaskState.RUNNING))


def _task_that_is_over(store: PersistenceAPI, changes: IterationChanges) -> None:
    task = new_task(state=TaskState.COMPLETED)
    add_tasks(store, task)
    revived = read_task(store, task.uuid)
    revived.state = TaskState.PENDING
    changes.updated_tasks.append(revived)


def _run_that_is_there(store: PersistenceAPI, changes: IterationChanges) -> None:
    run = new_run()
    store.save_runner(run)
    changes.created_runs.append(run)


def _run_whose_key_is_taken(store: PersistenceAPI, changes: IterationChanges) -> None:
    store.save_runner(new_run(key="order-1"))
    changes.created_runs.append(new_run(key="order-1"))


def _run_that_is_missing(_store: PersistenceAPI, changes: IterationChanges) -> None:
    changes.updated_runs.append(new_run())


def _run_that_was_written_since(store: PersistenceAPI, changes: IterationChanges) -> None:
    run = new_run()
    store.save_runner(run)
    read = store.get_runner(run.uuid)
    assert read is not None
    changes.updated_runs.append(read)
    store.update_runner_state(run.uuid, RunnerState.PAUSED)


REFUSALS: list[Refusal] = [
    _step_that_is_there,
    _statement_that_has_a_step,
    _step_that_is_missing,
    _step_that_was_written_since,
    _event_that_is_there,
    _task_that_is_there,
    _task_that_is_missing,
    _task_that_was_claimed_since,
    _second_running_task_of_a_step,
    _task_that_is_over,
    _run_that_is_there,
    _run_whose_key_is_taken,
    _run_that_is_missing,
    _run_that_was_written_since,
]


class TransactionContract(StoreExam):
    def test_a_commit_writes_all_kinds_together(self, store: PersistenceAPI) -> None:
        changes = _one_of_each(store)
        store.commit(changes)
        assert _traces(store, changes) == [True] * 9

    @pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: each.__name__.strip("_"))
    def test_a_commit_that_is_refused_leaves_no_trace(
        self, store: PersistenceAPI, refusal: Refusal
    ) -> None:
        changes = _one_of_each(store)
        refusal(store, changes)
        # Good ones stand behind the bad one, too: neither side may be applied.
        changes.created_tasks.append(last := new_task())
        with pytest.raises(Conflict):
            store.commit(changes)
        assert _traces(store, changes) == [False] * 9
        assert store.get_task(last.uuid) is None

    @pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: each.__name__.strip("_"))
    def test_a_decision_that_is_refused_leaves_no_trace(
        self, store: PersistenceAPI, refusal: Refusal
    ) -> None:
        changes = _one_of_each(store)
        refusal(store, changes)
        with pytest.raises(Conflict):
            store.decide(lambda _view: (changes, None))
        assert _traces(store, changes) == [False] * 9

    def test_an_update_of_what_was_read_grows_its_number(self, store: PersistenceAPI) -> None:
        step, task, run = new_step(), new_task(), new_run()
        store.commit(
            IterationChanges(created_steps=[step], created_tasks=[task], created_runs=[run])
        )
        before = _numbers(store, step.id, task.uuid, run.uuid)
        store.decide(lambda view: (_updated(view, step.id, task.uuid, run.uuid), None))
        after = _numbers(store, step.id, task.uuid, run.uuid)
        assert after == [each + 1 for each in before]

    def test_a_step_that_was_saved_by_nobody_else_can_be_saved_again(
        self, store: PersistenceAPI
    ) -> None:
        step = new_step()
        for state in (StepState.CREATED, StepState.EVENT_TRANSMIT, StepState.STATEMENT_END):
            step.state = state
            store.save_step(step)
            assert read_step(store, step.id).sequence == step.sequence
        assert read_step(store, step.id).state == StepState.STATEMENT_END

    def test_an_updated_event_is_replaced_or_made(self, store: PersistenceAPI) -> None:
        event = new_event("step")
        store.commit(IterationChanges(updated_events=[event]))
        event.state = EventState.COMPLETED
        store.commit(IterationChanges(updated_events=[event]))
        assert store.get_event(event.id) == event

    def test_programs_that_are_there_stay_as_they_are(self, store: PersistenceAPI) -> None:
        first, second = new_flow("flow", "first"), new_flow("flow", "second")
        workflows = [new_run().workflow for _ in range(2)]
        workflows[1].name = "second"
        store.commit(IterationChanges(flows=[first], workflows=workflows[:1]))
        store.commit(IterationChanges(flows=[second], workflows=workflows[1:]))
        assert store.get_flow("flow") == first
        assert store.get_workflow(workflows[0].uuid) == workflows[0]

    def test_no_changes_are_fine(self, store: PersistenceAPI) -> None:
        store.commit(IterationChanges())
        assert store.decide(lambda _view: (IterationChanges(), 7)) == 7

    def test_a_decision_answers_with_what_it_returned(self, store: PersistenceAPI) -> None:
        task = new_task()
        answer = store.decide(lambda _view: (IterationChanges(created_tasks=[task]), "made"))
        assert answer == "made"
        assert store.get_task(task.uuid) is not None

    def test_what_a_decision_raises_comes_out_and_nothing_is_written(
        self, store: PersistenceAPI
    ) -> None:
        def decision(_view: View) -> tuple[IterationChanges, None]:
            raise LookupError("no such thing")

        with pytest.raises(LookupError, match="no such thing"):
            store.decide(decision)
        with pytest.raises(LookupError, match="no such thing"):
            store.decide_later(decision).result(self.patience_s)
        assert store.get_all_tasks() == []

    def test_a_view_shows_what_is_committed(self, store: PersistenceAPI, clock: FakeClock) -> None:
        changes = _one_of_each(store)
        store.commit(changes)
        clock.advance(1)

        def decision(view: View) -> tuple[IterationChanges, list[Any]]:
            step, task = changes.created_steps[0], changes.created_tasks[0]
            run = changes.created_runs[0]
            return IterationChanges(), [
                view.now_ms(),
                view.get_step(step.id),
                view.get_steps([step.id, new_step().id]),
                view.get_task(task.uuid),
                view.get_run(WorkflowId(run.workflow_id)),
                view.get_runs([WorkflowId(run.workflow_id), WorkflowId("nobody")]),
                view.get_run_by_key(run.key or ""),
                view.get_run_and_task(WorkflowId(run.workflow_id), task.uuid),
                view.get_flow("flow-of-each"),
            ]

        now, step, steps, task, run, runs, by_key, both, flow = store.decide(decision)
        assert now == store.now_ms()
        assert step == store.get_step(step.id)
        assert steps == {step.id: step}
        assert task == store.get_task(task.uuid)
        assert run == by_key == store.get_runner(run.uuid)
        assert runs == {run.workflow_id: run}
        assert both == (run, task)
        assert flow == store.get_flow("flow-of-each")

    def test_a_view_does_not_find_what_is_missing(self, store: PersistenceAPI) -> None:
        def decision(view: View) -> tuple[IterationChanges, list[Any]]:
            nobody: Any = "nobody"
            return IterationChanges(), [
                view.get_step(nobody),
                view.get_task(nobody),
                view.get_run(nobody),
                view.get_run_by_key(nobody),
                view.get_flow(nobody),
                *view.get_run_and_task(nobody, nobody),
            ]

        assert store.decide(decision) == [None] * 7

    def test_what_a_view_gives_is_a_copy(self, store: PersistenceAPI) -> None:
        step = new_step()
        step.set_attribute("items", [1])
        store.save_step(step)

        def decision(view: View) -> tuple[IterationChanges, None]:
            read = view.get_step(step.id)
            assert read is not None
            read.get_attribute("items").append(2)
            read.mark_completed()
            return IterationChanges(), None

        store.decide(decision)
        assert read_step(store, step.id) == step

    def test_of_many_decisions_at_once_none_is_lost(self, store: PersistenceAPI) -> None:
        step = new_step()
        store.save_step(step)
        threads = [self.begin(lambda: _count_up(store, step.id, 10)) for _ in range(8)]
        answers = [answer for each in threads for answer in each.answer()]
        assert read_step(store, step.id).pending == 80
        assert sorted(answers) == list(range(1, 81))

    def test_decisions_that_wait_together_see_each_other(self, store: PersistenceAPI) -> None:
        step = new_step()
        store.save_step(step)
        futures: list[Future[int]] = [
            store.decide_later(lambda view: _one_more(view, step.id)) for _ in range(20)
        ]
        answers = [each.result(self.patience_s) for each in futures]
        assert answers == list(range(1, 21))
        assert read_step(store, step.id).pending == 20

    def test_a_late_decision_that_fails_undoes_only_itself(self, store: PersistenceAPI) -> None:
        tasks = [new_task() for _ in range(3)]
        add_tasks(store, tasks[1])
        futures = [_create_later(store, each.uuid, each) for each in tasks]
        assert [type(each.exception(self.patience_s)) for each in futures] == [
            type(None),
            Conflict,
            type(None),
        ]
        assert {each.uuid for each in store.get_all_tasks()} == {each.uuid for each in tasks}

    def test_of_many_commits_of_one_reading_one_is_taken(self, store: PersistenceAPI) -> None:
        step = new_step()
        store.save_step(step)
        start = threading.Barrier(8)

        def commit() -> bool:
            read = read_step(store, step.id)
            start.wait(self.patience_s)
            try:
                store.commit(IterationChanges(updated_steps=[read]))
            except Conflict:
                return False
            return True

        answers = [each.answer() for each in [self.begin(commit) for _ in range(8)]]
        assert sorted(answers) == [False] * 7 + [True]

    def test_changes_may_be_used_again_after_the_commit(self, store: PersistenceAPI) -> None:
        changes = IterationChanges(created_tasks=[new_task(data={"items": [1]})])
        task = changes.created_tasks[0]
        store.commit(changes)
        assert task.data is not None
        task.data["items"].append(2)
        changes.clear()
        assert read_task(store, task.uuid).data == {"items": [1]}

    def test_time_is_that_of_the_store(self, store: PersistenceAPI, clock: FakeClock) -> None:
        before = store.now_ms()
        clock.advance(1.5)
        assert store.now_ms() == before + 1500

    def test_a_closed_store_says_so(self, store: PersistenceAPI) -> None:
        store.close()
        with pytest.raises(StoreClosed):
            store.commit(IterationChanges(created_tasks=[new_task()]))
        with pytest.raises(StoreClosed):
            store.get_all_tasks()
        store.close()

    def test_closing_ends_those_who_wait(self, store: PersistenceAPI, clock: FakeClock) -> None:
        waiting = self.begin(lambda: store.wait_for_work(["shop.Pay"]))
        clock.wait_for_waiters(1)
        store.close()
        with suppress(StoreClosed):
            assert waiting.answer() is False


def _one_of_each(store: PersistenceAPI) -> IterationChanges:
    """Changes of all kinds, which can be applied."""
    old_step, old_task, old_run = new_step(), new_task("old.Task"), new_run()
    store.commit(
        IterationChanges(created_steps=[old_step], created_tasks=[old_task], created_runs=[old_run])
    )
    step, run = read_step(store, old_step.id), store.get_runner(old_run.uuid)
    assert run is not None
    step.position, run.state, old_task = 7, RunnerState.PAUSED, read_task(store, old_task.uuid)
    old_task.held = True
    new = new_step()
    log = LogDefinition(new_id(), 1, f"logs-of-{old_run.uuid}")
    return IterationChanges(
        created_steps=[new],
        updated_steps=[step],
        created_events=[new_event(new.id)],
        created_tasks=[new_task()],
        updated_tasks=[old_task],
        created_runs=[new_run(key=f"key-{old_run.uuid}")],
        updated_runs=[run],
        flows=[new_flow("flow-of-each")],
        logs=[log],
    )


def _traces(store: PersistenceAPI, changes: IterationChanges) -> list[bool]:
    """Which of the changes made by `_one_of_each` can be seen."""
    run = store.get_runner(changes.updated_runs[0].uuid)
    assert run is not None
    return [
        store.get_step(changes.created_steps[0].id) is not None,
        read_step(store, changes.updated_steps[0].id).position == 7,
        store.get_event(changes.created_events[0].id) is not None,
        store.get_task(changes.created_tasks[0].uuid) is not None,
        read_task(store, changes.updated_tasks[0].uuid).held,
        store.get_runner(changes.created_runs[0].uuid) is not None,
        run.state == RunnerState.PAUSED,
        store.get_flow("flow-of-each") is not None,
        store.get_logs_by_runner(changes.logs[0].runner_id) != [],
    ]


def _updated(view: View, step_id: Any, task_id: str, run_id: str) -> IterationChanges:
    step, task, run = view.get_step(step_id), view.get_task(task_id), view.get_run(run_id)  # type: ignore[arg-type]
    assert step is not None
    assert task is not None
    assert run is not None
    return IterationChanges(updated_steps=[step], updated_tasks=[task], updated_runs=[run])


def _numbers(store: PersistenceAPI, step_id: str, task_id: str, run_id: str) -> list[int]:
    run = store.get_runner(run_id)
    assert run is not None
    return [read_step(store, step_id).sequence, read_task(store, task_id).version, run.version]


def _one_more(view: View, step_id: Any) -> tuple[IterationChanges, int]:
    step = view.get_step(step_id)
    assert step is not None
    step.pending += 1
    return IterationChanges(updated_steps=[step]), step.pending


def _count_up(store: PersistenceAPI, step_id: str, times: int) -> list[int]:
    return [store.decide(lambda view: _one_more(view, step_id)) for _ in range(times)]


def _create_later(store: PersistenceAPI, answer: str, task: Any) -> Future[str]:
    return store.decide_later(lambda _view: (IterationChanges(created_tasks=[task]), answer))
