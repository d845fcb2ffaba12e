"""What holds of a run after every commit, whoever did it: the run is at rest.

Each open step has a task, or waits for steps that have one. `problems_of_run` counts again, from
the steps and the text of the program, what the engine only ever counts up and down.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from afl.lang.program import Program
from afl.runtime.context import ExecutionContext, require_run
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.handlers.blocks import bodies_of, catches_of
from afl.runtime.persistence import IterationChanges, PersistenceAPI, View, child_id
from afl.runtime.plan import Block, Kind, Plan
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId, WorkflowId
from afl.runtime.values import ValueCache

_AT_A_TASK = (StepState.EVENT_TRANSMIT, StepState.FACET_SCRIPTS_BEGIN)


def problems_of_run(store: PersistenceAPI, workflow_id: WorkflowId) -> list[str]:
    """Everything that is wrong with a run, in words; reads all of it in one transaction.
    Raises RunNotFoundError."""

    def decision(view: View) -> tuple[IterationChanges, list[str]]:
        return IterationChanges(), list(_Rest(view, workflow_id).problems())

    return store.decide(decision)


@lru_cache(maxsize=64)  # runs that are looked at together often share one
def _plan(text: str) -> Plan:
    return Plan(Program.from_json(text))


class _Rest:
    def __init__(self, view: View, workflow_id: WorkflowId) -> None:
        self.run = require_run(view, workflow_id)
        flow = view.get_flow(self.run.workflow.flow_id)
        assert flow is not None, "a store keeps the program as long as its runs"
        # Only to look up what belongs to which place in the text.
        self._text = ExecutionContext(
            view,
            self.run,
            _plan(flow.program),
            ValueCache(),
            max_depth=0,
            runs_scripts=True,
            owner="",
        )
        self._steps = {each.id: each for each in view.get_steps_by_workflow(workflow_id)}
        self._tasks = {each.step_id: each for each in view.get_open_tasks(workflow_id)}

    def problems(self) -> Iterator[str]:
        yield from self._problems_of_run()
        for step in self._steps.values():
            at = f"{step.name} ({step.facet_name or step.object_type}, {step.state})"
            yield from (f"{at}: {each}" for each in self._problems_of_step(step))
        for task in self._tasks.values():
            yield from (f"task {task.name}: {each}" for each in self._problems_of_task(task))

    # The run

    def _problems_of_run(self) -> Iterator[str]:
        root = self._steps[StepId(str(self.run.step_id))]
        if self.run.is_over:
            if self._tasks:
                yield f"the run is {self.run.state} and has open tasks"
            if root.is_complete != (self.run.state == RunnerState.COMPLETED):
                yield f"the run is {self.run.state} and its root {root.state}"
        if self.run.is_over != root.is_terminal:
            yield f"the run is {self.run.state} and its root {root.state}"

    # Steps

    def _problems_of_step(self, step: StepDefinition) -> Iterator[str]:
        parent = self._steps.get(StepId(str(step.block_id or step.container_id)))
        if step.object_type != ObjectType.WORKFLOW and parent is None:
            yield "what it belongs to is not there"
        if step.is_terminal:
            if step.id in self._tasks:
                yield "it is over and has an open task"
            return
        if parent is not None and parent.is_terminal:
            yield "it is open in something that is over"
        if self._waits_for_a_task(step):
            if step.id not in self._tasks:
                yield "it waits for a task, and none is open"
        else:
            yield from self._problems_of_waiting(step)

    def _waits_for_a_task(self, step: StepDefinition) -> bool:
        if step.is_block:
            is_script = self._text.block_of(step).kind is Kind.SCRIPT
            return is_script and step.state == StepState.BLOCK_EXECUTION_CONTINUE
        return step.state in _AT_A_TASK

    def _problems_of_waiting(self, step: StepDefinition) -> Iterator[str]:
        if step.id in self._tasks:
            yield "it has an open task that it does not wait for"
        awaited = self._awaited(step)
        if awaited is None:
            yield "nothing waits in this state"
            return
        found = [self._steps.get(each) for each in awaited]
        over = [each for each in found if each is not None and each.is_terminal]
        counted = len(awaited) - len(over), sum(each.is_error for each in over)
        if counted != (step.pending, step.failed):
            yield f"pending, failed are {step.pending}, {step.failed}; counted: {counted}"
        if counted[0] == 0:
            yield "nothing is left that it waits for"
        if step.is_block and step.state == StepState.BLOCK_EXECUTION_CONTINUE:
            yield from self._problems_of_children(step, self._text.block_of(step))

    def _awaited(self, step: StepDefinition) -> list[StepId] | None:
        """All that it counts, over or not; None if it must not be waiting here."""
        if step.is_block:
            return self._awaited_by_block(step, self._text.block_of(step))
        if step.state == StepState.CREATED and step.object_type != ObjectType.WORKFLOW:
            statement = self._text.statement_of(step)
            block = self._steps[StepId(str(step.block_id))]
            return [self._text.step_id_of(each, block, statement.block) for each in statement.needs]
        if step.state != StepState.STATEMENT_BLOCKS_CONTINUE:
            return None
        if step.caught:
            return [child_id(step.id, catches_of(step, self._text)[step.caught - 1].id)]
        bodies = bodies_of(step, self._text)
        return [child_id(step.id, each.id) for each in bodies.blocks] if bodies else []

    def _awaited_by_block(self, step: StepDefinition, plan: Block) -> list[StepId] | None:
        siblings = [self._text.step_id_of(each, step, plan) for each in plan.waits_for]
        if step.state == StepState.CREATED:
            return siblings
        if step.state != StepState.BLOCK_EXECUTION_CONTINUE:
            return None
        if plan.kind is Kind.FOREACH:
            return [self._round(step, plan, number) for number in range(step.foreach_value)]
        if plan.kind is Kind.WHEN:
            cases = [child_id(step.id, f"{each.id}/{each.name}") for _, each in plan.cases]
            return [each for each in cases if each in self._steps]
        return [*(child_id(step.id, each.id) for each in plan.statements), *siblings]

    def _round(self, group: StepDefinition, plan: Block, number: int) -> StepId:
        return child_id(group.id, f"{plan.id}/round:{number}")

    # What must have begun

    def _problems_of_children(self, step: StepDefinition, plan: Block) -> Iterator[str]:
        if plan.kind is Kind.FOREACH:
            yield from self._problems_of_rounds(step, plan)
        for statement in plan.statements:
            needs = [self._text.step_id_of(each, step, plan) for each in statement.needs]
            if child_id(step.id, statement.id) not in self._steps and self._has_begun(needs):
                yield f"{statement.name} should be there"

    def _has_begun(self, needs: list[StepId]) -> bool:
        found = [self._steps.get(each) for each in needs]
        return not needs or any(each is not None and each.is_terminal for each in found)

    def _problems_of_rounds(self, step: StepDefinition, plan: Block) -> Iterator[str]:
        ids = [self._round(step, plan, number) for number in range(step.foreach_value)]
        begun = [each for each in ids if each in self._steps]
        if begun != ids[: step.position]:
            yield f"{len(begun)} rounds have begun; expected the first {step.position}"
        if all(self._steps[each].is_terminal for each in begun):
            yield "no round is under way"

    # Tasks

    def _problems_of_task(self, task: TaskDefinition) -> Iterator[str]:
        step = self._steps.get(StepId(task.step_id))
        if step is None or not self._waits_for_a_task(step):
            yield "its step does not wait for it"
        if task.held != (self.run.state == RunnerState.PAUSED):
            yield f"held is {task.held} in a run that is {self.run.state}"
        leased = (bool(task.owner), task.lease_ms > 0, task.lease_expires > 0)
        if set(leased) != {task.state == TaskState.RUNNING}:
            yield f"it is {task.state}; owner, length and end of the lease: {leased}"
