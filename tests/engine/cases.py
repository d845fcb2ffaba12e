"""The programs that are run under fire: those of the set, and some that are hard here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.engine.effects import Effect, effect_of, sorted_effects
from tests.engine.programs import PROGRAMS, Case
from tests.engine.rest import shape_of
from tests.engine.worker import NAMES, finish

from afl.clock import FakeClock
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.results import ExecutionResult
from afl.runtime.script_executor import ScriptExecutor
from afl.runtime.types import WorkflowId

_HARD = [
    Case(
        "retries in rounds",
        """workflow W() => (sums: [Long], last: Long) andThen foreach i in [1, 2, 3] {
            a = Add(a = i) with afl.Retry(max = 4, backoff = "1s")
            b = Flaky(good_at = i) with afl.Retry(max = 3, backoff = "0s")
            c = Add(a = a.sum, b = b.tries)
            yield W(sums = c.sum, last = c.sum)
        }""",
        {"sums": [3, 5, 7], "last": 7},
    ),
    Case(
        "wide and joined",
        """workflow W(n: [Long]) => (all: [Long], sum: Long)
            andThen { base = Add(a = 1) other = Add(a = base.sum) }
            andThen foreach i in $.n {
                a = Add(a = i, b = base.sum)
                b = Add(a = i, b = other.sum)
                both = Add(a = a.sum, b = b.sum)
                yield W(all = both.sum)
            }
            andThen { late = Add(a = base.sum, b = other.sum) yield W(sum = late.sum) }""",
        {"all": [7, 9, 11, 13, 15], "sum": 5},
        {"n": [1, 2, 3, 4, 5]},
    ),
    Case(
        "rounds that fail and rounds that catch",
        """facet Risky(n: Long) => (out: String) andThen when {
            case $.n == 2 => { f = Fail(message = "two") }
            case _ => { u = Upper(text = "n" ++ $.n) yield Risky(out = u.text) }
        }
        workflow W() => (out: [String]) andThen foreach i in [1, 2, 3] {
            r = Risky(n = i) catch { s = Upper(text = $.error) yield Risky(out = s.text) }
            yield W(out = r.out)
        }""",
        {"out": ["N1", "TWO", "N3"]},
    ),
    Case(
        "rounds choose their catch",
        """workflow W() => (out: [String]) andThen foreach i in [1, 2, 3] {
            a = Add(a = i)
            f = Fail(message = "round " ++ a.sum) catch when {
                case $.error == "round 2" => { yield Fail(never = "small") }
                case _ => { yield Fail(never = "large") }
            }
            yield W(out = f.never)
        }""",
        {"out": ["small", "large", "large"]},
    ),
    Case(
        "a round fails the run",
        """facet Check(n: Long) => (ok: Long) andThen when {
            case $.n == 2 => { f = Fail(message = "two") after = Upper(text = f.never) }
            case _ => { a = Add(a = $.n) yield Check(ok = a.sum) }
        }
        workflow W() => (out: [Long], last: Long)
            andThen foreach i in [1, 2, 3] {
                c = Check(n = i)
                d = Add(a = c.ok, b = i)
                yield W(out = d.sum)
            }
            andThen { a = Add(a = 1) b = Add(a = a.sum) yield W(last = b.sum) }""",
        None,
        error="two",
    ),
    Case(
        "two fail in a block",
        """workflow W() => (why: String, first: String) andThen {
            a = Add(a = 1)
            b = Fail(message = "b" ++ a.sum)
            c = Fail(message = "c")
            d = Upper(text = c.never ++ b.never)
        } catch { yield W(why = $.error, first = d.error) }""",
        {"why": "b2", "first": "b2"},
    ),
    Case(
        "two blocks fail",
        """workflow W() => (why: String)
            andThen { late = Upper(text = last.never) }
            andThen { a = Add(a = 1) b = Add(a = a.sum) c = Fail(message = "c" ++ b.sum) }
            andThen { last = Fail(message = "last") yield W(why = c.never) }
            catch { yield W(why = $.error) }""",
        {"why": "last"},
    ),
    Case(
        "all that a step reads fails",
        """workflow W() => (why: String)
            andThen { a = Add(a = 1) b = Fail(message = "b" ++ a.sum) }
            andThen { c = Fail(message = "c") }
            andThen { s = Upper(text = c.never ++ b.never) }
            andThen foreach x in [c.never, b.never] { u = Upper(text = x) }
            catch { yield W(why = s.error) }""",
        {"why": "b2"},
    ),
    Case(
        "rounds and cases fail",
        """facet Rounds() => (x: Long) andThen foreach i in [0, 1, 2, 3] {
            a = Add(a = i, b = 0)
            sys.assert(a.sum == 0, message = "round " ++ a.sum)
        }
        facet Cases() => (x: Long) andThen when {
            case true => { a = Add(a = 1) f = Fail(message = "case " ++ a.sum) }
            case 1 < 2 => { f = Fail(message = "other") }
            case _ => { }
        }
        workflow W() => (rounds: String, cases: String) andThen {
            r = Rounds() catch { }
            c = Cases() catch { }
            yield W(rounds = r.error, cases = c.error)
        }""",
        {"rounds": "round 1", "cases": "case 2"},
    ),
    Case(
        "two fail, and nobody catches",
        """workflow W()
            andThen { a = Add(a = 1) b = Fail(message = "b" ++ a.sum) }
            andThen { c = Fail(message = "c") }
            andThen foreach i in [1, 2] { f = Fail(message = "round " ++ i) }""",
        None,
        error="b2",
    ),
]

ALL_CASES = [*PROGRAMS, *_HARD]
#: Those whose work is all done by handlers.
CASES = [case for case in ALL_CASES if not case.needs_scripts]
BY_NAME = {case.name: case for case in ALL_CASES}


def evaluator_for(case: Case, store: PersistenceAPI) -> Evaluator:
    return Evaluator(store, scripts=ScriptExecutor() if case.needs_scripts else None)


@dataclass(frozen=True)
class Expected:
    """What a run in plain order leaves behind."""

    shape: list[tuple[str, str, Any]]
    effects: list[Effect]
    #: How many tasks were claimed.
    claims: int


@cache
def expected(name: str) -> Expected:
    """What must come of a program: one worker does one task after another, in memory."""
    case, clock = BY_NAME[name], FakeClock()
    store = MemoryStore(clock)
    evaluator = evaluator_for(case, store)
    run_id = evaluator.submit(case.program, case.workflow, case.inputs)
    effects: dict[str, Effect] = {}
    claims = 0
    while not _is_over(evaluator, run_id):
        for task in store.claim_tasks(NAMES, 1):
            claims += 1
            effects[task.uuid] = effect_of(task)
            finish(evaluator, task)
        clock.advance(1)
    check_result(case, evaluator.result(run_id))
    return Expected(shape_of(store, run_id), sorted_effects(effects.values()), claims)


def check_result(case: Case, result: ExecutionResult) -> None:
    """Raises AssertionError if a run did not end as its program says."""
    if case.error is None:
        assert result.error is None
        assert result.outputs == case.outputs
    else:
        assert str(result.error) == case.error


def _is_over(evaluator: Evaluator, run_id: WorkflowId) -> bool:
    run = evaluator.persistence.get_run(run_id)
    assert run is not None
    return run.is_over
