"""Scripts in a worker are work like other work: nothing waits for them that need not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from afl import compile_source
from afl.errors import StoreUnavailable
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.script_executor import ScriptExecutor, ScriptResult

PATIENCE_S = 30.0
PROGRAM = compile_source("""
namespace t

event facet Work(n: Long) => (n: Long)

facet Twice(n: Long) => (n: Long) script { result["n"] = params["n"] * 2 }

workflow Plain(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    yield Plain(n = a.n)
}

workflow Scripted(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Twice(n = a.n)
    c = Twice(n = b.n)
    yield Scripted(n = c.n)
}
""")


class Held(ScriptExecutor):
    """Scripts that begin, and end when they may."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def execute(self, *args: Any, **options: Any) -> ScriptResult:
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE_S)
        return super().execute(*args, **options)


async def work(payload: dict[str, Any]) -> dict[str, Any]:
    return {"n": payload["n"]}


@pytest.fixture
def scripts() -> Held:
    return Held()


@pytest.fixture
def evaluator(scripts: Held) -> Iterator[Evaluator]:
    store = MemoryStore()
    evaluator = Evaluator(store, scripts=scripts)
    poller = AgentPoller(store, evaluator, AgentPollerConfig(max_concurrent=4))
    poller.register("t.Work", work)
    thread = threading.Thread(target=poller.start)
    thread.start()
    yield evaluator
    scripts.may_end.set()
    poller.stop()
    thread.join()


def test_a_script_holds_up_no_result_of_another_run(evaluator: Evaluator, scripts: Held) -> None:
    store = evaluator.persistence
    scripted = evaluator.submit(PROGRAM, "Scripted", {"n": 1})
    assert scripts.has_begun.wait(PATIENCE_S)
    plain = evaluator.submit(PROGRAM, "Plain", {"n": 1})
    assert store.wait_for_run(plain, PATIENCE_S)
    assert not store.wait_for_run(scripted, 0)
    scripts.may_end.set()
    assert store.wait_for_run(scripted, PATIENCE_S)
    assert evaluator.result(scripted).outputs == {"n": 4}


def test_a_script_is_done_by_whoever_brought_what_led_to_it(
    evaluator: Evaluator, scripts: Held
) -> None:
    run = evaluator.submit(PROGRAM, "Scripted", {"n": 1})
    assert scripts.has_begun.wait(PATIENCE_S)
    [script] = [
        each
        for each in evaluator.persistence.get_tasks_by_runner(run)
        if each.state == TaskState.RUNNING
    ]
    assert (script.name, script.deliveries) == ("afl:script", 1)


class Away(MemoryStore):
    """Away when a script wants its lease."""

    is_away = True

    def extend_leases(self, *args: Any, **options: Any) -> list[bool]:
        if self.is_away:
            raise StoreUnavailable("away")
        return super().extend_leases(*args, **options)


def test_an_outage_at_a_script_takes_nothing_back_of_what_led_to_it() -> None:
    store = Away()
    evaluator = Evaluator(store, scripts=ScriptExecutor())
    run = evaluator.submit(PROGRAM, "Scripted", {"n": 1})
    [task] = store.claim_tasks(["t.Work"], 1)
    assert evaluator.complete_task(task, {"n": 1}) == []
    stored = store.get_task(task.uuid)
    assert stored is not None
    assert stored.state == TaskState.COMPLETED
    found = store.get_run(run)
    assert found is not None
    assert found.state == RunnerState.RUNNING
