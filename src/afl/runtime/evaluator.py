"""The evaluator: everything that can be done to a run, each as one commit.

`submit` and `execute` start a run, `complete_task` and `fail_task` bring the result of a claimed
task, the other methods are an operator's. Each is a decision on the store: it reads what it needs,
lets everything go on that follows, and writes all of it together. So a run is at rest after every
commit: each open step waits for a task or for other steps, and no crash can fall in between.

An evaluator keeps nothing about runs, only programs and values that can be read again. Any number
of them, in any number of processes, may work on one store.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from afl import telemetry as events
from afl.clock import SYSTEM_CLOCK, Clock
from afl.ids import new_id
from afl.lang.expressions import LARGEST
from afl.lang.program import Program
from afl.runtime import control, starting
from afl.runtime.batches import Act
from afl.runtime.claims import (
    NextClaim,
    RetryPolicy,
    discarded,
    ended,
    holds,
    retry_of,
    to_be_retried,
    was_never_over,
)
from afl.runtime.context import ExecutionContext, require_run
from afl.runtime.deciding import Decisions, Settings
from afl.runtime.deciding import Pending as Pending
from afl.runtime.entities import RunnerDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.errors import (
    InvalidStepStateError,
    StaleFence,
    StepFailure,
    StepNotFoundError,
    TaskNotFoundError,
)
from afl.runtime.handlers.scripts import SCRIPT_TASK, scripts_are_off
from afl.runtime.json_values import NotJson, json_object
from afl.runtime.persistence import (
    DEFAULT_LEASE_MS,
    Claim,
    IterationChanges,
    PersistenceAPI,
    View,
    task_id_of,
)
from afl.runtime.plans import PlanCache
from afl.runtime.progress import answer, fail, run_agenda
from afl.runtime.results import ExecutionResult, result_of
from afl.runtime.retrying import retry as retry_again
from afl.runtime.script_executor import ScriptExecutor, ScriptResult
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId
from afl.telemetry import TELEMETRY, Telemetry

T = TypeVar("T")


class Evaluator:
    """Runs programs on a store. Shared by all threads of a process.

    `max_iterations` bounds how deep calls may be nested. `scripts` runs script blocks; without it
    they are turned off.
    """

    def __init__(
        self,
        persistence: PersistenceAPI,
        telemetry: Telemetry | None = None,
        max_iterations: int = 1000,
        *,
        scripts: ScriptExecutor | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.persistence = persistence
        self.telemetry = TELEMETRY if telemetry is None else telemetry
        self.max_iterations = max_iterations
        self._scripts = scripts
        self._owner = f"evaluator:{new_id()}"
        self._plans = PlanCache(persistence)
        settings = Settings(self._owner, max_iterations, scripts is not None)
        self._decisions = Decisions(persistence, settings, self.telemetry, clock, self.do_script)

    @property
    def runs_scripts(self) -> bool:
        return self._scripts is not None

    # Starting

    def submit(
        self,
        program: Program,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        runner_id: str = "",
        task_list: str = "default",
    ) -> WorkflowId:
        """Start a run and let it come to rest. The same `key` again gives the same run.

        Raises UsageError for a workflow that the program does not have, or inputs that are not
        JSON.
        """
        declared = program.workflow(workflow)
        json_object({"key": key}, "submitting")
        given = json_object(inputs or {}, f"inputs of {declared.qualified}")
        new = starting.NewRun(program, declared, given, key, runner_id, task_list)
        plan = self._plans.of(program)

        def decision(view: View) -> tuple[IterationChanges, tuple[ExecutionContext | None, str]]:
            known = view.get_run_by_key(key) if key is not None else None
            if known is not None:
                starting.require_same(known, new)
                return IterationChanges(), (None, known.workflow_id)
            context = self._decisions.context(view, new.run(view.now_ms()), plan)
            starting.begin(new, context)
            run_agenda(context)
            return context.finished_changes(), (context, context.workflow_id)

        context, run_id = self.persistence.decide(decision)
        if context is not None:
            self._decisions.follow(context)
        return WorkflowId(run_id)

    def execute(
        self,
        workflow_ast: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        program_ast: Mapping[str, Any] | Program | None = None,
        runner_id: str = "",
    ) -> ExecutionResult:
        """Start a run of compiled JSON and let it come to rest: COMPLETED, ERROR, or PAUSED if
        it waits for events."""
        program, name = starting.program_of(workflow_ast, program_ast)
        return self.result(self.submit(program, name, inputs, runner_id=runner_id))

    def resume(
        self,
        workflow_id_val: WorkflowId,
        workflow_ast: Mapping[str, Any] | None = None,
        program_ast: Mapping[str, Any] | Program | None = None,
        inputs: Mapping[str, Any] | None = None,  # noqa: ARG002 - a run keeps those it began with
        runner_id: str = "",  # noqa: ARG002
    ) -> ExecutionResult:
        """Let a run go on from where it is, in any process, and say where it stands.

        The program travels with the run: one that is passed in is not needed, and a different
        one is only warned about.
        """
        run = require_run(self.persistence, workflow_id_val)
        starting.warn_if_other(run, workflow_ast, program_ast)
        self._do_lapsed_scripts(run)
        return self.result(workflow_id_val)

    def result(self, workflow_id: WorkflowId) -> ExecutionResult:
        """Where a run stands now."""
        run = require_run(self.persistence, workflow_id)
        return result_of(run, self.persistence)

    # Tasks

    def complete_task(
        self,
        task: TaskDefinition,
        result: Mapping[str, Any] | None = None,
        *,
        claim: NextClaim | None = None,
    ) -> list[TaskDefinition]:
        """Record the result of a claimed task, and everything that follows from it.

        With `claim`, tasks that the result makes possible are claimed in the same commit and
        returned. Raises StaleFence if the claim was lost: the result is refused. Raises
        UsageError for a result that is not JSON; nothing is written then.
        """
        return self._completion(task, result, claim, is_waited_for=True).result()

    def complete_task_later(
        self,
        task: TaskDefinition,
        result: Mapping[str, Any] | None = None,
        *,
        claim: NextClaim | None = None,
    ) -> Pending:
        """Like `complete_task`, but do not wait: results that come together share a commit."""
        return self._completion(task, result, claim, is_waited_for=False)

    def _completion(
        self,
        task: TaskDefinition,
        result: Mapping[str, Any] | None,
        claim: NextClaim | None,
        *,
        is_waited_for: bool,
        params: dict[str, Any] | None = None,
    ) -> Pending:
        values = json_object(result or {}, f"result of {task.name}")

        def act(context: ExecutionContext) -> None:
            stored = self._stored(context, task)
            step = context.require(stored.step_id)
            if params is not None and not step.is_block:
                # A script in front of blocks may prepare what they read as `$`.
                control.change_params(context, step, params)
            self._accept(context, step, stored, values)

        return self._decide_on_task(task, act, claim, is_waited_for=is_waited_for)

    def fail_task(
        self,
        task: TaskDefinition,
        error: BaseException | str,
        *,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Record that the handler of a claimed task failed.

        If the program asks for another try, or `retry`, which is that of the handler, does, the
        task is put back; else its step ends in error. What the program asks goes first. Raises
        StaleFence if the claim was lost.
        """
        self.fail_task_later(task, error, retry=retry).result()

    def fail_task_later(
        self,
        task: TaskDefinition,
        error: BaseException | str,
        *,
        retry: RetryPolicy | None = None,
        claim: NextClaim | None = None,
    ) -> Pending:
        """Like `fail_task`, but do not wait; with `claim`, as `complete_task` does."""
        failure = StepFailure.of(error)

        def act(context: ExecutionContext) -> None:
            stored = self._stored(context, task)
            step = context.require(stored.step_id)
            policy = retry_of(stored, retry)
            if policy.may_follow(stored.failures + 1):
                self._retry_later(context, step, stored, failure, policy)
            else:
                stored.failures += 1
                self._refuse(context, step, stored, failure, TaskState.FAILED)

        return self._decide_on_task(task, act, claim)

    def dead_letter_task(
        self, task: TaskDefinition, reason: str, *, claim: NextClaim | None = None
    ) -> list[TaskDefinition]:
        """Give a claimed task up: it was delivered too often without an end. With `claim`, as
        `complete_task` does."""

        def act(context: ExecutionContext) -> None:
            stored = self._stored(context, task)
            step, failure = context.require(stored.step_id), StepFailure(reason, "DeadLetter")
            self._refuse(context, step, stored, failure, TaskState.DEAD_LETTER)

        return self._decide_on_task(task, act, claim).result()

    def discard_task(self, task_id: str, reason: str = "given up by an operator") -> bool:
        """Say that no handler will ever come, or that a failure was seen: the task is IGNORED.

        The step that waits for it fails with this reason. False if it was given up already, or
        ended in another way. Raises TaskNotFoundError, and InvalidTaskStateError while somebody
        works on it.
        """
        task = self.persistence.get_task(task_id)
        if task is None:
            raise TaskNotFoundError(task_id)
        workflow_id = WorkflowId(task.workflow_id)
        if self.persistence.get_run(workflow_id) is None:
            return self._discard_alone(task_id, reason)
        return self._decide_on_run(
            workflow_id, lambda context: control.discard(context, task_id, reason)
        )

    def _discard_alone(self, task_id: str, reason: str) -> bool:
        """A task of no run, such as one that asks to start one."""

        def decision(view: View) -> tuple[IterationChanges, bool]:
            task = view.get_task(task_id)
            given_up = None if task is None else discarded(task, view.now_ms(), reason)
            changes = [] if given_up is None else [given_up]
            return IterationChanges(updated_tasks=changes), bool(changes)

        return self.persistence.decide(decision)

    # Steps, by an operator or by code that does not use tasks

    def continue_step(self, step_id: StepId, result: Mapping[str, Any] | None = None) -> None:
        """Give a waiting step its result; a task that somebody has claimed is ended with it.

        Does nothing once the step has gone on. Raises StepNotFoundError, InvalidStepStateError.
        """
        values = json_object(result or {}, f"result of step {step_id}")

        def act(context: ExecutionContext) -> None:
            step = context.require(step_id)
            if self._is_waiting(context, step):
                self._accept(context, step, context.task(task_id_of(step_id)), values)

        self._decide_on_step(step_id, act)

    def fail_step(self, step_id: StepId, error_message: str) -> None:
        """End a waiting step in error; a task that somebody has claimed is ended with it.

        Raises StepNotFoundError; InvalidStepStateError, also once the step has gone on.
        """

        def act(context: ExecutionContext) -> None:
            step = context.require(step_id)
            if not self._is_waiting(context, step):
                raise InvalidStepStateError(
                    step.id, step.state, StepState.EVENT_TRANSMIT, "it had its result before"
                )
            task = context.task(task_id_of(step_id))
            self._refuse(context, step, task, StepFailure(error_message), TaskState.FAILED)

        self._decide_on_step(step_id, act)

    def update_step(
        self,
        step_id: StepId,
        partial: Mapping[str, Any],
        *,
        fence: int | None = None,
        order: int | None = None,
    ) -> bool:
        """Merge a partial result into the returns of a waiting step, without ending it.

        With a `fence`, only the holder of the claim may (StaleFence). With an `order`, what
        comes after a later one is dropped: False.
        """
        values = json_object(partial, f"partial result of step {step_id}")

        def act(context: ExecutionContext) -> bool:
            return control.update(context, step_id, values, fence, order)

        return self._decide_on_step(step_id, act)

    def retry_step(self, step_id: StepId) -> None:
        """Try a failed event step again, and bring back what failed because of it.

        Raises InvalidStepStateError if it has not failed, or is no event.
        """
        self._decide_on_step(step_id, lambda context: retry_again(context, step_id))

    # Runs, by an operator

    def cancel(self, workflow_id: WorkflowId) -> bool:
        """End a run now; whoever works on its tasks loses the claim. False if it was over."""
        return self._decide_on_run(workflow_id, control.cancel)

    def pause(self, workflow_id: WorkflowId) -> bool:
        """Let nobody claim its tasks; what is claimed may end. False if it is paused or over."""
        return self._decide_on_run(workflow_id, control.pause)

    def unpause(self, workflow_id: WorkflowId) -> bool:
        """Let it go on. False if it was not paused."""
        return self._decide_on_run(workflow_id, control.unpause)

    # Decisions. Programs are read before: others wait for the transaction, and it may take long.

    def _decide_on_task(
        self,
        task: TaskDefinition,
        act: Act[None],
        claim: NextClaim | None = None,
        *,
        is_waited_for: bool = False,
    ) -> Pending:
        plan = self._plans.get(task.flow_id)
        return self._decisions.about_task(task, plan, act, claim, is_waited_for=is_waited_for)

    def _decide_on_step(self, step_id: StepId, act: Act[T]) -> T:
        step = self.persistence.get_step(step_id)
        if step is None:
            raise StepNotFoundError(step_id)
        return self._decide_on_run(step.workflow_id, act)

    def _decide_on_run(self, workflow_id: WorkflowId, act: Act[T]) -> T:
        run = require_run(self.persistence, workflow_id)
        plan = self._plans.get(run.workflow.flow_id)
        return self._decisions.about_run(workflow_id, plan, act)

    # What a result does

    def _accept(
        self,
        context: ExecutionContext,
        step: StepDefinition,
        task: TaskDefinition | None,
        values: Mapping[str, Any],
    ) -> None:
        if task is not None and not task.is_over:
            # A step that was written since it was made may have been over before it had a task:
            # not run because of an error, and brought back by a retry.
            if was_never_over(task) and step.sequence == 0:
                context.end_first_task(step)
            context.move_task(ended(task, TaskState.COMPLETED, context.now))
        control.merge_returns(context, step, values)
        control.check_returns(context, step)
        answer(step, context)

    def _refuse(
        self,
        context: ExecutionContext,
        step: StepDefinition,
        task: TaskDefinition | None,
        failure: StepFailure,
        state: TaskState,
    ) -> None:
        if task is not None and not task.is_over:
            error = failure.to_dict()
            context.move_task(ended(task, state, context.now, error))
        control.drop_parts(context, step)
        fail(step, failure, context)

    def _retry_later(
        self,
        context: ExecutionContext,
        step: StepDefinition,
        task: TaskDefinition,
        failure: StepFailure,
        policy: RetryPolicy,
    ) -> None:
        delay = policy.delay_ms(task.failures + 1)
        # Doubled often enough, a wait outgrows what a store can keep; nobody lives to see it end.
        not_before = min(context.now + delay, LARGEST) if delay else 0
        retried = to_be_retried(task, context.now, failure.to_dict(), not_before=not_before)
        context.move_task(retried)
        control.drop_parts(context, step)
        context.tell(
            events.TaskRetried,
            step=step.id,
            facet=task.name,
            failures=retried.failures,
            error=failure.message,
        )

    def _stored(self, context: ExecutionContext, task: TaskDefinition) -> TaskDefinition:
        stored = context.task(task.uuid)
        if stored is None or not holds(stored, task.fence):
            found = f"it is {stored.state}, fence {stored.fence}" if stored else "it is gone"
            raise StaleFence(task.uuid, task.fence, found)
        return stored

    def _is_waiting(self, context: ExecutionContext, step: StepDefinition) -> bool:
        """Whether a step waits for a result. False if it had one; raises if it cannot have any."""
        if step.state == StepState.EVENT_TRANSMIT:
            return True
        if step.is_error:
            raise InvalidStepStateError(
                step.id, step.state, StepState.EVENT_TRANSMIT, "retry_step brings it back"
            )
        if context.task(task_id_of(step.id)) is None:
            # A block, a workflow, a step of a facet that asks nobody.
            raise InvalidStepStateError(step.id, step.state, StepState.EVENT_TRANSMIT)
        return False

    # Scripts

    def do_script(self, task: TaskDefinition) -> None:
        """Run the script of a claimed task (`afl:script`) and record how it ended.

        Where scripts are turned off its step ends in error. Raises StaleFence if the claim was
        lost.
        """
        if self._scripts is not None:
            # As long as it may take: nobody renews it meanwhile, and others may have gone before.
            lease_ms = DEFAULT_LEASE_MS + round(self._scripts.timeout * 1000)
            claim = Claim(task.uuid, task.fence)
            if self.persistence.extend_leases([claim], lease_ms) == [False]:
                raise StaleFence(task.uuid, task.fence, "somebody else has it, or it is over")
        try:
            done = self.run_script(task)
        except StepFailure as failure:
            self.fail_task(task, failure)
        else:
            self.complete_script_later(task, done).result()

    def run_script(self, task: TaskDefinition) -> ScriptResult:
        """Only run it, for who keeps the claim meanwhile. Raises StepFailure if it fails, and where
        scripts are turned off; OSError if no process can be started."""
        if self._scripts is None:
            raise scripts_are_off()
        data = task.data or {}
        done = self._scripts.execute(data["code"], data["params"], data["language"])
        if not done.success:
            raise StepFailure(done.error or "the script failed", "ScriptError")
        try:
            return replace(
                done,
                result=json_object(done.result, "result of a script"),
                params=json_object(done.params, "parameters of a script"),
            )
        except NotJson as error:
            raise StepFailure(str(error), "ScriptError") from error

    def complete_script_later(
        self, task: TaskDefinition, done: ScriptResult, *, claim: NextClaim | None = None
    ) -> Pending:
        """Record what a script gave, as `complete_task_later` does."""
        return self._completion(task, done.result, claim, is_waited_for=False, params=done.params)

    def _do_lapsed_scripts(self, run: RunnerDefinition) -> None:
        """Scripts whose evaluator has died, and those that were asked for while paused."""
        if self._scripts is None or run.state != RunnerState.RUNNING:
            return
        while tasks := self.persistence.claim_tasks(
            [SCRIPT_TASK], 1, task_list=run.task_list, owner=self._owner
        ):
            for task in tasks:
                with suppress(StaleFence):  # cancelled meanwhile, or done by somebody else
                    self.do_script(task)
