"""One run, and all that workers and time can do to it, move by move.

A move is a name and a number, which chooses among what is there; a move that is not possible now
does nothing. So any list of moves can be drawn, and shortened. After each one the run must be at
rest.
"""

from __future__ import annotations

import pytest
from tests.engine.cases import check_result, expected
from tests.engine.ledger import Ledger
from tests.engine.programs import Case
from tests.engine.rest import check_rest, shape_of
from tests.engine.worker import NAMES, finish

from afl.clock import FakeClock
from afl.ids import new_id
from afl.runtime.entities import TaskDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import DEFAULT_LEASE_MS, Claim, PersistenceAPI
from afl.runtime.types import WorkflowId

Move = tuple[str, int]

#: Of a worker, and of time.
WORK = (*("claim", "finish") * 3, "late", "release", "extend", "lapse", "fail")


class Drill:
    """A run of a case, on a store that others may use too, and the claims that are made on it."""

    def __init__(self, store: PersistenceAPI, clock: FakeClock, ledger: Ledger, case: Case) -> None:
        self.store = store
        self.clock = clock
        self.ledger = ledger
        self.case = case
        # Two evaluators, as two processes have them: neither may rely on what it remembers.
        self._evaluators = (Evaluator(store), Evaluator(store))
        self._moves = 0
        #: Other runs of this store have tasks with the same names.
        self._task_list = new_id()
        self.run_id: WorkflowId = self.evaluator.submit(
            case.program, case.workflow, case.inputs, task_list=self._task_list
        )
        #: Claims that are good, and those that somebody else has taken over or that were ended.
        self.held: list[TaskDefinition] = []
        self.lost: list[TaskDefinition] = []
        check_rest(store, self.run_id)

    @property
    def evaluator(self) -> Evaluator:
        return self._evaluators[self._moves % 2]

    def play(self, moves: list[Move]) -> None:
        for name, number in moves:
            self.move(name, number)

    def move(self, name: str, number: int) -> None:
        self._moves += 1
        getattr(self, name)(number)
        check_rest(self.store, self.run_id)

    # Moves

    def claim(self, number: int) -> None:
        claimed = self.store.claim_tasks(NAMES, 1 + number % 3, task_list=self._task_list)
        taken = {each.uuid for each in claimed}
        self.lose(taken)
        self.held += claimed

    def finish(self, number: int) -> None:
        if self.held:
            task = self.held.pop(number % len(self.held))
            self.ledger.deliver(task)
            finish(self.evaluator, task)
            self.lost.append(task)

    def late(self, number: int) -> None:
        if self.lost:
            task = self.lost[number % len(self.lost)]
            self.ledger.deliver(task)
            with pytest.raises(StaleFence):
                finish(self.evaluator, task)

    def release(self, number: int) -> None:
        if self.held:
            task = self.held.pop(number % len(self.held))
            assert self.store.release_task(Claim(task.uuid, task.fence))
            self.lost.append(task)

    def extend(self, number: int) -> None:
        claims = [Claim(each.uuid, each.fence) for each in (*self.held, *self.lost)]
        good = [True] * len(self.held) + [False] * len(self.lost)
        assert self.store.extend_leases(claims) == good

    def lapse(self, number: int) -> None:
        """Whoever holds a claim may still finish, as long as nobody else has it."""
        self.clock.advance(DEFAULT_LEASE_MS / 1000)

    def fail(self, number: int) -> None:
        """A handler fails that may be tried again, and does not tell how often it was."""
        if self.held:
            task = self.held[number % len(self.held)]
            if task.failures + 1 < task.max_attempts and task.short_name != "Flaky":
                self.held.remove(task)
                self.ledger.deliver(task)
                self.evaluator.fail_task(task, "not this time")
                self.lost.append(task)

    # The end

    def finish_all(self) -> None:
        """The workers die; another one does what is left."""
        self.lapse(0)
        while not self.is_over and (self.claim_again() or self.held):
            self.move("finish", 0)

    def claim_again(self) -> bool:
        self.clock.advance(1)
        before = len(self.held)
        self.claim(2)
        return len(self.held) > before

    @property
    def is_over(self) -> bool:
        run = self.store.get_run(self.run_id)
        assert run is not None
        return run.is_over

    def check_end(self) -> None:
        """All is as if one worker had done one task after another."""
        check_rest(self.store, self.run_id)
        check_result(self.case, self.evaluator.result(self.run_id))
        assert shape_of(self.store, self.run_id) == expected(self.case.name).shape
        self.ledger.check(self.case.name, self.run_id)

    def lose(self, task_ids: set[str]) -> None:
        """Claims that are good no more."""
        self.lost += [each for each in self.held if each.uuid in task_ids]
        self.held = [each for each in self.held if each.uuid not in task_ids]
