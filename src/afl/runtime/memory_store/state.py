"""All that a memory store holds, and the rules that every write keeps.

Nothing here locks: the store calls it one thread at a time, and takes everything back if a rule
refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from afl.errors import Conflict
from afl.runtime.claims import check_save, claimed, holds, may_follow
from afl.runtime.entities import (
    EVENT_DATA,
    EventDefinition,
    FlowDefinition,
    HandlerRegistration,
    LockDefinition,
    LogDefinition,
    PublishedSource,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.memory_store.queue import Wanted, claimable, has_other_running, task_table
from afl.runtime.memory_store.table import Index, Journal, Table, by, copied_record
from afl.runtime.persistence import Claim, IterationChanges, Yielded, event_of
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, ObjectType, StepId, WorkflowId

R = TypeVar("R")


@dataclass
class Lock:
    lock: LockDefinition
    #: When it was taken or last extended. Before that time the clock was set back: it is over.
    since: int

    def holds(self, now: int) -> bool:
        return self.since <= now < self.lock.expires_at


class State:
    def __init__(self) -> None:
        self.journal = journal = Journal()
        self.steps: Table[StepDefinition] = Table(
            journal,
            lambda step: step.id,
            block=by("block_id"),
            container=by("container_id"),
            workflow=by("workflow_id"),
            state=by("state"),
            place=Index(lambda step: ((step.block_id, step.statement_id),)),
            root=Index(lambda step: (step.workflow_id,) if _is_root(step) else ()),
            yield_into=Index(lambda step: (step.container_id,) if _is_yielded(step) else ()),
            block_of=Index(lambda step: (step.container_id,) if step.is_block else ()),
        )
        self.events: Table[EventDefinition] = Table(
            journal, lambda event: event.id, workflow=by("workflow_id")
        )
        self.tasks = task_table(journal)
        self.runs: Table[RunnerDefinition] = Table(
            journal,
            lambda run: run.uuid,
            workflow=by("workflow_id"),
            state=by("state"),
            key=by("key"),
            flow=Index(lambda run: (run.workflow.flow_id,)),
            name=Index(lambda run: (run.workflow.name,)),
            kept_until=Index(_retention, rank=lambda run: run.end_time + max(run.retain, 0)),
        )
        self.flows: Table[FlowDefinition] = Table(
            journal,
            lambda flow: flow.uuid,
            path=Index(lambda flow: (flow.name.path,)),
            name=Index(lambda flow: (flow.name.name,)),
        )
        self.workflows: Table[WorkflowDefinition] = Table(
            journal, lambda workflow: workflow.uuid, name=by("name"), flow=by("flow_id")
        )
        self.logs: Table[LogDefinition] = Table(
            journal,
            lambda log: log.uuid,
            runner=Index(lambda log: (log.runner_id,), rank=lambda log: log.order),
            arrived=Index(lambda log: (log.runner_id,)),
        )
        self.handlers: Table[HandlerRegistration] = Table(journal, lambda each: each.facet_name)
        #: Grows with every registration that is saved or removed.
        self.handlers_version = 0
        self.servers: Table[ServerDefinition] = Table(
            journal, lambda server: server.uuid, state=by("state")
        )
        self.locks: Table[Lock] = Table(journal, lambda each: each.lock.key)
        self.sources: Table[PublishedSource] = Table(
            journal, lambda source: (source.namespace_name, source.version)
        )

    def apply(self, changes: IterationChanges) -> None:
        for flow in changes.flows:
            _put_missing(self.flows, flow.uuid, flow)
        for workflow in changes.workflows:
            _put_missing(self.workflows, workflow.uuid, workflow)
        for run in changes.created_runs:
            _check_new("run", run.uuid, self.runs)
            self.put_run(run)
        for run in changes.updated_runs:
            self._update_run(run)
        for step in changes.created_steps:
            _check_new("step", step.id, self.steps)
            self._put_step(step)
        for step in changes.updated_steps:
            self._update_step(step)
        for event in changes.created_events:
            _check_new("event", event.id, self.events)
            self.events.put(event)
        for event in changes.updated_events:
            self.events.put(event)
        for task in changes.created_tasks:
            _check_new("task", task.uuid, self.tasks)
            self.put_task(task)
        for task in changes.updated_tasks:
            self._update_task(task)
        for log in changes.logs:
            self.logs.put(log)

    # Steps

    def save_step(self, step: StepDefinition) -> None:
        if step.id in self.steps:
            self._update_step(step)
        else:
            self._put_step(step)

    def _update_step(self, step: StepDefinition) -> None:
        stored = self.steps.peek(step.id)
        _check_unchanged("step", step.id, step.sequence, stored.sequence if stored else None)
        self._put_step(replace(step, sequence=step.sequence + 1))

    def _put_step(self, step: StepDefinition) -> None:
        place = (step.block_id, step.statement_id)
        if None not in place and any(
            each.id != step.id for each in self.steps.scan("place", place)
        ):
            raise Conflict(
                f"statement {step.statement_id} has a step in block {step.block_id} already"
            )
        self.steps.put(step)

    # Tasks

    def save_task(self, task: TaskDefinition) -> None:
        if check_save(self.tasks.peek(task.uuid), task):
            self.put_task(task)

    def _update_task(self, task: TaskDefinition) -> None:
        stored = self.tasks.peek(task.uuid)
        _check_unchanged("task", task.uuid, task.version, stored.version if stored else None)
        if stored and stored.state != task.state and not may_follow(stored.state, task.state):
            raise Conflict(f"task {task.uuid} is {stored.state} and cannot become {task.state}")
        self.put_task(task)

    def put_task(self, task: TaskDefinition) -> None:
        if task.state == TaskState.RUNNING and has_other_running(self.tasks, task):
            raise Conflict(f"step {task.step_id} has a running task already; wait for its end")
        stored = self.tasks.peek(task.uuid)
        self.tasks.put(replace(task, version=stored.version + 1) if stored else task)

    def save_event(self, event: EventDefinition) -> None:
        if self.event_of_task(event.id) is not None:
            raise Conflict(f"event {event.id} is that of a task; it moves with the task")
        self.events.put(event)

    def event_of_task(self, event_id: EventId) -> EventDefinition | None:
        task = self.tasks.get(event_id)
        return event_of(task) if task is not None and task.data_type == EVENT_DATA else None

    def claim(
        self, wanted: Wanted, limit: int, owner: str, now: int, lease_ms: int
    ) -> list[TaskDefinition]:
        chosen = self._choose(wanted, limit, now)
        return [self._take(each, owner, now, lease_ms) for each in chosen]

    def claim_waiting(
        self, wanted: Wanted, limit: int, owner: str, now: int, lease_ms: int
    ) -> list[TaskDefinition]:
        """Without those of abandoned claims."""
        found = claimable(self.tasks, wanted, now)
        waiting = (each for each in found if each.state == TaskState.PENDING)
        chosen = list(islice(waiting, max(limit, 0)))
        return [self._take(each, owner, now, lease_ms) for each in chosen]

    def _choose(self, wanted: Wanted, limit: int, now: int) -> list[TaskDefinition]:
        return list(islice(claimable(self.tasks, wanted, now), max(limit, 0)))

    def _take(self, task: TaskDefinition, owner: str, now: int, lease_ms: int) -> TaskDefinition:
        self.put_task(claimed(task, owner, now, lease_ms))
        return self.tasks.require(task.uuid)

    def rewrite_claimed(
        self, claim: Claim, rewrite: Callable[[TaskDefinition], TaskDefinition]
    ) -> bool:
        """Whether the claim is still good, so that it could be done."""
        task = self.tasks.peek(claim.task_id)
        if task is None or not holds(task, claim.fence):
            return False
        self.put_task(rewrite(task))
        return True

    # Handlers

    def put_handler(self, registration: HandlerRegistration) -> None:
        self.handlers.put(registration)
        self.handlers_version += 1

    def remove_handler(self, facet_name: str) -> bool:
        is_there = self.handlers.remove(facet_name)
        self.handlers_version += is_there
        return is_there

    # Runs

    def _update_run(self, run: RunnerDefinition) -> None:
        stored = self.runs.peek(run.uuid)
        _check_unchanged("run", run.uuid, run.version, stored.version if stored else None)
        assert stored is not None
        self.put_run(
            replace(
                stored,
                state=run.state,
                start_time=run.start_time,
                end_time=run.end_time,
                duration=run.duration,
                retain=run.retain,
                error=run.error,
                step_id=run.step_id,
                user=run.user,
            )
        )

    def run_head(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        """A run without its parameters, which may be large."""
        found = self.runs.peek_last("workflow", workflow_id)
        return None if found is None else copied_record(replace(found, parameters=[]))

    def put_run(self, run: RunnerDefinition) -> None:
        same_key = [] if run.key is None else self.runs.scan("key", run.key)
        if any(each.uuid != run.uuid for each in same_key):
            raise Conflict(f"a run with the key '{run.key}' is there already; ask for that one")
        stored = self.runs.peek(run.uuid)
        self.runs.put(replace(run, version=stored.version + 1) if stored else run)

    def ended_runs(self, keep_ms: int, limit: int, now: int) -> list[RunnerDefinition]:
        """Runs whose time is over, those that ended first."""
        due = [
            *self.runs.scan("kept_until", "default", to=now - keep_ms - 1),
            *self.runs.scan("kept_until", "own", to=now - 1),
        ]
        return sorted(due, key=lambda run: run.end_time)[: max(limit, 0)]

    def remove_run(self, run: RunnerDefinition) -> tuple[int, int]:
        """With all that belongs to it; how many steps and tasks that were."""
        self.runs.remove(run.uuid)
        self.events.remove_all("workflow", run.workflow_id)
        self.logs.remove_all("runner", run.uuid)
        flow = self.flows.peek(run.workflow.flow_id)
        if flow and not flow.name.name and not self.is_needed(flow.uuid):
            self.remove_flow(flow.uuid)
        steps = self.steps.remove_all("workflow", run.workflow_id)
        return steps, self.tasks.remove_all("workflow", run.workflow_id)

    # Flows

    def is_needed(self, flow_id: str) -> bool:
        return any(self.runs.scan("flow", flow_id))

    def remove_flow(self, flow_id: str) -> bool:
        self.workflows.remove_all("flow", flow_id)
        return self.flows.remove(flow_id)

    # Locks

    def held_lock(self, key: str, now: int) -> LockDefinition | None:
        found = self.locks.get(key)
        return found.lock if found is not None and found.holds(now) else None


class StateView:
    """What a decision reads. Nothing changes while it runs."""

    def __init__(self, state: State, now: int) -> None:
        self._state = state
        self._now = now

    def now_ms(self) -> int:
        return self._now

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        return self._state.steps.get(step_id)

    def get_steps(self, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
        found = {each: self._state.steps.get(each) for each in step_ids}
        return {step_id: step for step_id, step in found.items() if step is not None}

    def get_steps_by_block(self, block_id: BlockId) -> list[StepDefinition]:
        return self._state.steps.find("block", block_id)

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._state.steps.find("workflow", workflow_id)

    def get_yielded(self, container_id: StepId) -> list[Yielded]:
        found = self._state.steps.scan("yield_into", container_id)
        return [
            Yielded(each.statement_id, each.position, each.attributes.clone().values())
            for each in found
        ]

    def get_task(self, task_id: str) -> TaskDefinition | None:
        return self._state.tasks.get(task_id)

    def get_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
        found = {each: self._state.tasks.get(each) for each in task_ids}
        return {task_id: task for task_id, task in found.items() if task is not None}

    def get_open_tasks(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        return self._state.tasks.find("open", workflow_id)

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        return self._state.run_head(workflow_id)

    def get_run_and_task(
        self, workflow_id: WorkflowId, task_id: str
    ) -> tuple[RunnerDefinition | None, TaskDefinition | None]:
        return self.get_run(workflow_id), self.get_task(task_id)

    def get_runs(self, workflow_ids: Sequence[WorkflowId]) -> dict[WorkflowId, RunnerDefinition]:
        found = {each: self.get_run(each) for each in workflow_ids}
        return {each: run for each, run in found.items() if run is not None}

    def get_run_by_key(self, key: str) -> RunnerDefinition | None:
        return self._state.runs.last("key", key)

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        return self._state.flows.get(flow_id)


def _is_root(step: StepDefinition) -> bool:
    return step.container_id is None and step.root_id is None


def _is_yielded(step: StepDefinition) -> bool:
    return step.object_type == ObjectType.YIELD_ASSIGNMENT and step.is_complete


def _retention(run: RunnerDefinition) -> tuple[str, ...]:
    """Whether an ended run is kept as the store is told, or as it says itself; or for ever."""
    if not run.is_over or run.retain < 0:
        return ()
    return ("own",) if run.retain else ("default",)


def _put_missing(table: Table[R], key: str, record: R) -> None:
    if key not in table:
        table.put(record)


def _check_new(kind: str, key: str, table: Table[R]) -> None:
    if key in table:
        raise Conflict(f"{kind} {key} is there already and cannot be created")


def _check_unchanged(kind: str, key: str, given: int, stored: int | None) -> None:
    if stored is None:
        raise Conflict(f"{kind} {key} is not there and cannot be updated")
    if stored != given:
        raise Conflict(f"{kind} {key} was written since it was read; read it again, decide anew")
