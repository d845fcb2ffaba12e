"""Scripts take time: their claims last as long, and who has lost one disturbs nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.engine.programs import compiled

from afl.clock import FakeClock
from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.handlers.scripts import SCRIPT_TASK
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.script_executor import ScriptExecutor, ScriptResult

TEXT = """facet Slow(n: Long) => (m: Long) script { result["m"] = params["n"] + 1 }
workflow W() => (a: Long, b: Long) andThen {
    a = Slow(n = 1) b = Slow(n = 2)
    yield W(a = a.m, b = b.m)
}"""


@dataclass(frozen=True)
class Watched(ScriptExecutor):
    """The real thing, with something that happens while a script runs."""

    meanwhile: Callable[[], None] = lambda: None

    def execute(
        self, code: str, params: Mapping[str, Any] | None = None, language: str = "python"
    ) -> ScriptResult:
        done = super().execute(code, params, language)
        self.meanwhile()
        return done


def test_a_script_that_takes_long_keeps_its_claim(
    any_store: PersistenceAPI, clock: FakeClock
) -> None:
    taken: list[str] = []

    def meanwhile() -> None:
        clock.advance(29)
        # The one at work is not to be had. Of two, the other waits behind it and may be taken.
        taken.extend(each.uuid for each in any_store.claim_tasks([SCRIPT_TASK], 5, lease_ms=1))

    evaluator = Evaluator(any_store, scripts=Watched(meanwhile=meanwhile))
    run_id = evaluator.submit(compiled(TEXT), "W")
    assert len(taken) == 1
    clock.advance(60)
    assert evaluator.resume(run_id).outputs == {"a": 2, "b": 3}


def test_a_run_that_is_cancelled_while_its_script_runs_stays_so(any_store: PersistenceAPI) -> None:
    other = Evaluator(any_store)

    def meanwhile() -> None:
        for run in any_store.get_runners_by_state(RunnerState.RUNNING):
            other.cancel(run.workflow_id)  # type: ignore[arg-type]

    evaluator = Evaluator(any_store, scripts=Watched(meanwhile=meanwhile))
    run_id = evaluator.submit(compiled(TEXT), "W")
    run = any_store.get_run(run_id)
    assert run is not None
    assert run.state == RunnerState.CANCELLED


CHAINED = 500


class Instant(ScriptExecutor):
    """Counts up without a process: a chain of these would take long."""

    def execute(
        self, code: str, params: Mapping[str, Any] | None = None, language: str = "python"
    ) -> ScriptResult:
        assert params is not None
        return ScriptResult(True, {"m": params["n"] + 1}, params=dict(params))


def test_a_chain_of_scripts_is_not_bound_by_the_stack() -> None:
    chain = "\n".join(f"s{i} = Slow(n = s{i - 1}.m)" for i in range(1, CHAINED))
    text = f"""facet Slow(n: Long) => (m: Long) script {{ result["m"] = params["n"] + 1 }}
    workflow W() => (m: Long) andThen {{
        s0 = Slow(n = 0)
        {chain}
        yield W(m = s{CHAINED - 1}.m)
    }}"""
    evaluator = Evaluator(MemoryStore(), scripts=Instant())
    run_id = evaluator.submit(compiled(text), "W")
    assert evaluator.result(run_id).outputs == {"m": CHAINED}


def test_who_waits_for_a_run_finds_all_of_its_scripts_done(any_store: PersistenceAPI) -> None:
    done: list[str] = []
    evaluator = Evaluator(any_store, scripts=Watched(meanwhile=lambda: done.append("one")))
    text = """facet Slow(n: Long) => (m: Long) script { result["m"] = params["n"] + 1 }
    workflow W() => (a: Long) andThen {
        first = Add(a = 1)
        a = Slow(n = first.sum) b = Slow(n = a.m) c = Slow(n = b.m)
        yield W(a = c.m)
    }"""
    run_id = evaluator.submit(compiled(text), "W")
    (task,) = any_store.claim_tasks(["t.Add"], 1)
    evaluator.complete_task(task, {"sum": 2})
    assert done == ["one"] * 3
    assert evaluator.result(run_id).outputs == {"a": 5}


def test_a_run_is_accepted_although_its_script_cannot_be_started_now(
    any_store: PersistenceAPI, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    evaluator = Evaluator(any_store, scripts=ScriptExecutor())
    with monkeypatch.context() as patch:
        patch.setattr("subprocess.Popen", full)
        run_id = evaluator.submit(compiled(TEXT), "W")
    clock.advance(60)
    assert evaluator.resume(run_id).outputs == {"a": 2, "b": 3}
