"""Mistakes that stores and workers have made elsewhere: the suite must find each one of them.

Each is planted alone into a store that is otherwise right. A test that passes over one of them
says that nothing would protect us from making it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from afl.clock import SYSTEM_CLOCK, FakeClock
from afl.errors import StoreError
from afl.runtime.entities import (
    HandlerRegistration,
    ServerDefinition,
    ServerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.memory_store import MemoryStore
from afl.runtime.memory_store.queue import Wanted
from afl.runtime.memory_store.state import State, StateView
from afl.runtime.persistence import (
    DEFAULT_LEASE_MS,
    Claim,
    Decision,
    IterationChanges,
    PersistenceAPI,
    View,
)
from afl.testing.contracts.store import (
    ClaimContract,
    FleetContract,
    TransactionContract,
    WaitContract,
)
from afl.testing.contracts.store.exam import read_task
from afl.testing.contracts.store.transactions import REFUSALS
from afl.testing.store_machine import StoreMachine, Worker

# Mistakes of workers

pytestmark = pytest.mark.timeout(300)


class NoFenceCheck(Worker):
    """Whoever finishes is believed."""

    def changes(self, view: View, claim: Claim, state: str) -> IterationChanges:
        task = view.get_task(claim.task_id)
        assert task is not None
        return self.finished(view, task, state)


class TwoCommits(Worker):
    """First the step, then the task; and a crash may come in between."""

    def finish(self, store: PersistenceAPI, claim: Claim, state: str) -> Iterator[None]:
        yield
        store.decide(lambda view: (self._part(view, claim, state, "updated_steps"), None))
        yield
        store.decide(lambda view: (self._part(view, claim, state, "updated_tasks"), None))

    def _part(self, view: View, claim: Claim, state: str, part: str) -> IterationChanges:
        return IterationChanges(**{part: getattr(self.changes(view, claim, state), part)})


# Mistakes of stores


def fits(task: TaskDefinition, wanted: Wanted) -> bool:
    queues = {(task.task_list_name, task.name), (task.task_list_name, task.short_name, "short")}
    return not queues.isdisjoint(wanted.exact + wanted.short)


class LapsedLeaseForever(State):
    """What somebody claimed is his, dead or alive."""

    def _choose(self, wanted: Wanted, limit: int, now: int) -> list[TaskDefinition]:
        chosen = super()._choose(wanted, limit, now)
        return [each for each in chosen if each.state == TaskState.PENDING]


class FutureLeaseForever(State):
    """Only the end of a lease counts, however far a clock that was set back moved it away."""

    def _choose(self, wanted: Wanted, limit: int, now: int) -> list[TaskDefinition]:
        chosen = super()._choose(wanted, limit, now)
        return [each for each in chosen if each.lease_expires <= now]


class FenceStays(State):
    """All who ever claimed a task look alike."""

    def _take(self, task: TaskDefinition, owner: str, now: int, lease_ms: int) -> TaskDefinition:
        taken = replace(super()._take(task, owner, now, lease_ms), fence=max(task.fence, 1))
        self.put_task(taken)
        return taken


class LeaseOnTheWorkersClock(State):
    """Each worker says by its own clock how long it has."""

    def _take(self, task: TaskDefinition, owner: str, now: int, lease_ms: int) -> TaskDefinition:
        skew = {"one": -700, "two": 1500}.get(owner, 0)
        return super()._take(task, owner, now + skew, lease_ms)


class HeldTasksClaimable(State):
    """Nobody asks whether the run is paused."""

    def _choose(self, wanted: Wanted, limit: int, now: int) -> list[TaskDefinition]:
        held = [each for each in self.tasks.find("state", TaskState.PENDING) if each.held]
        fitting = [each for each in held if fits(each, wanted)]
        return [*super()._choose(wanted, limit, now), *fitting][:limit]


class TwoTasksOfOneStep(State):
    """The queue looks at tasks only, never at their steps."""

    def _choose(self, wanted: Wanted, limit: int, now: int) -> list[TaskDefinition]:
        chosen = super()._choose(wanted, limit, now)
        known = {each.uuid for each in chosen}
        steps = {each.step_id for each in chosen}
        pending = self.tasks.find("state", TaskState.PENDING)
        more = [each for each in pending if each.step_id in steps and each.uuid not in known]
        return [*chosen, *(each for each in more if fits(each, wanted))][:limit]

    def put_task(self, task: TaskDefinition) -> None:
        self.tasks.put(replace(task, version=task.version + 1))


class LateSaveWins(State):
    """A save is a save."""

    def save_task(self, task: TaskDefinition) -> None:
        self.put_task(task)


class OldestLast(State):
    """The newest work first, for ever."""

    def _choose(self, wanted: Wanted, limit: int, now: int) -> list[TaskDefinition]:
        return super()._choose(wanted, 1000, now)[::-1][:limit]


class HalfCommits(MemoryStore):
    """What was written before the refusal stays."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._state.journal.roll_back = self._state.journal.commit  # type: ignore[method-assign]


class ReleaseCountsTheDelivery(MemoryStore):
    """Work that was never begun uses up its tries."""

    def release_task(self, claim: Claim, *, not_before: int = 0) -> bool:
        is_released = super().release_task(claim, not_before=not_before)
        task = self.get_task(claim.task_id)
        if is_released and task is not None:
            self.save_task(replace(task, deliveries=task.deliveries + 1))
        return is_released


class LostClaimExtended(MemoryStore):
    """Renewal looks at the task, not at who asks."""

    def extend_leases(
        self, claims: Sequence[Claim], lease_ms: int = DEFAULT_LEASE_MS
    ) -> list[bool]:
        tasks = [self.get_task(each.task_id) for each in claims]
        return super().extend_leases([Claim(t.uuid, t.fence) for t in tasks if t], lease_ms)


class LostWakeUp(MemoryStore):
    """Counts the news after it has looked: what came in between is old news to it."""

    def _sleep(self, condition: Any, stop: Any, seen: int, seconds: float) -> None:
        SYSTEM_CLOCK.sleep(0.001)  # as a busy machine does, where the threads change
        super()._sleep(condition, stop, self._news, seconds)


class SilentRelease(MemoryStore):
    """Released work is announced to nobody."""

    def release_task(self, claim: Claim, *, not_before: int = 0) -> bool:
        waiting, self._waiting = self._waiting, []
        try:
            return super().release_task(claim, not_before=not_before)
        finally:
            self._waiting = waiting


class SilentRegistrations(MemoryStore):
    """Registrations are found at the next look."""

    def save_handler_registration(self, registration: HandlerRegistration) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            super().save_handler_registration(registration)
        finally:
            self._waiting = waiting


class SilentAsking(MemoryStore):
    """What is asked of a server is heard with its next beat."""

    def attend_server(self, server_id: str, told: Callable[[], None]) -> Callable[[], None]:
        return super().attend_server(f"not {server_id}", told)


class DeafBeats(MemoryStore):
    """A server knows best what is wanted of it, and what went wrong."""

    def beat_server(self, server: ServerDefinition) -> str:
        self.save_server(replace(server, ping_time=self.now_ms()))
        return server.wanted


class ReportsInTwoSteps(MemoryStore):
    """Looks at a server first, and ends it in a second step."""

    def report_incident(self, server_id: str, incident: Mapping[str, Any]) -> bool:
        server = self.get_server(server_id)
        SYSTEM_CLOCK.sleep(0.01)  # the others look, too
        if server is None or server.state == ServerState.ERROR:
            return False
        self.save_server(replace(server, state=ServerState.ERROR, incidents=[dict(incident)]))
        return True


class StaleDecisions(MemoryStore):
    """Decides on what was, and writes over what is."""

    def decide(self, decision: Decision[Any]) -> Any:
        changes, answer = decision(StateView(self._state, self.now_ms()))
        SYSTEM_CLOCK.sleep(0.0001)  # the others decide, too
        for step in changes.updated_steps:
            stored = self.get_step(step.id)
            step.sequence = stored.sequence if stored else 0
        self.commit(changes)
        return answer


class TwoReaders(MemoryStore):
    """Looks for work first, and takes it in a second step."""

    def claim_tasks(
        self, task_names: Sequence[str], limit: int, **given: Any
    ) -> list[TaskDefinition]:
        found = self.get_pending_tasks()[:limit]
        SYSTEM_CLOCK.sleep(0.0001)  # the others find it, too
        super().claim_tasks(task_names, limit, **given)
        return [read_task(self, each.uuid) for each in found]


class HastyHeirs(MemoryStore):
    """Who is told of something new takes what seems abandoned, too."""

    def claim_tasks(
        self, task_names: Sequence[str], limit: int, *, is_told: bool = False, **given: Any
    ) -> list[TaskDefinition]:
        del is_told
        return super().claim_tasks(task_names, limit, **given)


def store_with(state: type[State]) -> Callable[[FakeClock], MemoryStore]:
    def make(clock: FakeClock) -> MemoryStore:
        store = MemoryStore(clock)
        store._state = state()
        return store

    return make


# Finding them


@pytest.mark.parametrize(
    "mistake",
    [
        LapsedLeaseForever,
        FutureLeaseForever,
        FenceStays,
        LeaseOnTheWorkersClock,
        HeldTasksClaimable,
        TwoTasksOfOneStep,
        LateSaveWins,
        OldestLast,
    ],
)
def test_the_machine_finds_a_mistake_in_what_is_kept(mistake: type[State]) -> None:
    assert_found(store_with(mistake), Worker())


@pytest.mark.parametrize("mistake", [ReleaseCountsTheDelivery, LostClaimExtended])
def test_the_machine_finds_a_mistake_of_a_store(mistake: type[MemoryStore]) -> None:
    assert_found(mistake, Worker())


@pytest.mark.parametrize("mistake", [NoFenceCheck, TwoCommits])
def test_the_machine_finds_a_mistake_of_a_worker(mistake: type[Worker]) -> None:
    assert_found(MemoryStore, mistake())


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: each.__name__.strip("_"))
def test_the_suite_finds_half_commits(refusal: Any) -> None:
    store = HalfCommits(FakeClock())
    with pytest.raises(AssertionError):
        TransactionContract().test_a_commit_that_is_refused_leaves_no_trace(store, refusal)


def test_the_suite_finds_a_lost_wake_up() -> None:
    # Closing ends the thread that would sleep for ever.
    with (
        closing(LostWakeUp(FakeClock())) as store,
        pytest.raises(AssertionError, match="the worker sleeps, and there is work"),
    ):
        Hasty().test_no_wake_up_is_lost(store)


def test_the_suite_finds_that_a_release_is_not_announced() -> None:
    clock = FakeClock()
    with (
        closing(SilentRelease(clock)) as store,
        pytest.raises(AssertionError, match="did not end"),
    ):
        Hasty().test_a_released_task_wakes(store, clock)


def test_the_suite_finds_that_a_registration_is_not_announced() -> None:
    clock = FakeClock()
    with (
        closing(SilentRegistrations(clock)) as store,
        pytest.raises(AssertionError, match="did not end"),
    ):
        HastyFleet().test_a_registration_that_is_saved_wakes(store, clock)


def test_the_suite_finds_that_what_is_asked_of_a_server_is_not_announced() -> None:
    with (
        closing(SilentAsking(FakeClock())) as store,
        pytest.raises(AssertionError, match="did not end"),
    ):
        HastyFleet().test_who_attends_hears_of_what_is_asked(store)


@pytest.mark.parametrize(
    "test",
    [
        FleetContract.test_a_beat_tells_what_is_wanted_and_leaves_it,
        FleetContract.test_incidents_outlive_the_beats_of_who_was_alive_after_all,
    ],
)
def test_the_suite_finds_beats_that_overwrite_what_others_said(test: Any) -> None:
    with pytest.raises(AssertionError):
        test(FleetContract(), DeafBeats(FakeClock()))


def test_the_suite_finds_incidents_that_are_reported_twice() -> None:
    with pytest.raises(AssertionError):
        FleetContract().test_of_many_who_report_one_is_believed(ReportsInTwoSteps(FakeClock()))


def test_the_suite_finds_decisions_on_what_was() -> None:
    with pytest.raises(AssertionError):
        TransactionContract().test_of_many_decisions_at_once_none_is_lost(
            StaleDecisions(FakeClock())
        )


def test_the_suite_finds_claims_in_two_steps() -> None:
    with pytest.raises(AssertionError):
        ClaimContract().test_many_workers_get_each_task_once(TwoReaders(FakeClock()))


def test_the_suite_finds_who_claims_at_news_what_seems_abandoned() -> None:
    contract, clock = ClaimContract(), FakeClock()
    with pytest.raises(AssertionError):
        contract.test_who_is_told_of_something_new_gets_it_and_nothing_that_was_abandoned(
            HastyHeirs(clock), clock
        )


class Hasty(WaitContract):
    """Gives up soon on what will never happen."""

    patience_s = 0.5


class HastyFleet(FleetContract):
    """Likewise."""

    patience_s = 0.5


def assert_found(make: Callable[[FakeClock], MemoryStore], its_worker: Worker) -> None:
    class Machine(StoreMachine):
        worker = its_worker

        def new_store(self, clock: FakeClock) -> PersistenceAPI:
            return make(clock)

    search = settings(
        max_examples=2000,  # far more than it takes: which ones are tried is not ours to say
        stateful_step_count=50,
        derandomize=True,
        database=None,
        deadline=None,
        # That there is a way is enough: the shortest one takes long to find.
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, StoreError)):
        run_state_machine_as_test(Machine, settings=search)
