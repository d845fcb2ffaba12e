"""One invocation of the engine: what it has read, what it will write, what is left to do.

Made fresh for every decision and thrown away with it, so two invocations share nothing that
changes. Reads go through here, so that each step is read once and later reads see earlier changes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol

from afl.lang import ast
from afl.lang.expressions import Environment
from afl.lang.names import Declared
from afl.runtime.claims import NextClaim, claimed
from afl.runtime.entities import (
    LogDefinition,
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
)
from afl.runtime.errors import RunNotFoundError, StepFailure, StepNotFoundError
from afl.runtime.persistence import IterationChanges, View, Yielded, child_id
from afl.runtime.plan import Block, Plan, Statement
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, ObjectType, StatementId, StepId, WorkflowId
from afl.runtime.values import ValueCache
from afl.telemetry import Event, RunEnded


class ExecutionContext:
    """What handlers of states work on."""

    def __init__(
        self,
        view: View,
        run: RunnerDefinition,
        plan: Plan,
        cache: ValueCache,
        *,
        max_depth: int,
        runs_scripts: bool,
        owner: str,
        is_heard: bool = True,
        changes: IterationChanges | None = None,
    ) -> None:
        self.view = view
        self.run = run
        self.plan = plan
        self.max_depth = max_depth
        self.runs_scripts = runs_scripts
        #: Who owns the tasks that the evaluator does itself.
        self.owner = owner
        self.now = view.now_ms()
        self._is_heard = is_heard
        #: Told to the outside once all is committed.
        self.told: list[tuple[type[Event], dict[str, Any]]] = []
        #: What is written; contexts that are decided together may share it.
        self.changes = IterationChanges() if changes is None else changes
        self._steps: dict[StepId, StepDefinition | None] = {}
        self._created: dict[StepId, StepDefinition] = {}
        self._updated: dict[StepId, StepDefinition] = {}
        self._values: dict[StepId, dict[str, Any]] = {}
        self._cache = cache
        self._is_run_changed = False
        self._log_order = 0
        self._agenda: deque[StepDefinition] = deque()
        self._scheduled: set[StepId] = set()
        self._first_ends: set[StepId] = set()
        self._new_yields: defaultdict[StepId, list[StepDefinition]] = defaultdict(list)
        self._tasks: dict[str, TaskDefinition | None] = {}
        self._moved_tasks: dict[str, TaskDefinition] = {}
        #: What the worker would go on with whose result is at work, and what it has got so far.
        self.next_claim: NextClaim | None = None
        self.claimed: list[TaskDefinition] = []
        #: Whether what follows the commit was done.
        self.is_followed = False
        #: Tasks of scripts that the evaluator does after the commit.
        self.scripts: list[TaskDefinition] = []

    @property
    def workflow_id(self) -> WorkflowId:
        return WorkflowId(self.run.workflow_id)

    @cached_property
    def workflow(self) -> Declared:
        return self.plan.program.workflow(self.run.workflow.name)

    @property
    def is_paused(self) -> bool:
        return self.run.state == RunnerState.PAUSED

    # Steps

    def step(self, step_id: StepId) -> StepDefinition | None:
        if step_id not in self._steps:
            self._steps[step_id] = self.view.get_step(step_id)
        return self._steps[step_id]

    def require(self, step_id: str | None) -> StepDefinition:
        """A step that must exist. Raises StepNotFoundError."""
        found = self.step(StepId(step_id)) if step_id else None
        if found is None:
            raise StepNotFoundError(str(step_id))
        return found

    def prefetch(self, step_ids: Iterable[StepId]) -> None:
        """Read many steps at once."""
        wanted = [each for each in step_ids if each not in self._steps]
        found = self.view.get_steps(wanted) if wanted else {}
        for each in wanted:
            self._steps[each] = found.get(each)

    def create(self, step: StepDefinition) -> StepDefinition:
        step.timestamp = self.now
        self._steps[step.id] = self._created[step.id] = step
        return step

    def touch(self, step: StepDefinition) -> None:
        """Note that a step has changed."""
        if step.id not in self._created:
            self._updated[step.id] = step
        self._values.pop(step.id, None)

    def schedule(self, step: StepDefinition) -> None:
        """Let a step go on, after what is going on now; once, however often it is asked for."""
        if step.id not in self._scheduled:
            self._scheduled.add(step.id)
            self._agenda.append(step)

    def next_scheduled(self) -> StepDefinition | None:
        if not self._agenda:
            return None
        step = self._agenda.popleft()
        self._scheduled.discard(step.id)
        return step

    def end_first_task(self, step: StepDefinition) -> None:
        """The only task that the step ever had ends: it was never over before."""
        self._first_ends.add(step.id)

    def is_first_end(self, step: StepDefinition) -> bool:
        """Whether it is sure that nobody has heard of an end of this step before."""
        return step.id in self._first_ends

    def adopt(self, steps: Iterable[StepDefinition]) -> None:
        """Take over steps that were read by other means; what was changed here stays."""
        for each in steps:
            self._steps.setdefault(each.id, each)

    # The text behind a step

    def text_of(self, step: StepDefinition) -> str:
        """What a step is in the program: the same in all runs, to note there what follows from
        the text alone. Blocks have none of their own."""
        return step.statement_id or self.run.workflow.name

    def statement_of(self, step: StepDefinition) -> Statement:
        return self.plan.statement(step.statement_id)

    def block_of(self, step: StepDefinition) -> Block:
        """The block that a block step runs: of a round, what each round runs."""
        found = self.plan.block(StatementId(str(step.statement_id).partition("/")[0]))
        return found.round if step.block_id is not None and found.round is not None else found

    # Children

    def new_block(
        self,
        container: StepDefinition,
        block: Block,
        *,
        name: str = "",
        group: StepDefinition | None = None,
        position: int = 0,
    ) -> StepDefinition:
        """A block of a container's body or, in a group, one of its rounds or cases."""
        name = name or block.name
        statement = block.id if group is None else _member(block, name)
        parent = container.id if group is None else group.id
        step = StepDefinition(
            child_id(parent, statement),
            ObjectType.AND_THEN,
            self.workflow_id,
            statement_id=statement,
            container_id=container.id,
            container_type=container.object_type,
            block_id=None if group is None else BlockId(group.id),
            root_id=container.root_id or container.id,
            name=name,
            position=position,
            depth=container.depth,
        )
        return self.create(step)

    def new_statement(
        self, statement: Statement, block_id: str, like: StepDefinition
    ) -> StepDefinition:
        """A statement of a block; `like` is that block, or another statement of its container."""
        callee = statement.callee
        step = StepDefinition(
            child_id(block_id, statement.id),
            _object_type(statement),
            self.workflow_id,
            facet_name=callee.qualified if callee is not None else statement.call.name,
            statement_id=statement.id,
            container_id=like.container_id,
            container_type=like.container_type,
            block_id=BlockId(block_id),
            root_id=like.root_id,
            name=statement.name,
            position=like.position,
            depth=like.depth + 1 if like.is_block else like.depth,
        )
        if step.object_type == ObjectType.YIELD_ASSIGNMENT:
            self._new_yields[StepId(str(step.container_id))].append(step)
        return self.create(step)

    def yielded(
        self, container: StepDefinition, single: Collection[StatementId] | None = None
    ) -> list[Yielded]:
        """What all yields into a container gave, those of this invocation among them.

        `single` are its yields, where each of them can happen only once. If all did here, the
        store has none: a run whose only block ends asks it nothing.
        """
        made = self._new_yields[container.id]
        new = [
            Yielded(each.statement_id, each.position, each.attributes.values())
            for each in made
            if each.is_complete
        ]
        if container.id in self._created:
            return new
        if single is not None and len(single) == len({each.statement_id for each in made}):
            return new
        return self.view.get_yielded(container.id) + new

    # Values

    def values(self, step_id: StepId, *, is_cached: bool = False) -> Mapping[str, Any]:
        """Returns of a step over its parameters; of a container whose blocks run, perhaps from
        the cache."""
        found = self._values.get(step_id)
        if found is None:
            if is_cached and step_id not in self._steps:
                found = self._cache.get(step_id)
            if found is None:
                found = self.require(step_id).attributes.values()
            self._values[step_id] = found
        return found

    def _shown(self, step: StepDefinition) -> Mapping[str, Any]:
        """What is read of a step by its name: with its error, unless it shows something else
        under that name."""
        values = self.values(step.id)
        if step.transition.error is None:
            return values
        callee = self.statement_of(step).callee
        # Whoever has returns does not show its parameters.
        hidden = callee.params.keys() if callee is not None and callee.returns else set[str]()
        shown = values.keys() - (hidden - step.attributes.returns.keys())
        error = {name: each for name, each in error_of(step).items() if name not in shown}
        return {**values, **error}

    def environment(self, block: StepDefinition, plan: Block) -> Environment:
        """What the statements of a block can read."""
        container = StepId(str(block.container_id))

        def read(name: str) -> Mapping[str, Any]:
            statement = plan.find(name)
            if statement is not None:
                values = self._shown(self._finished(statement, block, plan))
                return {**_NO_ERROR, **values} if _tells_error(statement, plan) else values
            if name == plan.bodies.step_name:
                return self._shown(self.require(container)) if plan.is_catch else inputs.all
            raise KeyError(name)

        inputs = _Inputs(self, container, with_error=plan.is_catch)
        return Environment(inputs, read, plan.variable, block.foreach_value)

    def step_id_of(self, statement: Statement, block: StepDefinition, plan: Block) -> StepId:
        """The id of the step that a statement is, for those in `block` who read it."""
        if statement.block is plan:
            return child_id(block.id, statement.id)
        return child_id(child_id(str(block.container_id), statement.block.id), statement.id)

    def _finished(self, statement: Statement, block: StepDefinition, plan: Block) -> StepDefinition:
        found = self.step(self.step_id_of(statement, block, plan))
        if found is None or not found.is_terminal:
            raise KeyError(statement.name)
        return found

    # Tasks

    def task(self, task_id: str) -> TaskDefinition | None:
        if task_id not in self._tasks:
            self._tasks[task_id] = self.view.get_task(task_id)
        return self._tasks[task_id]

    def adopt_tasks(self, tasks: Iterable[TaskDefinition]) -> None:
        """Take over tasks that were read by other means."""
        for each in tasks:
            self._tasks.setdefault(each.uuid, each)

    def move_task(self, task: TaskDefinition) -> None:
        """Note that a task has changed."""
        self._tasks[task.uuid] = self._moved_tasks[task.uuid] = task

    # What else is written

    def end_run(self, state: RunnerState, failure: StepFailure | None = None) -> None:
        self.run.state = state
        self.run.end_time = self.now
        self.run.duration = max(self.now - self.run.start_time, 0)
        self.run.error = failure.to_dict() if failure is not None else None
        self._is_run_changed = True
        self.tell(
            RunEnded,
            workflow=self.run.workflow.name,
            state=state.value,
            error=failure.message if failure is not None else None,
            duration_s=self.run.duration / 1000,
        )

    def touch_run(self) -> None:
        self._is_run_changed = True

    def add_task(self, task: TaskDefinition) -> None:
        task.held = self.is_paused
        self.changes.add_created_task(task)

    def queue_task(self, task: TaskDefinition) -> None:
        """Let somebody have it: who brought the result that led here, or whoever claims it."""
        wanted = self.next_claim
        has_room = wanted is not None and len(self.claimed) < wanted.limit
        if wanted is not None and has_room and wanted.wants(task.name) and not self.is_paused:
            task = claimed(task, wanted.owner, self.now, wanted.lease_ms)
            self.claimed.append(task)
        self.add_task(task)

    def tell(self, kind: type[Event], **facts: Any) -> None:
        """An event for the outside, emitted once all is committed."""
        if self._is_heard:
            self.told.append((kind, {"run": self.run.workflow_id, **facts}))

    def add_log(self, log: LogDefinition) -> None:
        log.order = self.now * 1000 + self._log_order
        self._log_order += 1
        self.changes.logs.append(log)

    def finished_changes(self) -> IterationChanges:
        """All that is to be written. Asked for once, at the end."""
        changes = self.changes
        changes.created_steps.extend(self._created.values())
        changes.updated_steps.extend(self._updated.values())
        changes.updated_tasks.extend(self._moved_tasks.values())
        if self._is_run_changed and not changes.created_runs:
            changes.updated_runs.append(self.run)
        if self.run.is_over:
            # Nobody reads them again: gone with the changes, before the collector looks at them.
            for each in (self._steps, self._created, self._updated, self._values):
                each.clear()
        return changes

    def publish(self) -> None:
        """After the commit: remember what containers hold, for the steps to come."""
        if self.run.is_over:
            self._cache.drop(StepId(str(self.run.step_id)))
            return
        for step_id, values in self._values.items():
            step = self._steps.get(step_id)
            if step is not None and step_id not in self._updated and _is_settled(step):
                self._cache.put(step_id, values)


def round_name(number: int) -> str:
    return f"round:{number}"


def _member(block: Block, name: str) -> StatementId:
    """What a block of a group is called there. The rounds of a foreach are one text: only their
    number tells them apart."""
    return StatementId(f"{block.id}/{name}")


class HasRuns(Protocol):
    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None: ...


def require_run(store: HasRuns, workflow_id: WorkflowId) -> RunnerDefinition:
    """The run of this id. Raises RunNotFoundError."""
    run = store.get_run(workflow_id)
    if run is None:
        raise RunNotFoundError(workflow_id)
    return run


def error_of(step: StepDefinition) -> dict[str, Any]:
    """What can be read about the error that a step met; nothing if it met none."""
    failure = step.transition.error
    if failure is None:
        return {}
    known = StepFailure.of(failure)
    return {"error": known.message, "error_type": known.error_type}


#: What a step that met no error says about it, where it may have met one.
_NO_ERROR = {"error": None, "error_type": None}


def _tells_error(statement: Statement, plan: Block) -> bool:
    return plan.is_catch or (statement.own is not None and statement.own.catch is not None)


def _is_settled(step: StepDefinition) -> bool:
    """Whether its values stay as they are as long as its blocks run."""
    return step.state == StepState.STATEMENT_BLOCKS_CONTINUE and step.transition.error is None


def _object_type(statement: Statement) -> ObjectType:
    if isinstance(statement.node, ast.YieldStmt):
        return ObjectType.YIELD_ASSIGNMENT
    if statement.callee is not None and statement.callee.is_schema:
        return ObjectType.SCHEMA_INSTANTIATION
    return ObjectType.VARIABLE_ASSIGNMENT


class _Inputs(Mapping[str, Any]):
    """What `$` means: read only if it is asked for, because it may be large."""

    __slots__ = ("_container", "_context", "_found", "_with_error")

    def __init__(self, context: ExecutionContext, container: StepId, with_error: bool) -> None:
        self._context = context
        self._container = container
        self._with_error = with_error
        self._found: Mapping[str, Any] | None = None

    @property
    def all(self) -> Mapping[str, Any]:
        if self._found is None:
            self._found = self._context.values(self._container, is_cached=True)
            if self._with_error:
                # In a catch it is the error that counts, whatever else has its name.
                error = error_of(self._context.require(self._container))
                self._found = {**self._found, **error}
        return self._found

    def __getitem__(self, name: str) -> Any:
        return self.all[name]

    def __contains__(self, name: object) -> bool:
        return name in self.all

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)
