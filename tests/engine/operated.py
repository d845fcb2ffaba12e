"""A drill in which an operator takes part, at any moment."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.engine.drill import Drill
from tests.engine.ledger import Ledger
from tests.engine.programs import Case, HandlerError
from tests.engine.worker import run_handler

from afl.clock import FakeClock
from afl.runtime.claims import lease_holds
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.errors import (
    InvalidRunStateError,
    InvalidStepStateError,
    InvalidTaskStateError,
    StaleFence,
)
from afl.runtime.persistence import PersistenceAPI, task_id_of
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId

#: Without `cancel`: a run that was cancelled is good for little else.
OPERATE = (
    *("break_step", "mend") * 2,
    *("discard", "pause", "unpause", "answer", "update", "try_again"),
)


class OperatedDrill(Drill):
    """Beside the moves of a drill: those of an operator, who breaks steps and mends them."""

    def __init__(self, store: PersistenceAPI, clock: FakeClock, ledger: Ledger, case: Case) -> None:
        super().__init__(store, clock, ledger, case)
        #: Steps that the operator has failed and not brought back.
        self.broken: list[StepId] = []
        #: Whether a `catch` has made something of what the operator broke.
        self.is_spoiled = False
        self.is_cancelled = False
        #: State of all that was over after the last move.
        self._over: dict[str, str] = {}

    def move(self, name: str, number: int) -> None:
        super().move(name, number)
        self._check_that_terminal_is_final(may_come_back=name in ("mend", "try_again"))

    def _check_that_terminal_is_final(self, may_come_back: bool) -> None:
        steps = self.store.get_steps_by_workflow(self.run_id)
        over = {str(each.id): each.state for each in steps if each.is_terminal}
        run = self.store.get_run(self.run_id)
        assert run is not None
        if run.is_over:
            over[run.uuid] = run.state
        if not may_come_back:
            assert self._over.items() <= over.items()
        self._over = over

    def claim(self, number: int) -> None:
        before = list(self.held)
        super().claim(number)
        assert self._state() != "paused" or self.held == before

    # Moves of the operator

    def pause(self, number: int) -> None:
        was_running = self._state() == "running"
        assert self.evaluator.pause(self.run_id) == was_running

    def unpause(self, number: int) -> None:
        was_paused = self._state() == "paused"
        assert self.evaluator.unpause(self.run_id) == was_paused

    def cancel(self, number: int) -> None:
        was_over = self.is_over
        assert self.evaluator.cancel(self.run_id) == (not was_over)
        if not was_over:
            self.is_cancelled = True
            self.lose({each.uuid for each in self.held})

    def break_step(self, number: int) -> None:
        step = self._waiting(number)
        if step is not None:
            self.evaluator.fail_step(step.id, "by the operator")
            self.lose({task_id_of(step.id)})
            self.broken.append(step.id)

    def discard(self, number: int) -> None:
        """What nobody works on may be given up, once; what failed may be seen, once."""
        step = self._waiting(number)
        if step is None:
            return
        task = self._task(step.id)
        if lease_holds(task, self.store.now_ms()):
            with pytest.raises(InvalidTaskStateError):
                self.evaluator.discard_task(task.uuid, "nobody will come")
            return
        assert self.evaluator.discard_task(task.uuid, "nobody will come")
        assert not self.evaluator.discard_task(task.uuid, "nobody will come")
        assert self._task(step.id).state == TaskState.IGNORED
        self.lose({task.uuid})
        self.broken.append(step.id)

    def answer(self, number: int) -> None:
        """The operator does the work, in the place of whoever has the claim."""
        step = self._waiting(number)
        if step is None:
            return
        task = self._task(step.id)
        with suppress(HandlerError):
            result = run_handler(task)
            self.ledger.deliver(task)
            self.evaluator.continue_step(step.id, result)
            self.lose({task.uuid})
            self.evaluator.continue_step(step.id, {"sum": "of somebody else"})

    def update(self, number: int) -> None:
        """Workers show a part of their result; those who lost their claim are refused."""
        for task in self.held:
            with suppress(HandlerError):
                self._update(task, run_handler(task))
        for task in self.lost:
            with pytest.raises(StaleFence):
                self._update(task, {"sum": "of somebody else"})

    def _update(self, task: TaskDefinition, partial: dict[str, object]) -> None:
        self.evaluator.update_step(StepId(task.step_id), partial, fence=task.fence)

    def mend(self, number: int) -> None:
        if not self.broken:
            return
        step_id = self.broken[number % len(self.broken)]
        try:
            self.evaluator.retry_step(step_id)
        except (InvalidStepStateError, InvalidRunStateError):
            assert self.is_cancelled or self._has_been_caught(step_id)
            self.is_spoiled = True
        else:
            assert not self._has_been_caught(step_id)
            self.broken.remove(step_id)

    def try_again(self, number: int) -> None:
        """The operator retries whatever has failed, for whatever reason."""
        steps = self.store.get_steps_by_workflow(self.run_id)
        failed = [each.id for each in steps if each.is_error]
        if not failed:
            return
        step_id = failed[number % len(failed)]
        with suppress(InvalidStepStateError, InvalidRunStateError):
            self.evaluator.retry_step(step_id)
            self.broken = [each for each in self.broken if each != step_id]

    # The end

    def finish_all(self) -> None:
        self.move("unpause", 0)
        super().finish_all()
        while self.broken and not self.is_spoiled and not self.is_cancelled:
            self.move("mend", 0)
            super().finish_all()

    def check_end(self) -> None:
        if self.is_cancelled:
            self._check_cancelled()
        elif not self.is_spoiled:
            super().check_end()
        else:
            assert self.is_over

    def _check_cancelled(self) -> None:
        assert self._state() == "cancelled"
        assert all(each.is_terminal for each in self.store.get_steps_by_workflow(self.run_id))
        for step_id in self.broken:
            with pytest.raises((InvalidRunStateError, InvalidStepStateError)):
                self.evaluator.retry_step(step_id)

    # What is there

    def _state(self) -> str:
        run = self.store.get_run(self.run_id)
        assert run is not None
        return run.state

    def _task(self, step_id: StepId) -> TaskDefinition:
        task = self.store.get_task(task_id_of(step_id))
        assert task is not None
        return task

    def _waiting(self, number: int) -> StepDefinition | None:
        steps = self.store.get_steps_by_workflow(self.run_id)
        waiting = [each for each in steps if each.state == StepState.EVENT_TRANSMIT]
        return waiting[number % len(waiting)] if waiting else None

    def _has_been_caught(self, step_id: StepId) -> bool:
        """Whether a `catch` has run for the error of this step, or for one that it was part of."""
        step = self.store.get_step(step_id)
        while step is not None:
            if step.caught:
                return True
            step = self.store.get_step(StepId(str(step.block_id or step.container_id)))
        return False
