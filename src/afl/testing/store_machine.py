"""A machine that does to a store what a fleet of workers does, and compares it with a model.

Workers claim, renew, finish, lose their claims and crash, while operators hold, cancel and retry
and the clock jumps. After every step the store must show what the model says, and nothing may be
done twice. `afl.testing` keeps it for stores of your own:

    class MyMachine(StoreMachine):
        def new_store(self, clock: FakeClock) -> MyStore:
            return MyStore(clock=clock)

    def test_my_store() -> None:
        run_state_machine_as_test(MyMachine)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from afl.clock import FakeClock
from afl.errors import Conflict
from afl.runtime.claims import ended, holds, revived, to_be_retried
from afl.runtime.entities import OPEN_TASK_STATES, TASK_TRANSITIONS, TaskDefinition, TaskState
from afl.runtime.errors import StaleFence
from afl.runtime.names import is_short, short_name
from afl.runtime.persistence import Claim, IterationChanges, PersistenceAPI, View
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId, WorkflowId

NAMES = ["Pay", "a.Pay", "b.Pay"]
#: What workers serve: exact and short names. What is more likely to meet stands here more often.
SERVED = [["Pay"], ["b.Pay", "Pay"], ["Pay"], ["a.Pay"]]
OWNERS = ["one", "two"]
LEASES = [1000, 5000]
RETRY_MS = 700
MOMENTS = [1, 400, 1000, 5000, 60_000]


# The model


@dataclass
class ModelTask:
    uuid: str
    name: str
    step_id: str
    state: str = TaskState.PENDING
    owner: str = ""
    fence: int = 0
    deliveries: int = 0
    begins: int = 0
    ends: int = 0
    not_before: int = 0
    held: bool = False

    @property
    def is_over(self) -> bool:
        return self.state not in OPEN_TASK_STATES

    def is_held_by(self, fence: int) -> bool:
        return self.state == TaskState.RUNNING and self.fence == fence

    def is_claimable(self, now: int) -> bool:
        if self.held:
            return False
        if self.state == TaskState.RUNNING:
            return not self.begins <= now < self.ends
        return self.state == TaskState.PENDING and self.not_before <= now

    def leave(self, state: str, not_before: int = 0) -> None:
        """Nobody holds it any more."""
        self.state, self.owner, self.begins, self.ends = state, "", 0, 0
        self.not_before = not_before

    def end(self, state: str) -> None:
        self.leave(state, self.not_before)
        self.fence += 1


class Model:
    """What a store of tasks is, in the plainest words: a list, and a search through all of it."""

    def __init__(self) -> None:
        self.tasks: dict[str, ModelTask] = {}

    def claim(
        self, names: list[str], limit: int, owner: str, now: int, lease: int
    ) -> list[ModelTask]:
        chosen: list[ModelTask] = []
        for task in sorted(self.tasks.values(), key=lambda each: self._place(each, names)):
            busy = {each.step_id for each in self.tasks.values() if self._is_busy(each, task)}
            if len(chosen) == limit or not _fits(task.name, names):
                continue
            if task.is_claimable(now) and task.step_id not in busy:
                task.state, task.owner, task.not_before = TaskState.RUNNING, owner, 0
                task.begins, task.ends = now, now + lease
                task.fence += 1
                task.deliveries += 1
                chosen.append(task)
        return chosen

    def extend(self, claim: Claim, now: int, lease: int) -> bool:
        task = self.tasks[claim.task_id]
        if not task.is_held_by(claim.fence):
            return False
        is_running_out = not task.begins <= now < task.ends
        task.ends = now + lease if is_running_out else max(task.ends, now + lease)
        task.begins = now
        return True

    def release(self, claim: Claim, not_before: int) -> bool:
        task = self.tasks[claim.task_id]
        if not task.is_held_by(claim.fence):
            return False
        task.leave(TaskState.PENDING, not_before)
        task.deliveries -= 1
        return True

    def _place(self, task: ModelTask, names: list[str]) -> tuple[int, int]:
        """Retries first, then exact names, then short ones; in each, the oldest first."""
        is_retry = task.state == TaskState.PENDING and task.not_before > 0
        group = 0 if is_retry else 1 if task.name in names else 2
        return group, list(self.tasks).index(task.uuid)

    @staticmethod
    def _is_busy(other: ModelTask, task: ModelTask) -> bool:
        return other.state == TaskState.RUNNING and other.uuid != task.uuid


def _fits(name: str, names: list[str]) -> bool:
    return name in names or (not is_short(name) and short_name(name) in names)


# What workers do


class Worker:
    """How a worker finishes a task. Each `yield` is a moment at which it may crash."""

    def finish(self, store: PersistenceAPI, claim: Claim, state: str) -> Iterator[None]:
        """Task and step in one decision: there is no moment in between."""
        yield
        store.decide(lambda view: (self.changes(view, claim, state), None))

    def changes(self, view: View, claim: Claim, state: str) -> IterationChanges:
        task = view.get_task(claim.task_id)
        if task is None or not holds(task, claim.fence):
            raise StaleFence(claim.task_id, claim.fence, task.state if task else "gone")
        return self.finished(view, task, state)

    def finished(self, view: View, task: TaskDefinition, state: str) -> IterationChanges:
        step = view.get_step(StepId(task.step_id))
        assert step is not None
        # The number says how often it was done.
        step.position += state == TaskState.COMPLETED
        return IterationChanges(updated_tasks=[_after(task, state, view)], updated_steps=[step])


def _after(task: TaskDefinition, state: str, view: View) -> TaskDefinition:
    """Pending means that the handler failed, and tries again."""
    now = view.now_ms()
    if state == TaskState.PENDING:
        return to_be_retried(task, now, {"message": "failed"}, not_before=now + RETRY_MS)
    return ended(task, state, now)


# The machine


class StoreMachine(RuleBasedStateMachine):
    """Give it a store by `new_store`; it closes it in the end."""

    worker = Worker()

    def new_store(self, clock: FakeClock) -> PersistenceAPI:
        raise NotImplementedError("return an empty store on this clock")

    @initialize(names=st.lists(st.sampled_from(NAMES), min_size=3, max_size=6), data=st.data())
    def begin(self, names: list[str], data: st.DataObject) -> None:
        self.clock = FakeClock()
        self.store = self.new_store(self.clock)
        self.model = Model()
        #: What workers believe to hold: they forget it in a crash only.
        self.believed: dict[str, list[TaskDefinition]] = {each: [] for each in OWNERS}
        self.made = 0
        #: The world outside: which tasks had their effect.
        self.effects: list[str] = []
        # Hypothesis leaves some rules out of each example: without work, the rest would idle.
        for name in names:
            self.submit(name, is_second=False, data=data)
        self._claim(OWNERS[0], ["Pay"], 2, LEASES[0])

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            if sys.exception() is None:
                self.everything_ends()
        finally:
            self.store.close()

    def everything_ends(self) -> None:
        """With time, and a worker for every name, there is nothing that stays open."""
        for task in self.model.tasks.values():
            if task.held and not task.is_over:
                self._hold(task, False)
        self.clock.advance(3600)
        while claimed := self._claim(OWNERS[0], NAMES, 100, LEASES[0]):
            for each in claimed:
                self._finish(OWNERS[0], Claim(each.uuid, each.fence), TaskState.COMPLETED, 9)
        assert all(task.is_over for task in self.model.tasks.values())
        self.nothing_is_done_twice_or_forgotten()

    @property
    def now(self) -> int:
        return self.store.now_ms()

    def new_id(self, kind: str) -> str:
        """The same in every repetition: what was found once is found again."""
        self.made += 1
        return f"{kind}-{self.made}"

    def pick(self, data: st.DataObject, *states: str) -> ModelTask:
        """A task, one in these states if there is one."""
        everyone = list(self.model.tasks.values())
        fitting = [each for each in everyone if each.state in states]
        return data.draw(st.sampled_from(fitting or everyone))

    def pick_claim(self, data: st.DataObject) -> tuple[str, TaskDefinition]:
        """Somebody and a claim that he believes to hold. Half of the time one that was lost to
        another, if there is one: that is where things go wrong."""
        believed = [(owner, each) for owner, all_ in self.believed.items() for each in all_]
        lost = [each for each in believed if self._is_taken_over(each[1])]
        is_lost_wanted: bool = data.draw(st.booleans())
        return data.draw(st.sampled_from(lost if lost and is_lost_wanted else believed))

    def _is_taken_over(self, task: TaskDefinition) -> bool:
        present = self.model.tasks[task.uuid]
        return present.state == TaskState.RUNNING and present.fence != task.fence

    def has_claims(self) -> bool:
        return any(self.believed.values())

    # Work comes

    @rule(name=st.sampled_from(NAMES), is_second=st.booleans(), data=st.data())
    def submit(self, name: str, is_second: bool, data: st.DataObject) -> None:
        """A task of a new step; or a second one of a step, which must wait for the first."""
        changes = IterationChanges()
        if is_second:
            step_id = self.pick(data).step_id
        else:
            step_id = self.new_id("step")
            run, kind = WorkflowId("run"), ObjectType.VARIABLE_ASSIGNMENT
            changes.add_created_step(StepDefinition(StepId(step_id), kind, run))
        task = TaskDefinition(self.new_id("task"), name, "run", "run", "flow", step_id)
        changes.add_created_task(task)
        self.store.commit(changes)
        self.model.tasks[task.uuid] = ModelTask(task.uuid, name, step_id)

    # Workers

    @rule(
        owner=st.sampled_from(OWNERS),
        names=st.sampled_from(SERVED),
        limit=st.sampled_from([2, 3, 1, 0]),
        lease=st.sampled_from(LEASES),
    )
    def claim(self, owner: str, names: list[str], limit: int, lease: int) -> None:
        self._claim(owner, names, limit, lease)

    def _claim(self, owner: str, names: list[str], limit: int, lease: int) -> list[TaskDefinition]:
        got = self.store.claim_tasks(names, limit, owner=owner, lease_ms=lease)
        # "Up to": a store may give fewer than there are, but never none, and never out of order.
        least = max(len(got), min(limit, 1))
        expected = self.model.claim(names, least, owner, self.now, lease)
        assert [each.uuid for each in got] == [each.uuid for each in expected]
        self.believed[owner].extend(got)
        return got

    @rule(owner=st.sampled_from(OWNERS))
    def take_over(self, owner: str) -> None:
        """Nobody renews in time, and somebody else comes."""
        self.clock.advance(max(LEASES) / 1000)
        self._claim(owner, ["Pay"], 3, LEASES[0])

    @precondition(has_claims)
    @rule(lease=st.sampled_from(LEASES), data=st.data())
    def extend(self, lease: int, data: st.DataObject) -> None:
        _, task = self.pick_claim(data)
        claim = Claim(task.uuid, task.fence)
        expected = self.model.extend(claim, self.now, lease)
        assert self.store.extend_leases([claim], lease) == [expected]

    @precondition(has_claims)
    @rule(delay=st.sampled_from([0, 0, RETRY_MS]), data=st.data())
    def release(self, delay: int, data: st.DataObject) -> None:
        _, task = self.pick_claim(data)
        claim = Claim(task.uuid, task.fence)
        not_before = self.now + delay if delay else 0
        expected = self.model.release(claim, not_before)
        assert self.store.release_task(claim, not_before=not_before) is expected

    @precondition(has_claims)
    @rule(
        state=st.sampled_from([TaskState.COMPLETED, TaskState.FAILED, TaskState.PENDING]),
        moments=st.sampled_from([9, 2, 1]),
        data=st.data(),
    )
    def finish(self, state: str, moments: int, data: st.DataObject) -> None:
        """The worker comes so many moments far; after that it has crashed."""
        owner, task = self.pick_claim(data)
        self._finish(owner, Claim(task.uuid, task.fence), state, moments)

    def _finish(self, owner: str, claim: Claim, state: str, moments: int) -> None:
        task = self.model.tasks[claim.task_id]
        is_good = task.is_held_by(claim.fence)
        work = self.worker.finish(self.store, claim, state)
        try:
            for _ in range(moments):
                next(work)
        except StopIteration:
            assert is_good, "a claim that was lost finished its task"
        except StaleFence:
            assert not is_good, "a good claim was refused"
            return
        else:
            self.believed[owner].clear()
            return
        if state == TaskState.PENDING:
            task.leave(state, self.now + RETRY_MS)
            task.deliveries = 0
            return
        task.end(state)
        if state == TaskState.COMPLETED:
            self.effects.append(task.uuid)

    @precondition(has_claims)
    @rule(data=st.data())
    def save(self, data: st.DataObject) -> None:
        """A worker of the old school saves the task that it once got."""
        _, task = self.pick_claim(data)
        model = self.model.tasks[task.uuid]
        late = replace(task, state=TaskState.FAILED, owner="", lease_expires=0, lease_ms=0)
        is_allowed = not model.is_over and model.fence == task.fence
        try:
            self.store.save_task(late)
        except Conflict:
            assert not is_allowed
            return
        assert is_allowed or model.state == TaskState.FAILED
        if is_allowed:
            model.leave(TaskState.FAILED)
            model.held, model.deliveries = late.held, late.deliveries

    @rule(owner=st.sampled_from(OWNERS))
    def crash(self, owner: str) -> None:
        """It forgets; the store must notice by itself."""
        self.believed[owner].clear()

    # Time

    @rule(moment=st.sampled_from(MOMENTS))
    def pass_time(self, moment: int) -> None:
        self.clock.advance(moment / 1000)

    @rule(moment=st.sampled_from(MOMENTS))
    def set_clock_back(self, moment: int) -> None:
        self.clock.set_wall(self.clock.now() - timedelta(milliseconds=moment))

    # Operators

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task = self.pick(data)
        is_allowed = TaskState.CANCELED in TASK_TRANSITIONS[task.state]
        assert self.store.update_task_state(task.uuid, TaskState.CANCELED) is is_allowed
        if is_allowed:
            task.end(TaskState.CANCELED)

    @rule(data=st.data())
    def hold_or_let_go(self, data: st.DataObject) -> None:
        task = self.pick(data, TaskState.PENDING, TaskState.RUNNING)
        if not task.is_over:
            self._hold(task, not task.held)

    def _hold(self, task: ModelTask, is_held: bool) -> None:
        task.held = is_held
        self._rewrite(task.uuid, lambda each, _now: replace(each, held=is_held))

    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        task = self.pick(data, TaskState.FAILED)
        if task.state != TaskState.FAILED:
            return
        task.leave(TaskState.PENDING)
        task.deliveries = 0
        self._rewrite(task.uuid, lambda each, now: revived(each, now, held=task.held))

    def _rewrite(
        self, task_id: str, rewrite: Callable[[TaskDefinition, int], TaskDefinition]
    ) -> None:
        def decision(view: View) -> tuple[IterationChanges, None]:
            task = view.get_task(task_id)
            assert task is not None
            return IterationChanges(updated_tasks=[rewrite(task, view.now_ms())]), None

        self.store.decide(decision)

    # What always holds

    @invariant()
    def the_store_shows_what_the_model_says(self) -> None:
        for task in self.model.tasks.values():
            found = self.store.get_task(task.uuid)
            assert found is not None
            shown = (found.state, found.owner, found.fence, found.deliveries, found.held)
            assert shown == (task.state, task.owner, task.fence, task.deliveries, task.held)
            if task.state == TaskState.RUNNING:
                assert found.lease_expires == task.ends
                assert found.lease_ms == task.ends - task.begins
            if task.state == TaskState.PENDING:
                assert found.not_before == task.not_before

    @invariant()
    def a_step_has_one_running_task(self) -> None:
        running = self.store.get_tasks_by_state(TaskState.RUNNING, limit=1000)
        steps = [each.step_id for each in running]
        assert len(steps) == len(set(steps))

    @invariant()
    def nothing_is_done_twice_or_forgotten(self) -> None:
        assert len(self.effects) == len(set(self.effects))
        done = [each for each in self.model.tasks.values() if each.state == TaskState.COMPLETED]
        assert sorted(self.effects) == sorted(each.uuid for each in done)
        for step_id in {each.step_id for each in self.model.tasks.values()}:
            step = self.store.get_step(StepId(step_id))
            assert step is not None
            assert step.position == sum(each.step_id == step_id for each in done)

    @invariant()
    def no_task_is_stranded(self) -> None:
        """What is open is in the queue, or is leased and returns with the end of its lease."""
        queued = {each.uuid for each in self.store.get_pending_tasks()}
        running = self.store.get_tasks_by_state(TaskState.RUNNING, limit=1000)
        leased = {each.uuid for each in running if each.lease_expires and each.lease_ms}
        for task in self.model.tasks.values():
            assert task.is_over or task.uuid in queued | leased
