"""What cannot be computed ends the step that needs it, and nothing else: neither the decision nor
the handler whose result led there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.programs import compiled
from tests.engine.rest import check_rest
from tests.engine.worker import work_all

from afl.errors import StoreUnavailable
from afl.lang.compiler import compile_source
from afl.lang.program import Program
from afl.runtime.entities import TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.handlers import HANDLERS
from afl.runtime.handlers.base import StateHandler
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.results import ExecutionResult
from afl.runtime.states import StepState

LARGEST = 2**63 - 1


def outcome(
    store: PersistenceAPI, program: Program, inputs: dict[str, Any] | None = None
) -> ExecutionResult:
    """How a run of `t.W` ends; all of its tasks must have ended well."""
    evaluator = Evaluator(store)
    run_id = evaluator.submit(program, "t.W", inputs)
    work_all(evaluator)
    check_rest(store, run_id)
    tasks = store.get_tasks_by_runner(run_id)
    assert {each.state for each in tasks} <= {TaskState.COMPLETED}
    assert not any(each.failures for each in tasks)
    return evaluator.result(run_id)


@pytest.mark.parametrize(
    ("expression", "operator"),
    [("$.n + a.sum", "+"), ("$.n * a.sum", "*"), ("-(0 - $.n - a.sum + 1)", "-")],
)
def test_whole_numbers_have_64_bits(
    any_store: PersistenceAPI, expression: str, operator: str
) -> None:
    text = f"""workflow W(n: Long) => (m: Json) andThen {{
        a = Add(a = 1) with afl.Retry(max = 3, backoff = "0s")
        s = Say(what = {expression})
        yield W(m = s.said)
    }}"""
    result = outcome(any_store, compiled(text), {"n": LARGEST})
    assert str(result.error) == f"Number out of range in '{operator}'"


def test_waits_that_nobody_can_keep_are_refused(any_store: PersistenceAPI) -> None:
    text = """workflow W(days: Long) => (m: Json) andThen {
        a = Add(a = 1) with afl.Retry(max = 3, backoff = $.days ++ "d")
        yield W(m = a.sum)
    }"""
    result = outcome(any_store, compiled(text), {"days": LARGEST})
    assert str(result.error) == "Number out of range in 'afl.Retry'"


def test_a_wait_that_is_doubled_beyond_all_numbers_is_still_a_wait(
    any_store: PersistenceAPI,
) -> None:
    text = """workflow W() => (m: Json) andThen {
        a = Add(a = 1) with afl.Retry(max = 9, backoff = "106751991167d")
        yield W(m = a.sum)
    }"""
    evaluator = Evaluator(any_store)
    evaluator.submit(compiled(text), "t.W")
    (task,) = any_store.claim_tasks(["t.Add"], 1)
    evaluator.fail_task(task, "not now")
    stored = any_store.get_task(task.uuid)
    assert stored is not None
    assert (stored.state, stored.failures) == (TaskState.PENDING, 1)
    assert not any_store.claim_tasks(["t.Add"], 1)


#: Each call puts what it gets into something else.
DEEPER = {
    "a list": "r = Deep(v = [$.v], k = $.k - 1) yield Deep(v = r.v)",
    "a map": "r = Deep(v = #{x: #{y: $.v}}, k = $.k - 1) yield Deep(v = r.v)",
    "a whole step": "r = Deep(v = 1, k = $.k - 1) yield Deep(v = r)",
    "rounds": "r = Round(k = $.k) yield Deep(v = r.v)",
    "a mixin with an alias": "r = Mixed(v = $.v, k = $.k) yield Deep(v = r.v)",
    "a yield to an alias": "r = Given(k = $.k) yield Deep(v = r.m)",
}


@pytest.mark.parametrize("way", DEEPER)
def test_values_nest_as_deep_as_a_text_can_say(any_store: PersistenceAPI, way: str) -> None:
    text = f"""facet Deep(v: Json, k: Long) => (v: Json) andThen when {{
        case $.k > 0 => {{ {DEEPER[way]} }}
        case _ => {{ yield Deep(v = $.v) }}
    }}
    facet Round(k: Long) => (v: Json) andThen foreach x in [1] {{
        r = Deep(v = 1, k = $.k - 1) yield Round(v = r.v)
    }}
    facet Hold(held: Json) => (held: Json)
    facet Mixed(v: Json, k: Long) => (v: Json) with Hold(held = $.v) as m andThen {{
        r = Deep(v = $.m, k = $.k - 1) yield Mixed(v = r.v)
    }}
    facet Given(k: Long) => (m: Json) with Hold(held = 1) as m andThen {{
        r = Deep(v = 1, k = $.k - 1) yield m(held = r.v)
    }}
    workflow W(k: Long) => (m: Json) andThen {{
        a = Add(a = 1)
        r = Deep(v = a.sum, k = $.k)
        yield W(m = r.v)
    }}"""
    assert outcome(any_store, compiled(text), {"k": 40}).error is None
    result = outcome(any_store, compiled(text), {"k": 260})
    assert str(result.error) == "Value is nested more than 250 deep"


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def test_deep_inputs_can_be_compared(any_store: PersistenceAPI) -> None:
    text = """workflow W(a: Json, b: Json) => (m: Json) andThen {
        yield W(m = [$.a == $.b, $.a == $.b["in"]])
    }"""
    result = outcome(any_store, compiled(text), {"a": nested(450), "b": nested(450)})
    assert result.outputs == {"m": [True, False]}


def test_an_implicit_does_not_give_what_it_needs_itself(any_store: PersistenceAPI) -> None:
    text = """facet Base(user: Json, tenant: Json)
    facet User(id: String) with Base()
    facet Tenant(id: String)
    implicit user = User(id = "x")
    implicit tenant = Tenant(id = "y")
    facet Note(user: Json)
    workflow W() => (m: Json) andThen { a = Add(a = 1) n = Note() yield W(m = n.user) }"""
    result = outcome(any_store, compiled(text))
    assert result.outputs == {"m": {"id": "x", "tenant": {"id": "y"}}}


# What nobody thought of


class Broken:
    """A state whose work has a defect, for steps of one name."""

    def __init__(self, inner: StateHandler, error: Exception) -> None:
        self._inner = inner
        self._error = error

    def process(self, step: Any, context: Any) -> bool:
        if step.name == "bad":
            raise self._error
        return self._inner.process(step, context)


BROKEN = """workflow W() => (m: Json, why: Json) andThen {
    a = Add(a = 1) with afl.Retry(max = 3, backoff = "0s")
    bad = Say(what = a.sum) catch { yield Say(said = $.error) }
    yield W(m = bad.said, why = bad.error_type)
}"""


@pytest.mark.parametrize("error", [KeyError("after"), AssertionError("odd"), TypeError("no")])
def test_a_defect_ends_the_step_that_meets_it_and_is_logged(
    any_store: PersistenceAPI,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    state = StepState.FACET_INIT_BEGIN
    monkeypatch.setitem(HANDLERS, state, Broken(HANDLERS[state], error))
    result = outcome(any_store, compiled(BROKEN))
    assert result.outputs["why"] == "EvaluationError"
    name = type(error).__name__
    assert result.outputs["m"] == (
        f"internal error: {name}: {error}; the log of the process has more"
    )
    records = [each for each in caplog.records if "step_failed_unforeseen" in each.getMessage()]
    assert len(records) == 1


def test_a_value_that_is_too_deep_to_compute_with_is_no_defect(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = StepState.FACET_INIT_BEGIN
    monkeypatch.setitem(HANDLERS, state, Broken(HANDLERS[state], RecursionError("too deep")))
    result = outcome(MemoryStore(), compiled(BROKEN))
    assert result.outputs == {
        "m": "Value is nested too deep to compute with",
        "why": "EvaluationError",
    }
    assert not [each for each in caplog.records if "unforeseen" in each.getMessage()]


def test_what_the_store_raises_is_not_blamed_on_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    evaluator = Evaluator(store)
    run_id = evaluator.submit(compiled(BROKEN), "t.W")
    (task,) = store.claim_tasks(["t.Add"], 1)
    state = StepState.FACET_INIT_BEGIN
    with monkeypatch.context() as patch:
        patch.setitem(HANDLERS, state, Broken(HANDLERS[state], StoreUnavailable("away")))
        with pytest.raises(StoreUnavailable):
            evaluator.complete_task(task, {"sum": 2})
    evaluator.complete_task(task, {"sum": 2})
    work_all(evaluator)
    assert evaluator.result(run_id).error is None


# Whom a yield gives to


def test_a_yield_in_the_body_of_a_step_means_the_facet_that_the_step_calls(
    any_store: PersistenceAPI,
) -> None:
    text = """namespace lib { facet Load(n: Long) => (xs: [Long], last: Long) }
    namespace t
    facet Load(n: Long) => (xs: Long, last: [Long])
    workflow W() => (xs: Json, last: Json) andThen {
        s = lib.Load(n = 1) andThen foreach x in [1, 2, 3] { yield Load(xs = x, last = x) }
        yield W(xs = s.xs, last = s.last)
    }"""
    result = outcome(any_store, compile_source(text))
    assert result.outputs == {"xs": [1, 2, 3], "last": 3}
