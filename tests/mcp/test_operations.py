"""The operations that came with this face."""

from __future__ import annotations

import threading

from afl.clock import SYSTEM_CLOCK
from afl.lang.compiler import compile_source
from afl.operations import runs
from afl.operations.schemas import input_schema
from afl.operations.waiting import Look, follow, look
from afl.runtime.entities import RunnerDefinition, ServerDefinition, ServerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore

WORK = """
event facet A() => (n: Long)
event facet B() => (n: Long)

workflow W() => (n: Long) andThen {
    a = A()
    b = B()
    yield W(n = a.n + b.n)
}
"""


def _begun() -> tuple[MemoryStore, Evaluator, RunnerDefinition]:
    store = MemoryStore()
    engine = Evaluator(store)
    run_id = runs.submit(engine, compile_source(WORK), "W")
    return store, engine, runs.status(store, run_id)


def _alive(store: MemoryStore, *handlers: str) -> None:
    server = ServerDefinition("s", "g", "n", "s", state=ServerState.RUNNING)
    server.handlers, server.ping_time = list(handlers), store.now_ms()
    store.save_server(server)


def test_what_nobody_serves_is_told_apart_from_what_no_worker_is_there_for() -> None:
    store, _, run = _begun()
    assert look(store, run).unserved == ("A", "B")
    store.register_handler("A", "handlers")
    seen = look(store, run)
    assert (seen.unserved, seen.unattended, seen.is_stuck) == (("B",), ("A",), True)
    _alive(store, "A")
    seen = look(store, run)
    assert (seen.unserved, seen.unattended, seen.is_stuck) == (("B",), (), False)


def test_a_run_is_not_stuck_while_somebody_works() -> None:
    store, _, run = _begun()
    store.claim_tasks(["A"], 1)
    seen = look(store, run)
    assert not seen.is_stuck
    assert str(seen.counts) == "0 done, 1 running, 1 waiting"


def test_a_paused_run_is_not_waited_for() -> None:
    store, engine, run = _begun()
    runs.pause(engine, run.workflow_id)
    (seen,) = follow(store, run, 600, threading.Event())
    assert seen.is_paused
    assert "paused" in seen.advice("default")


def test_a_run_that_is_over_needs_no_look() -> None:
    store, engine, run = _begun()
    runs.cancel(engine, run.workflow_id)
    assert list(follow(store, run, 600, threading.Event())) == []


def test_only_what_has_changed_is_told() -> None:
    store, engine, run = _begun()
    _alive(store, "A", "B")
    seen: list[Look] = []
    for each in follow(store, run, 600, threading.Event(), SYSTEM_CLOCK):
        seen.append(each)
        (task,) = store.claim_tasks(["A", "B"], 1)
        engine.complete_task(task, {"n": 1})
    assert [each.counts.done for each in seen] == [0, 1]


def test_a_schema_that_holds_itself_ends() -> None:
    program = compile_source(
        "namespace t { schema Node { name: String, below: [Node] }\nworkflow W(tree: Node) }"
    )
    schema = input_schema(program, program.workflow("W"))
    below = schema["properties"]["tree"]["properties"]["below"]
    assert below == {"type": "array", "items": {"type": "object", "title": "t.Node"}}
