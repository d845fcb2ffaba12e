"""A run is done here until it is over, and nothing is lost when it is stopped before."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from afl import compile_source
from afl.clock import FakeClock
from afl.errors import StoreClosed, StoreUnavailable
from afl.operations import runs
from afl.operations.local_run import LocalRun, Options, Progress, own_task_list
from afl.runtime.dispatch import HandlerContext
from afl.runtime.entities import TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.loading import Handler, HandlerTable
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import Claim
from afl.runtime.types import WorkflowId

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
    c = Work(n = b.n + 1)
    yield Chain(n = c.n)
}

workflow Many(ns: [Long]) => (ns: [Long]) andThen foreach n in $.ns {
    a = Work(n = n)
    yield Many(ns = a.n)
}

workflow Patient(n: Long) => (n: Long) andThen {
    a = Work(n = $.n) with afl.Retry(max = 3, backoff = "1ms")
    yield Patient(n = a.n)
}

workflow Hasty(n: Long) => (n: Long) andThen {
    a = Work(n = $.n) with afl.Timeout(after = "20ms")
    yield Hasty(n = a.n)
}
""")

#: Longer than anything here takes, on a busy machine too.
PATIENCE_S = 20.0
#: Of a run that wait for the clock: who claims, who looks for its end, who renews leases, who
#: records ends, and who looks after timeouts.
THREADS = 5

Call = Callable[..., Any]


@dataclass
class Bench:
    """A store, an engine, and what was told."""

    store: MemoryStore = field(default_factory=MemoryStore)
    told: list[Progress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.evaluator = Evaluator(self.store)

    def submit(self, workflow: str, **inputs: Any) -> WorkflowId:
        return runs.submit(self.evaluator, PROGRAM, workflow, inputs, task_list=own_task_list())

    def local(self, run_id: WorkflowId, work: Call, **options: Any) -> LocalRun:
        handlers = HandlerTable({"t.Work": Handler("t.Work", work, "here")})
        task_list = runs.status(self.store, run_id).task_list
        chosen = Options(on_progress=self.told.append, **options)
        return LocalRun(self.store, self.evaluator, handlers, run_id, task_list, chosen)

    def outputs(self, run_id: WorkflowId) -> dict[str, Any]:
        return runs.result(self.store, self.evaluator, run_id, timeout=0)

    def task(self, run_id: WorkflowId) -> Any:
        [task] = self.store.get_tasks_by_runner(run_id)
        return task


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Gate:
    """A handler that says when it begins and waits until it may end."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.contexts: list[HandlerContext] = []
        self.ended = threading.Semaphore(0)

    def __call__(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.contexts.append(context)
        self.begun.release()
        assert self.may_end.wait(PATIENCE_S)
        self.ended.release()
        return {"n": payload["n"]}

    def wait_begun(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_S)


class Worker:
    """`LocalRun.work` on a thread of its own."""

    def __init__(self, local: LocalRun) -> None:
        self.local = local
        self.answer: bool | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        self.answer = self.local.work()

    def wait(self) -> bool | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.answer


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.may_end.set()


def echo(payload: dict[str, Any]) -> dict[str, Any]:
    return {"n": payload["n"]}


def test_a_run_is_done_to_its_end(bench: Bench) -> None:
    run = bench.submit("Chain", n=1)
    assert bench.local(run, echo).work()
    assert bench.outputs(run) == {"n": 3}
    assert [each.step for each in bench.told if not each.is_over] == ["a", "b", "c"]
    assert sorted(each.step for each in bench.told if each.is_over) == ["a", "b", "c"]


def test_a_run_that_is_over_needs_no_work(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    assert bench.local(run, echo).work()
    assert bench.local(run, echo).work()
    assert len(bench.told) == 2


def test_handlers_work_at_the_same_time_up_to_the_limit(bench: Bench) -> None:
    together = threading.Barrier(3, timeout=PATIENCE_S)
    at_work: set[int] = set()
    most = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        at_work.add(payload["n"])
        together.wait()
        most.append(len(at_work))
        together.wait()
        at_work.discard(payload["n"])
        return {"n": payload["n"] * 2}

    run = bench.submit("Many", ns=[1, 2, 3, 4, 5, 6])
    assert bench.local(run, work, concurrency=3).work()
    assert bench.outputs(run) == {"ns": [2, 4, 6, 8, 10, 12]}
    assert max(most) == 3


def test_a_handler_that_raises_fails_the_run_with_its_message(bench: Bench) -> None:
    def work(payload: dict[str, Any]) -> None:
        raise ValueError("card declined")

    run = bench.submit("One", n=1)
    assert bench.local(run, work).work()
    with pytest.raises(runs.RunFailed, match="card declined") as caught:
        bench.outputs(run)
    assert caught.value.error["type"] == "ValueError"
    assert bench.told[-1].error == "card declined"


def test_a_handler_that_exits_only_fails_its_task(bench: Bench) -> None:
    def work(payload: dict[str, Any]) -> None:
        raise SystemExit(3)

    run = bench.submit("One", n=1)
    assert bench.local(run, work).work()
    with pytest.raises(runs.RunFailed):
        bench.outputs(run)


def test_a_result_that_is_no_json_fails_the_run(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    assert bench.local(run, lambda payload: {"n": {1}}).work()
    with pytest.raises(runs.RunFailed, match="n is a set"):
        bench.outputs(run)


def test_declared_retries_are_made_with_the_same_key(bench: Bench) -> None:
    seen: list[tuple[int, str]] = []

    def work(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        seen.append((context.attempt, context.idempotency_key))
        if len(seen) < 3:
            raise ValueError("not yet")
        return {"n": 7}

    run = bench.submit("Patient", n=1)
    assert bench.local(run, work).work()
    assert bench.outputs(run) == {"n": 7}
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert len({key for _, key in seen}) == 1


def test_a_handler_that_takes_too_long_is_given_up(bench: Bench, gate: Gate) -> None:
    run = bench.submit("Hasty", n=1)
    assert bench.local(run, gate).work()
    with pytest.raises(runs.RunFailed, match=r"the handler of t\.Work took longer than 20ms"):
        bench.outputs(run)
    [context] = gate.contexts
    assert context.cancelled
    assert context.deadline is not None
    gate.may_end.set()
    assert gate.ended.acquire(timeout=PATIENCE_S)
    assert bench.task(run).state == TaskState.FAILED


def test_a_stop_lets_running_handlers_end_and_takes_no_more(bench: Bench, gate: Gate) -> None:
    run = bench.submit("Chain", n=1)
    worker = Worker(bench.local(run, gate))
    gate.wait_begun()
    worker.local.request_stop()
    gate.may_end.set()
    assert worker.wait() is False
    assert [each.step for each in bench.told if each.is_over] == ["a"]
    assert bench.local(run, echo).work()
    assert bench.outputs(run) == {"n": 3}


def test_who_does_not_end_in_time_is_left_and_its_task_given_back(bench: Bench, gate: Gate) -> None:
    run = bench.submit("One", n=1)
    worker = Worker(bench.local(run, gate, drain_s=0.01))
    gate.wait_begun()
    worker.local.request_stop()
    assert worker.wait() is False
    assert gate.contexts[0].cancelled
    task = bench.task(run)
    assert (task.state, task.deliveries) == (TaskState.PENDING, 0)

    gate.may_end.set()
    assert gate.ended.acquire(timeout=PATIENCE_S)
    assert bench.local(run, lambda payload: {"n": 8}).work()
    assert bench.outputs(run) == {"n": 8}


def test_an_abort_waits_for_nobody(bench: Bench, gate: Gate) -> None:
    run = bench.submit("One", n=1)
    worker = Worker(bench.local(run, gate, drain_s=3600))
    gate.wait_begun()
    worker.local.request_stop()
    worker.local.abort()
    assert worker.wait() is False
    assert bench.task(run).state == TaskState.PENDING


def test_a_stop_before_the_start_is_honoured(bench: Bench) -> None:
    run = bench.submit("One", n=1)
    local = bench.local(run, echo)
    local.request_stop()
    assert local.work() is False
    assert bench.told == []


def test_what_is_seen_of_a_run_at_work(bench: Bench, gate: Gate) -> None:
    run = bench.submit("Many", ns=[1, 2, 3])
    worker = Worker(bench.local(run, gate, concurrency=1))
    gate.wait_begun()
    assert worker.local.running() == ["a"]
    assert worker.local.waiting() == 2
    gate.may_end.set()
    assert worker.wait() is True
    assert worker.local.running() == []


def test_a_cancelled_run_tells_its_handlers_and_ends(bench: Bench, gate: Gate) -> None:
    run = bench.submit("One", n=1)
    worker = Worker(bench.local(run, gate))
    gate.wait_begun()
    bench.evaluator.cancel(run)
    assert gate.contexts[0].cancellation.wait(PATIENCE_S)
    gate.may_end.set()
    assert worker.wait() is True
    with pytest.raises(runs.RunCancelled):
        bench.outputs(run)


def test_a_result_that_comes_after_an_operators_is_dropped(bench: Bench, gate: Gate) -> None:
    run = bench.submit("Chain", n=1)
    worker = Worker(bench.local(run, gate))
    gate.wait_begun()
    bench.evaluator.continue_step(bench.task(run).step_id, {"n": 100})
    gate.may_end.set()
    assert worker.wait() is True
    assert bench.outputs(run) == {"n": 102}


def test_partial_results_and_logs_reach_the_run(bench: Bench) -> None:
    def work(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        context.update({"n": 1})
        context.heartbeat()
        context.log("half done", "warning")
        step = bench.store.get_step(context.step_id)  # type: ignore[arg-type]
        assert step is not None
        return {"n": step.get_attribute("n") + 1}

    run = bench.submit("One", n=50)
    assert bench.local(run, work).work()
    assert bench.outputs(run) == {"n": 2}
    notes = [(each.message, each.note_type) for each in bench.store.get_logs_by_runner(run)]
    assert ("half done", "warning") in notes


# On a store that is out of reach now and then


class Hiccups(MemoryStore):
    """Every second call of what a run needs fails."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def _hiccup(self, name: str) -> None:
        self.calls[name] += 1
        if self.calls[name] % 2:
            raise StoreUnavailable(f"{name}: the database is locked")

    def claim_tasks(self, *args: Any, **options: Any) -> Any:
        self._hiccup("claim_tasks")
        return super().claim_tasks(*args, **options)

    def wait_for_work(self, *args: Any, **options: Any) -> bool:
        self._hiccup("wait_for_work")
        return super().wait_for_work(*args, **options)

    def wait_for_run(self, *args: Any, **options: Any) -> bool:
        self._hiccup("wait_for_run")
        return super().wait_for_run(*args, **options)

    def decide_later(self, *args: Any, **options: Any) -> Any:
        self._hiccup("decide_later")
        return super().decide_later(*args, **options)


def test_a_run_outlives_a_store_that_is_out_of_reach_now_and_then() -> None:
    store = Hiccups()
    bench = Bench(store)
    run = bench.submit("Chain", n=1)
    local = bench.local(run, echo)
    assert local.work()
    store.calls.clear()
    store.calls["wait_for_run"] = 1
    assert bench.outputs(run) == {"n": 3}


def test_a_store_that_was_closed_ends_the_work(bench: Bench, gate: Gate) -> None:
    run = bench.submit("One", n=1)
    local = bench.local(run, gate)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            local.work()
        except StoreClosed as problem:
            problems.append(problem)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    gate.wait_begun()
    bench.store.close()
    gate.may_end.set()
    thread.join(PATIENCE_S)
    assert len(problems) == 1


# On a clock that stands still


def test_leases_of_running_handlers_are_renewed(gate: Gate) -> None:
    clock = FakeClock()
    bench = Bench(MemoryStore(clock))
    run = bench.submit("One", n=1)
    worker = Worker(bench.local(run, gate, lease_ms=9000, clock=clock))
    gate.wait_begun()
    for _ in range(5):
        clock.wait_for_waiters(THREADS)
        clock.advance(3)
    clock.wait_for_waiters(THREADS)
    assert bench.task(run).lease_expires == bench.store.now_ms() + 9000
    gate.may_end.set()
    assert worker.wait() is True
    assert bench.outputs(run) == {"n": 1}


def test_a_handler_that_lost_its_claim_is_told(gate: Gate) -> None:
    clock = FakeClock()
    bench = Bench(MemoryStore(clock))
    run = bench.submit("One", n=1)
    worker = Worker(bench.local(run, gate, lease_ms=9000, clock=clock))
    gate.wait_begun()
    bench.evaluator.continue_step(bench.task(run).step_id, {"n": 5})
    assert gate.contexts[0].cancellation.wait(PATIENCE_S)
    gate.may_end.set()
    assert worker.wait() is True
    assert bench.outputs(run) == {"n": 5}


def test_a_task_that_never_ends_is_not_handed_out_for_ever() -> None:
    clock = FakeClock()
    bench = Bench(MemoryStore(clock))
    run = bench.submit("One", n=1)
    task_list = runs.status(bench.store, run).task_list
    for _ in range(5):
        assert bench.store.claim_tasks(["t.Work"], 1, task_list=task_list, lease_ms=1000)
        clock.advance(2)
    calls: Counter[str] = Counter()

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        calls["work"] += 1
        return {"n": 1}

    assert bench.local(run, work, clock=clock).work()
    assert not calls
    assert bench.task(run).state == TaskState.DEAD_LETTER
    with pytest.raises(runs.RunFailed, match=r"t\.Work was handed out 6 times without an end"):
        bench.outputs(run)


def test_work_of_a_process_that_died_is_done_when_its_lease_lapses() -> None:
    clock = FakeClock()
    bench = Bench(MemoryStore(clock))
    run = bench.submit("One", n=1)
    task_list = runs.status(bench.store, run).task_list
    [lost] = bench.store.claim_tasks(["t.Work"], 1, task_list=task_list, lease_ms=15000)
    worker = Worker(bench.local(run, echo, clock=clock))
    clock.wait_for_waiters(THREADS)
    clock.advance(15)
    assert worker.wait() is True
    assert bench.outputs(run) == {"n": 1}
    assert bench.store.extend_leases([Claim(lost.uuid, lost.fence)]) == [False]
