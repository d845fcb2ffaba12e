"""Which of several failures counts: the first in the text. When they came, who was tried again
and how many there are makes no difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, TypeVar

import pytest
from tests.engine.programs import compiled
from tests.engine.rest import check_rest

from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import Decision, PersistenceAPI, View
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

T = TypeVar("T")

#: Each has three events, a, b and c.
TEXTS = {
    "a block": """workflow W() andThen {
        a = Say(what = "a") b = Say(what = "b") c = Say(what = "c")
    }""",
    "blocks": """workflow W()
        andThen { a = Say(what = "a") }
        andThen { b = Say(what = "b") }
        andThen { c = Say(what = "c") }""",
    "rounds": """workflow W() andThen foreach x in ["a", "b", "c"] { s = Say(what = x) }""",
    "cases": """workflow W() andThen when {
        case true => { a = Say(what = "a") }
        case 1 == 1 => { b = Say(what = "b") }
        case 2 == 2 => { c = Say(what = "c") }
        case _ => { }
    }""",
    "a step that reads all": """facet Pair(x: Json, y: Json, z: Json)
    workflow W()
        andThen { s = Pair(x = c.said, y = b.said, z = a.said) }
        andThen { a = Say(what = "a") b = Say(what = "b") }
        andThen { c = Say(what = "c") }""",
    "a block that waits for all": """workflow W() => (x: Json)
        andThen { yield W(x = c.said ++ b.said ++ a.said) }
        andThen { a = Say(what = "a") b = Say(what = "b") c = Say(what = "c") }""",
    "a foreach that waits for all": """workflow W() => (x: Json)
        andThen foreach x in [c.said, b.said, a.said] { yield W(x = x) }
        andThen { a = Say(what = "a") b = Say(what = "b") c = Say(what = "c") }""",
}


class Bench:
    """A run whose events end as they are told, one after the other."""

    def __init__(self, store: PersistenceAPI, text: str) -> None:
        self.store = store
        self.evaluator = Evaluator(store)
        self.run_id: WorkflowId = self.evaluator.submit(compiled(text), "t.W")
        self.tasks: dict[str, TaskDefinition] = {}

    def claim(self) -> None:
        for task in self.store.claim_tasks(["t.Say"], 1000):
            self.tasks[(task.data or {})["what"]] = task

    def fail(self, name: str) -> None:
        self.evaluator.fail_task(self.tasks[name], name)
        check_rest(self.store, self.run_id)

    def succeed(self, name: str) -> None:
        self.evaluator.complete_task(self.tasks[name], {"said": name})
        check_rest(self.store, self.run_id)

    def retry(self, name: str) -> None:
        self.evaluator.retry_step(StepId(self.tasks[name].step_id))
        check_rest(self.store, self.run_id)
        self.claim()

    @property
    def error(self) -> dict[str, Any]:
        run = self.store.get_run(self.run_id)
        assert run is not None
        return run.error or {}


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
@pytest.mark.parametrize("place", TEXTS)
def test_the_first_failure_in_the_text_counts(place: str, order: Sequence[str]) -> None:
    bench = Bench(MemoryStore(), TEXTS[place])
    bench.claim()
    for name in order:
        bench.fail(name)
    assert bench.error["message"] == "a"
    assert "not_run" not in bench.error


@pytest.mark.parametrize("retried", ["abc", "acb", "ba", "ca", "b", "c"])
@pytest.mark.parametrize("place", TEXTS)
def test_the_first_that_is_left_counts_after_retries(place: str, retried: str) -> None:
    bench = Bench(MemoryStore(), TEXTS[place])
    bench.claim()
    left = list("abc")
    for name in "bca":
        bench.fail(name)
    for name in retried:
        bench.retry(name)
        bench.fail(name)
        assert bench.error["message"] == left[0]
        bench.retry(name)
        bench.succeed(name)
        left.remove(name)
        assert bench.error.get("message") == (left[0] if left else None)
        assert "not_run" not in bench.error


def test_retries_at_the_same_time_leave_the_first_failure(any_store: PersistenceAPI) -> None:
    bench = Bench(any_store, TEXTS["rounds"])
    bench.claim()
    for name in "cab":
        bench.fail(name)
    bench.retry("a")
    bench.retry("c")
    bench.fail("c")
    bench.succeed("a")
    assert bench.error["message"] == "b"


# What it costs


class CountedView:
    """Counts the steps that a decision reads."""

    def __init__(self, view: View, count: Callable[[int], None]) -> None:
        self._view = view
        self._count = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        self._count(1)
        return self._view.get_step(step_id)

    def get_steps(self, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
        self._count(len(step_ids))
        return self._view.get_steps(step_ids)

    def get_steps_by_block(self, block_id: Any) -> list[StepDefinition]:
        found = self._view.get_steps_by_block(block_id)
        self._count(len(found))
        return found


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def _add(self, count: int) -> None:
        self.reads += count

    def decide(self, decision: Decision[T]) -> T:
        return super().decide(lambda view: decision(CountedView(view, self._add)))


def test_the_last_of_many_rounds_that_fail_reads_no_others() -> None:
    reads = []
    for count in (3, 300):
        store = CountingStore()
        names = [f"n{number}" for number in range(count)]
        values = ", ".join(f'"{each}"' for each in names)
        bench = Bench(
            store, f"workflow W() andThen foreach x in [{values}] {{ s = Say(what = x) }}"
        )
        bench.claim()
        *others, last = reversed(names)
        for name in others:
            bench.evaluator.fail_task(bench.tasks[name], name)
        store.reads = 0
        bench.evaluator.fail_task(bench.tasks[last], last)
        reads.append(store.reads)
        assert bench.error["message"] == "n0"
    assert reads[0] == reads[1]


def test_where_one_step_failed_nothing_is_read_to_find_it() -> None:
    def reads_of_the_last(is_failed: bool) -> int:
        store = CountingStore()
        bench = Bench(store, TEXTS["a block"])
        bench.claim()
        bench.succeed("a")
        bench.succeed("b")
        store.reads = 0
        (bench.fail if is_failed else bench.succeed)("c")
        return store.reads

    assert reads_of_the_last(is_failed=True) == reads_of_the_last(is_failed=False)
