"""What a run in one process needs is found, or said to be missing, before it starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from afl import compile_source
from afl.errors import UsageError
from afl.operations import runs
from afl.operations.own_run import begin, local_run, prepare, stored_work, usual_handlers
from afl.operations.programs import compile_paths
from afl.operations.reach import reachable_events
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.script_executor import ScriptExecutor

TEXT = """
namespace t

event facet A(x: Long) => (x: Long)
event facet B(x: Long) => (x: Long)
event facet C(x: Long) => (x: Long)
event facet Unused(x: Long) => (x: Long)

facet Deep(x: Long) => (x: Long) andThen {
    b = B(x = $.x)
    yield Deep(x = b.x)
} catch {
    c = C(x = $.x)
    yield Deep(x = c.x)
}

workflow Outer(x: Long) => (x: Long) andThen {
    inner = Inner(x = $.x)
    yield Outer(x = inner.x)
}

workflow Inner(x: Long) => (x: Long) andThen foreach each in [$.x] {
    a = A(x = each) andThen {
        d = Deep(x = $.x)
        yield A(x = d.x)
    }
}
"""
PROGRAM = compile_source(TEXT)

SCRIPTED = compile_source("""
namespace t

event facet A(x: Long) => (x: Long)
facet Twice(x: Long) => (x: Long) script { result["x"] = params["x"] * 2 }

workflow W(x: Long) => (x: Long) andThen {
    a = A(x = $.x)
    b = Twice(x = a.x)
    yield W(x = b.x)
}
""")


@pytest.fixture(autouse=True)
def _unchanged_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def handlers(folder: Path, text: str) -> str:
    path = folder / "handlers.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("workflow", "events"), [("Outer", ["t.A", "t.B", "t.C"]), ("Inner", ["t.A", "t.B", "t.C"])]
)
def test_events_are_reached_through_facets_workflows_bodies_and_catches(
    workflow: str, events: list[str]
) -> None:
    assert reachable_events(PROGRAM, PROGRAM.workflow(workflow)) == events


def test_facets_without_a_handler_are_named_unless_nothing_reaches_them(tmp_path: Path) -> None:
    source = handlers(tmp_path, "def b(payload): return {}\n")
    with pytest.raises(UsageError, match=r"there is no handler for t\.A, t\.C in .*handlers\.py"):
        prepare(PROGRAM, PROGRAM.workflow("Outer"), [source])
    with pytest.raises(UsageError, match="name them with --handlers"):
        prepare(PROGRAM, PROGRAM.workflow("Outer"), [])


def test_handlers_beside_the_program_are_found(tmp_path: Path) -> None:
    assert usual_handlers(tmp_path) == []
    source = handlers(tmp_path, "")
    assert usual_handlers(tmp_path) == [source]
    assert usual_handlers(tmp_path / "program.afl") == [source]


def test_a_run_that_exists_brings_its_program_and_finds_its_handlers(tmp_path: Path) -> None:
    (tmp_path / "program.afl").write_text(TEXT, encoding="utf-8")
    source = handlers(tmp_path, "def handle(payload): return {'x': payload['x'] + 1}\n")
    program = compile_paths([str(tmp_path / "program.afl")]).require()
    store = MemoryStore()
    run = runs.submit(Evaluator(store), program, "Outer", {"x": 1})
    work = stored_work(store, runs.status(store, run), [])
    assert work.program == program
    assert work.workflow.qualified == "t.Outer"
    assert work.sources == [source]


def test_runs_of_workers_are_left_to_them(tmp_path: Path) -> None:
    store = MemoryStore()
    evaluator = Evaluator(store)
    source = handlers(tmp_path, "def handle(payload): return {'x': payload['x'] + 1}\n")
    work = prepare(PROGRAM, PROGRAM.workflow("Outer"), [source])
    ours = runs.status(store, begin(evaluator, work, {"x": 1}))
    theirs = runs.status(store, runs.submit(evaluator, PROGRAM, "Outer", {"x": 1}))
    assert local_run(store, evaluator, work, ours).work()
    with pytest.raises(UsageError, match="for the workers of the task list 'default'"):
        local_run(store, evaluator, work, theirs)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_script_that_a_process_left_behind_is_run(tmp_path: Path, is_on: bool) -> None:
    store = MemoryStore()
    scripts = ScriptExecutor()
    evaluator = Evaluator(store, scripts=scripts)
    source = handlers(tmp_path, "def a(payload): return {}\n")
    work = prepare(SCRIPTED, SCRIPTED.workflow("W"), [source])
    run = begin(evaluator, work, {"x": 1})
    record = runs.status(store, run)
    # A script that is asked for while the run is paused waits for somebody to claim it.
    [task] = store.claim_tasks(["t.A"], 1, task_list=record.task_list)
    runs.pause(evaluator, run)
    evaluator.complete_task(task, {"x": 4})
    runs.unpause(evaluator, run)

    later = Evaluator(store, scripts=scripts if is_on else None)
    assert local_run(store, later, work, record).work()
    if is_on:
        assert runs.result(store, evaluator, run) == {"x": 8}
    else:
        with pytest.raises(runs.RunFailed, match=r"turned off; .*scripts\.enabled"):
            runs.result(store, evaluator, run)


def test_a_script_result_that_no_run_can_keep_fails_the_run() -> None:
    program = compile_source("workflow W() => (x: Long) script { result['x'] = 2 ** 70 }\n")
    store = MemoryStore()
    evaluator = Evaluator(store, scripts=ScriptExecutor())
    run = runs.submit(evaluator, program, "W")
    with pytest.raises(runs.RunFailed, match=r"x is .*; whole numbers have at most 64 bits"):
        runs.result(store, evaluator, run, timeout=0)
