"""Tasks are lent, done and ended as the consumer asks; what comes too late is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from afl import compile_source
from afl.clock import SYSTEM_CLOCK, FakeClock
from afl.errors import StoreUnavailable
from afl.runtime.claims import RetryPolicy
from afl.runtime.dispatch import HandlerContext, run_alone
from afl.runtime.entities import OnLost, RunnerState, TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import Evaluator
from afl.runtime.loading import Handler
from afl.runtime.memory_store import MemoryStore
from afl.runtime.script_executor import ScriptExecutor
from afl.runtime.task_source import GivenUp, NotNow, Served, TaskSource, TaskWork
from afl.runtime.types import WorkflowId
from afl.work.attempts import Attempt
from afl.work.errors import TimedOut
from afl.work.source import NO_ROOM, ClaimLost, InThread, OnLoop, Room

PROGRAM = compile_source("""
namespace t

event facet Work(n: Long) => (n: Long)

workflow One(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    yield One(n = a.n)
}

workflow Chain(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Work(n = a.n + 1)
    yield Chain(n = b.n)
}

workflow Many(ns: [Long]) => (ns: [Long]) andThen foreach n in $.ns {
    a = Work(n = n)
    yield Many(ns = a.n)
}

workflow Hasty(n: Long) => (n: Long) andThen {
    a = Work(n = $.n) with afl.Timeout(after = "20s")
    yield Hasty(n = a.n)
}

facet Twice(n: Long) => (n: Long) script { result["n"] = params["n"] * 2 }

workflow Scripted(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Twice(n = a.n)
    yield Scripted(n = b.n)
}

workflow Twofold(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Twice(n = a.n)
    c = Twice(n = b.n)
    yield Twofold(n = c.n)
}

workflow Caught(n: Long) => (n: Long) andThen {
    a = Work(n = $.n) catch {
        b = Twice(n = 4)
        yield Work(n = b.n)
    }
    yield Caught(n = a.n)
}
""")


def echo(payload: dict[str, Any]) -> dict[str, Any]:
    return {"n": payload["n"]}


class Bench:
    """A source on a store, with one handler."""

    def __init__(self, clock: FakeClock, scripts: ScriptExecutor | None = None) -> None:
        self.clock = clock
        self.store = MemoryStore(clock)
        self.evaluator = Evaluator(self.store, scripts=scripts)
        self.names: tuple[str, ...] = ("t.Work",)
        self.handler: Handler | None = Handler("t.Work", echo, "here")
        self.source = self.source_of("me")

    def source_of(self, owner: str, **options: Any) -> TaskSource:
        return TaskSource(
            self.store,
            self.evaluator,
            lambda: self.names,
            lambda task: self.handler,
            owner=owner,
            lease_ms=9000,
            run=run_alone,
            clock=self.clock,
            **options,
        )

    def submit(self, workflow: str, **inputs: Any) -> WorkflowId:
        return self.evaluator.submit(PROGRAM, workflow, inputs)

    def serve(self, call: Callable[..., Any], **changes: Any) -> None:
        self.handler = Handler("t.Work", call, "here", **changes)

    def claim(self) -> TaskWork:
        [work] = self.source.claim(1)
        return work

    def do(self, work: TaskWork) -> Any:
        """What its job gives, on this thread."""
        job = self.source.job(work)
        assert isinstance(job.how, InThread)
        return job.how.call(Attempt(work, self.clock))

    def stored(self, work: TaskWork) -> TaskDefinition:
        task = self.store.get_task(work.id)
        assert task is not None
        return task


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench(FakeClock())
    yield bench
    bench.store.close()


# Claims


def test_tasks_are_claimed_for_the_owner_under_a_lease(bench: Bench) -> None:
    bench.submit("Many", ns=[1, 2, 3])
    works = bench.source.claim(2)
    assert [each.task.data for each in works] == [{"n": 1}, {"n": 2}]
    assert {each.task.owner for each in works} == {"me"}
    assert {each.label for each in works} == {"t.Work"}
    assert works[0].task.lease_expires == bench.store.now_ms() + 9000
    assert bench.source.lease_s == 9


def test_who_serves_nothing_claims_nothing_and_waits(bench: Bench) -> None:
    bench.submit("One", n=1)
    bench.names = ()
    assert bench.source.claim(5) == []
    stop = threading.Event()
    stop.set()
    assert bench.source.wait(None, stop) is False
    bench.names = ("t.Work",)
    assert bench.source.wait(0, threading.Event()) is True


def test_leases_are_extended_until_the_claim_is_lost(bench: Bench) -> None:
    bench.submit("One", n=1)
    work = bench.claim()
    bench.clock.advance(5)
    assert bench.source.extend([work]) == [True]
    assert bench.stored(work).lease_expires == bench.store.now_ms() + 9000
    bench.clock.advance(10)
    bench.source_of("other").claim(1)
    assert bench.source.extend([work]) == [False]


def test_released_tasks_are_back_in_their_place_and_uncounted(bench: Bench) -> None:
    bench.submit("Many", ns=[1, 2, 3])
    works = bench.source.claim(3)
    bench.source.release(works[:2])
    again = bench.source.claim(3)
    assert [each.task.data for each in again] == [{"n": 1}, {"n": 2}]
    assert {each.task.deliveries for each in again} == {1}


def test_releasing_lost_claims_changes_nothing(bench: Bench) -> None:
    bench.submit("One", n=1)
    work = bench.claim()
    bench.clock.advance(10)
    [theirs] = bench.source_of("other").claim(1)
    bench.source.release([work])
    assert bench.stored(work).owner == "other"
    assert bench.stored(work).fence == theirs.task.fence


# How a task is done


def test_a_handler_gets_payload_names_and_metadata(bench: Bench) -> None:
    seen: list[Any] = []
    bench.serve(seen.append, metadata={"region": "north"})
    bench.submit("One", n=4)
    bench.do(bench.claim())
    assert seen == [{"n": 4, "_facet_name": "t.Work", "_handler_metadata": {"region": "north"}}]


def test_a_coroutine_function_runs_on_the_loop(bench: Bench) -> None:
    async def work(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        return {"n": payload["n"] + context.attempt}

    bench.serve(work)
    bench.submit("One", n=4)
    claimed = bench.claim()
    how = bench.source.job(claimed).how
    assert isinstance(how, OnLoop)
    assert run_alone(how.call(Attempt(claimed, bench.clock))) == {"n": 5}


def test_a_function_that_returns_an_awaitable_is_awaited(bench: Bench) -> None:
    async def later(n: int) -> dict[str, Any]:
        return {"n": n}

    bench.serve(lambda payload: later(payload["n"]))
    bench.submit("One", n=4)
    assert bench.do(bench.claim()) == {"n": 4}


def test_without_a_runner_the_shared_loop_awaits() -> None:
    bench = Bench(FakeClock())
    threads: list[str] = []

    async def later() -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        return {"n": 1}

    bench.serve(lambda payload: later())
    source = TaskSource(
        bench.store, bench.evaluator, lambda: bench.names, lambda task: bench.handler
    )
    bench.submit("One", n=4)
    [work] = source.claim(1)
    how = source.job(work).how
    assert isinstance(how, InThread)
    assert how.call(Attempt(work, SYSTEM_CLOCK)) == {"n": 1}
    assert threads == ["loop-worker-async"]


@pytest.mark.parametrize(
    ("workflow", "registered_ms", "expected"),
    [("One", 0, None), ("One", 1500, 1.5), ("Hasty", 1500, 20.0)],
)
def test_the_task_says_how_long_it_may_take_and_else_the_handler(
    bench: Bench, workflow: str, registered_ms: int, expected: float | None
) -> None:
    bench.serve(echo, timeout_ms=registered_ms)
    bench.submit(workflow, n=1)
    assert bench.source.job(bench.claim()).timeout_s == expected


def test_a_handler_says_things_meanwhile(bench: Bench) -> None:
    def work(payload: dict[str, Any], context: HandlerContext) -> None:
        context.heartbeat()
        context.update({"n": 41})
        context.log("half done", "warning")
        context.log("what level?", "shrill")

    bench.serve(work)
    run = bench.submit("One", n=1)
    claimed = bench.claim()
    attempt = Attempt(claimed, bench.clock)
    how = bench.source.job(claimed).how
    assert isinstance(how, InThread)
    how.call(attempt)
    assert attempt.signs == 1
    step = bench.store.get_step(claimed.task.step_id)  # type: ignore[arg-type]
    assert step is not None
    assert step.get_attribute("n") == 41
    notes = bench.store.get_logs_by_runner(run)
    said = [(each.message, each.note_type) for each in notes if each.object_id == claimed.id]
    assert said == [("half done", "warning"), ("what level?", "info")]


def test_who_lost_its_claim_cannot_update_any_more(bench: Bench) -> None:
    contexts: list[HandlerContext] = []
    bench.serve(lambda payload, context: contexts.append(context))
    bench.submit("One", n=1)
    work = bench.claim()
    bench.do(work)
    bench.clock.advance(10)
    bench.source_of("other").claim(1)
    with pytest.raises(Exception, match="is no longer good"):
        contexts[0].update({"n": 1})


def test_a_line_that_cannot_be_written_disturbs_no_handler(bench: Bench) -> None:
    contexts: list[HandlerContext] = []
    bench.serve(lambda payload, context: contexts.append(context))
    bench.submit("One", n=1)
    bench.do(bench.claim())
    bench.store.close()
    contexts[0].log("too late")


# Ends


def test_a_result_is_recorded_with_all_that_follows(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    work = bench.claim()
    recording = bench.source.complete(work, {"n": 3}, NO_ROOM)
    assert recording.result() == []
    assert bench.evaluator.result(run).outputs == {"n": 3}


def test_what_a_result_makes_possible_is_claimed_along(bench: Bench) -> None:
    bench.submit("Chain", n=1)
    [following] = bench.source.complete(bench.claim(), {"n": 3}, Room(1, is_last=False)).result()
    assert following.task.data == {"n": 4}
    assert following.task.owner == "me"
    assert following.task.lease_expires == bench.store.now_ms() + 9000


def test_a_worker_without_another_place_takes_what_waits_in_its_list(bench: Bench) -> None:
    bench.submit("Chain", n=1)
    bench.submit("Chain", n=7)
    full = Room(2, is_last=True)
    following, other = bench.source.complete(bench.claim(), {"n": 3}, full).result()
    assert [following.task.data, other.task.data] == [{"n": 4}, {"n": 7}]
    assert (other.task.owner, other.task.lease_expires) == ("me", bench.store.now_ms() + 9000)


def test_nothing_is_claimed_along_without_room_or_names(bench: Bench) -> None:
    bench.submit("Many", ns=[1, 2])
    bench.submit("Chain", n=1)
    one, two, chain = bench.source.claim(3)
    assert bench.source.complete(one, {"n": 1}, NO_ROOM).result() == []
    assert bench.source.complete(two, {"n": 1}, Room(5, is_last=False)).result() == []
    bench.names = ()
    assert bench.source.complete(chain, {"n": 1}, Room(5, is_last=False)).result() == []


def test_names_that_change_are_asked_for_anew(bench: Bench) -> None:
    bench.submit("Chain", n=1)
    bench.submit("Chain", n=2)
    one, two = bench.source.claim(2)
    bench.names = ("t.Other",)
    assert bench.source.complete(one, {"n": 1}, Room(1, is_last=False)).result() == []
    bench.names = ("t.Work",)
    assert len(bench.source.complete(two, {"n": 1}, Room(1, is_last=False)).result()) == 1


def test_an_end_that_comes_too_late_is_refused(bench: Bench) -> None:
    bench.submit("One", n=1)
    work = bench.claim()
    bench.clock.advance(10)
    bench.source_of("other").claim(1)
    for late in (
        bench.source.complete(work, {"n": 1}, NO_ROOM),
        bench.source.fail(work, ValueError("late")),
        bench.source.fail(work, GivenUp("late")),
    ):
        assert late.done()
        with pytest.raises(ClaimLost):
            late.result()
    assert bench.stored(work).owner == "other"


def test_the_end_of_a_task_whose_run_is_gone_is_refused(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    work = bench.claim()
    bench.evaluator.cancel(run)
    bench.clock.advance(60)
    assert bench.store.prune_runs(1000).runs == 1
    with pytest.raises(ClaimLost):
        bench.source.complete(work, {"n": 1}, NO_ROOM).result()


def test_a_failure_ends_the_step_with_its_message(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    bench.source.fail(bench.claim(), ValueError("no stock")).result()
    result = bench.evaluator.result(run)
    assert str(result.error) == "no stock"


def test_a_registration_may_ask_for_retries(bench: Bench) -> None:
    bench.serve(echo, retry=RetryPolicy(2, 1000))
    bench.submit("One", n=1)
    work = bench.claim()
    bench.source.job(work)
    bench.source.fail(work, ValueError("no stock")).result()
    assert bench.stored(work).state == TaskState.PENDING
    bench.clock.advance(1)
    again = bench.claim()
    bench.source.job(again)
    bench.source.fail(again, ValueError("no stock")).result()
    assert bench.stored(work).state == TaskState.FAILED


def test_a_timeout_names_the_handler(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    bench.source.fail(bench.claim(), TimedOut("t.Work took longer than 2s")).result()
    error = bench.evaluator.result(run).error
    assert str(error) == "the handler of t.Work took longer than 2s"


# Those that are not done


def lose_worker(bench: Bench, times: int = 1) -> None:
    """A worker claims the task and dies."""
    for _ in range(times):
        assert bench.source_of("dead").claim(1)
        bench.clock.advance(10)


def test_a_task_that_is_delivered_again_and_again_becomes_a_dead_letter(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    lose_worker(bench, 4)
    assert isinstance(bench.source.job(bench.claim()).how, InThread)
    bench.clock.advance(10)
    work = bench.claim()
    with pytest.raises(GivenUp, match=r"t\.Work was handed out 6 times without an end") as caught:
        bench.source.job(work)
    bench.source.fail(work, caught.value).result()
    assert bench.stored(work).state == TaskState.DEAD_LETTER
    status = bench.store.get_run(run)
    assert status is not None
    assert status.state == RunnerState.FAILED


def test_a_handler_may_leave_it_to_a_person_what_a_lost_worker_did(bench: Bench) -> None:
    bench.serve(echo, on_lost=OnLost.UNKNOWN)
    bench.submit("One", n=1)
    lose_worker(bench)
    work = bench.claim()
    with pytest.raises(GivenUp, match="nobody knows how far it came") as caught:
        bench.source.job(work)
    bench.source.fail(work, caught.value).result()
    assert bench.stored(work).state == TaskState.DEAD_LETTER


def test_work_that_was_given_back_is_no_lost_work(bench: Bench) -> None:
    bench.serve(echo, on_lost=OnLost.UNKNOWN)
    bench.submit("One", n=1)
    bench.source.release([bench.claim()])
    assert bench.do(bench.claim()) == {"n": 1}


def test_what_must_not_be_done_twice_begins_with_a_durable_claim(bench: Bench) -> None:
    bench.serve(echo, on_lost=OnLost.UNKNOWN)
    bench.submit("One", n=1)
    work = bench.claim()
    bench.clock.advance(5)
    bench.source.job(work)
    assert bench.stored(work).lease_expires == bench.store.now_ms() + 9000


def test_what_must_not_be_done_twice_does_not_begin_if_its_claim_is_lost(bench: Bench) -> None:
    bench.serve(echo, on_lost=OnLost.UNKNOWN)
    run = bench.submit("One", n=1)
    work = bench.claim()
    bench.evaluator.cancel(run)
    with pytest.raises(NotNow, match="somebody else has it, or it is over") as caught:
        bench.source.job(work)
    bench.source.fail(work, caught.value).result()
    assert bench.stored(work).state == TaskState.CANCELED


def test_an_outage_at_the_last_moment_gives_back_what_must_not_be_done_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.serve(echo, on_lost=OnLost.UNKNOWN)
    bench.submit("One", n=1)
    work = bench.claim()

    def away(*_: object) -> list[bool]:
        raise StoreUnavailable("gone for a moment")

    monkeypatch.setattr(bench.store, "extend_leases", away)
    with pytest.raises(NotNow, match="cannot be made durable now: gone for a moment") as caught:
        bench.source.job(work)
    bench.source.fail(work, caught.value).result()
    assert (bench.stored(work).state, bench.stored(work).deliveries) == (TaskState.PENDING, 0)


def test_a_task_that_nobody_here_serves_any_more_is_given_back(bench: Bench) -> None:
    bench.submit("One", n=1)
    work = bench.claim()
    bench.handler = None
    with pytest.raises(NotNow, match=r"nobody here serves t\.Work") as caught:
        bench.source.job(work)
    bench.source.fail(work, caught.value).result()
    assert (bench.stored(work).state, bench.stored(work).deliveries) == (TaskState.PENDING, 0)


class Refusing:
    """Agrees to nothing until a time."""

    def __init__(self, until: int) -> None:
        self.until = until
        self.left: list[str] = []

    def enter(self, work: TaskWork) -> None:
        raise NotNow("locked", not_before=self.until)

    def leave(self, work: TaskWork) -> None:
        self.left.append(work.id)


def test_a_guard_must_agree_and_hears_of_what_is_given_back(bench: Bench) -> None:
    guard = Refusing(bench.store.now_ms() + 3000)
    source = bench.source_of("me", guard=guard)
    bench.submit("One", n=1)
    [work] = source.claim(1)
    with pytest.raises(NotNow) as caught:
        source.job(work)
    source.fail(work, caught.value).result()
    assert source.claim(1) == []
    bench.clock.advance(3)
    [again] = source.claim(1)
    source.release([again])
    assert guard.left == [again.id]


class Unreachable(Refusing):
    """A lock behind a store that is out of reach."""

    def enter(self, work: TaskWork) -> None:
        raise StoreUnavailable("out of reach")


def test_a_guard_that_cannot_be_asked_fails_no_task(bench: Bench) -> None:
    source = bench.source_of("me", guard=Unreachable(0))
    bench.submit("One", n=1)
    [work] = source.claim(1)
    with pytest.raises(NotNow, match="cannot be locked now: out of reach"):
        source.job(work)


class Outage(MemoryStore):
    is_out = False

    def release_task(self, *args: Any, **options: Any) -> bool:
        if self.is_out:
            raise StoreUnavailable("out of reach")
        return super().release_task(*args, **options)


def test_an_outage_while_giving_back_can_be_tried_again(bench: Bench) -> None:
    store = Outage(bench.clock)
    source = TaskSource(store, Evaluator(store), lambda: bench.names, lambda task: None)
    Evaluator(store).submit(PROGRAM, "One", {"n": 1})
    [work] = source.claim(1)
    store.is_out = True
    with pytest.raises(StoreUnavailable):
        source.fail(work, NotNow("locked")).result()
    store.is_out = False
    assert source.fail(work, NotNow("locked")).result() == []


class Asked(MemoryStore):
    """Notes which claims were without a look, and which were to be durable."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.were_told: list[bool] = []
        self.were_durable: list[bool] = []

    def claim_tasks(self, *args: Any, **options: Any) -> list[TaskDefinition]:
        self.were_told.append(options["is_told"])
        self.were_durable.append(options["is_durable"])
        return super().claim_tasks(*args, **options)


@pytest.fixture
def asked(bench: Bench) -> Asked:
    bench.store = Asked(bench.clock)
    bench.evaluator = Evaluator(bench.store)
    bench.source = bench.source_of("me")
    bench.submit("Many", ns=list(range(9)))
    return bench.store


def test_who_got_all_that_it_asked_for_looks_only_now_and_then(bench: Bench, asked: Asked) -> None:
    for _ in range(2):
        bench.claim()
    bench.clock.advance(0.2)
    for _ in range(2):
        bench.claim()
    assert asked.were_told == [False, True, False, True]


def test_who_has_met_what_must_not_be_done_twice_claims_durably(
    bench: Bench, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together, and not one by one before they begin."""
    bench.serve(echo, on_lost=OnLost.UNKNOWN)
    extended: list[int] = []
    extend = asked.extend_leases

    def noting(claims: Any, lease_ms: int) -> list[bool]:
        extended.append(len(claims))
        return extend(claims, lease_ms)

    monkeypatch.setattr(asked, "extend_leases", noting)
    first, *more = [bench.claim(), *bench.source.claim(3)]
    for each in (first, *more):
        bench.source.job(each)
    assert extended == [1] * 4, "nobody knew before"
    for each in bench.source.claim(3):
        bench.source.job(each)
    assert (asked.were_durable, extended) == ([False, False, True], [1] * 4)


def test_what_is_claimed_with_a_result_is_durable(bench: Bench) -> None:
    bench.serve(echo, on_lost=OnLost.UNKNOWN)
    bench.submit("Chain", n=1)
    [work] = bench.source.complete(bench.claim(), {"n": 1}, Room(1, is_last=False)).result()
    bench.clock.advance(5)
    bench.source.job(work)
    assert bench.stored(work).lease_expires == bench.store.now_ms() + 4000, "it was not extended"


def test_who_gets_nothing_without_a_look_looks(bench: Bench, asked: Asked) -> None:
    for limit in (1, 1, 7):
        assert len(bench.source.claim(limit)) == limit
    assert asked.were_told == [False, True, False]
    assert bench.source.claim(1) == []
    assert bench.source.claim(1) == []
    assert asked.were_told[3:] == [True, False, False]


def test_a_claim_of_many_always_looks(bench: Bench, asked: Asked) -> None:
    for _ in range(3):
        assert len(bench.source.claim(2)) == 2
    assert asked.were_told == [False, False, False]


# Tasks of the runtime itself


def test_a_script_that_was_left_behind_is_run_and_records_its_end() -> None:
    bench = Bench(FakeClock(), ScriptExecutor())
    run = bench.submit("Scripted", n=4)
    bench.evaluator.pause(run)
    # A script that is asked for while the run is paused waits for somebody to claim it.
    bench.evaluator.continue_step(bench.store.get_tasks_by_runner(run)[0].step_id, {"n": 4})  # type: ignore[arg-type]
    bench.evaluator.unpause(run)
    bench.names = ("afl:script",)
    work = bench.claim()
    result = bench.do(work)
    assert bench.source.complete(work, result, Room(1, is_last=False)).result() == []
    assert bench.evaluator.result(run).outputs == {"n": 8}


@pytest.fixture
def scripted() -> Iterator[Bench]:
    """A worker that does scripts, too."""
    bench = Bench(FakeClock(), ScriptExecutor())
    bench.names = ("t.Work", "afl:script")
    yield bench
    bench.store.close()


def only_waiting(bench: Bench) -> str:
    """The name of the one task that waits for a worker."""
    (task,) = bench.store.get_tasks_by_state(TaskState.PENDING)
    assert bench.store.get_tasks_by_state(TaskState.RUNNING) == []
    return task.name


@pytest.mark.parametrize("error", [ValueError("no"), GivenUp("no")])
def test_a_script_that_a_failure_leads_to_is_left_to_workers(
    scripted: Bench, error: Exception
) -> None:
    """Who records ends does it for all tasks of a worker, and must not run anything."""
    run = scripted.submit("Caught", n=1)
    scripted.source.fail(scripted.claim(), error).result()
    assert only_waiting(scripted) == "afl:script"
    work = scripted.claim()
    scripted.source.complete(work, scripted.do(work), NO_ROOM).result()
    assert scripted.evaluator.result(run).outputs == {"n": 8}


def test_who_has_no_room_leaves_a_script_to_others(scripted: Bench) -> None:
    """As in a drain: it would be held, and nobody could have it for the time of its lease."""
    scripted.submit("Scripted", n=1)
    assert scripted.source.complete(scripted.claim(), {"n": 1}, NO_ROOM).result() == []
    assert only_waiting(scripted) == "afl:script"


def test_a_script_behind_a_script_is_work_of_its_own(scripted: Bench) -> None:
    run = scripted.submit("Twofold", n=1)
    room = Room(1, is_last=False)
    [first] = scripted.source.complete(scripted.claim(), {"n": 1}, room).result()
    [second] = scripted.source.complete(first, scripted.do(first), room).result()
    assert (second.label, second.task.owner) == ("afl:script", "me")
    assert scripted.source.complete(second, scripted.do(second), room).result() == []
    assert scripted.evaluator.result(run).outputs == {"n": 4}


def test_a_script_that_fails_fails_its_step(scripted: Bench) -> None:
    run = scripted.submit("Scripted", n=1)
    [script] = scripted.source.complete(
        scripted.claim(), {"n": None}, Room(1, is_last=False)
    ).result()
    with pytest.raises(StepFailure) as failed:
        scripted.do(script)
    scripted.source.fail(script, failed.value).result()
    assert scripted.stored(script).state == TaskState.FAILED
    result = scripted.evaluator.result(run)
    assert "unsupported operand" in str(result.error)


def test_a_script_for_which_no_process_can_be_started_is_tried_again_later(
    scripted: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.submit("Scripted", n=1)
    [script] = scripted.source.complete(scripted.claim(), {"n": 1}, Room(1, is_last=False)).result()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("subprocess.Popen", full)
        with pytest.raises(NotNow, match="no space left") as caught:
            scripted.do(script)
    scripted.source.fail(script, caught.value).result()
    assert scripted.stored(script).deliveries == 0
    assert scripted.source.claim(1) == []
    scripted.clock.advance(1)
    assert scripted.do(scripted.claim()).result == {"n": 2}


def plain_task(bench: Bench) -> TaskWork:
    """A task that belongs to no run."""
    bench.store.save_task(TaskDefinition("p1", "t.Work", "", "", "", "", data={"n": 1}))
    return bench.claim()


def test_a_task_without_a_run_is_completed_by_itself(bench: Bench) -> None:
    work = plain_task(bench)
    bench.source.complete(work, {"n": 1}, Room(3, is_last=False)).result()
    assert bench.stored(work).state == TaskState.COMPLETED


@pytest.mark.parametrize(
    ("error", "state"),
    [(ValueError("no"), TaskState.FAILED), (GivenUp("no"), TaskState.DEAD_LETTER)],
)
def test_a_task_without_a_run_fails_by_itself(
    bench: Bench, error: Exception, state: TaskState
) -> None:
    work = plain_task(bench)
    bench.source.fail(work, error).result()
    assert bench.stored(work).state == state
    assert (bench.stored(work).error or {})["message"] == "no"


def test_a_late_end_of_a_task_without_a_run_is_refused(bench: Bench) -> None:
    work = plain_task(bench)
    late = replace(work, task=replace(work.task, fence=work.task.fence - 1))
    with pytest.raises(ClaimLost):
        bench.source.complete(late, {}, NO_ROOM).result()
    assert bench.stored(work).state == TaskState.RUNNING


# Who serves what


def test_served_finds_handlers_as_all_names_are_found() -> None:
    handlers = {name: Handler(name, echo, "here") for name in ("a.Pay", "Send", "b.Pack", "c.Pack")}
    served = Served(handlers, more=["afl:script"])
    assert served.names == ("Send", "a.Pay", "afl:script", "b.Pack", "c.Pack")
    for _ in range(2):
        assert served.handler_for("a.Pay") is handlers["a.Pay"]
        assert served.handler_for("x.Send") is handlers["Send"]
        assert served.handler_for("x.Pay") is None
        assert served.handler_for("Pack") is None
