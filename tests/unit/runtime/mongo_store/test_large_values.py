"""A document has at most 16 MB. What is kept in several may be more than that together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pymongo
import pytest

from afl.errors import StoreMisused
from afl.lang.compiler import compile_source
from afl.runtime.entities import LogDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import Claim
from afl.runtime.types import StepId
from afl.testing.servers import MongoServer

PROGRAM = compile_source(
    """namespace shop {
    event facet Print(text: String) => (pages: Long)
    workflow Publish(text: String) => (pages: Long) andThen {
        printed = Print(text = $.text)
        yield Publish(pages = printed.pages)
    }
}"""
)
#: In the run, in the step, in its task and in the workflow: three of them are too large together.
LARGE = "x" * (6 * 1024 * 1024)
End = Callable[[Evaluator, TaskDefinition], object]


@pytest.fixture(scope="module")
def large_server() -> Iterator[str]:
    """One with room for this: in a small cache, large commits get into each other's way."""
    with MongoServer() as server:
        with pymongo.MongoClient[dict[str, object]](server.url) as client:
            client.admin.command("setParameter", 1, wiredTigerEngineRuntimeConfig="cache_size=1G")
        yield server.url


@pytest.fixture
def store(large_server: str) -> Iterator[MongoStore]:
    with MongoStore(large_server) as opened:
        yield opened


def complete(evaluator: Evaluator, task: TaskDefinition) -> None:
    evaluator.complete_task(task, {"pages": 7})


def fail(evaluator: Evaluator, task: TaskDefinition) -> None:
    evaluator.fail_task(task, "no paper")


def dead_letter(evaluator: Evaluator, task: TaskDefinition) -> None:
    evaluator.dead_letter_task(task, "nobody could print it")


def discard(evaluator: Evaluator, task: TaskDefinition) -> None:
    evaluator.persistence.release_task(Claim(task.uuid, task.fence))
    evaluator.discard_task(task.uuid)


@pytest.mark.parametrize(
    ("end", "state", "run_state"),
    [
        (complete, TaskState.COMPLETED, RunnerState.COMPLETED),
        (fail, TaskState.FAILED, RunnerState.FAILED),
        (dead_letter, TaskState.DEAD_LETTER, RunnerState.FAILED),
        (discard, TaskState.IGNORED, RunnerState.FAILED),
    ],
)
def test_a_task_with_a_large_value_ends(
    store: MongoStore, end: End, state: TaskState, run_state: RunnerState
) -> None:
    evaluator = Evaluator(store)
    run_id = evaluator.submit(PROGRAM, "shop.Publish", {"text": LARGE})
    (task,) = store.claim_tasks(["Print"], 1)
    end(evaluator, task)
    stored, run = store.get_task(task.uuid), store.get_run(run_id)
    assert stored is not None
    assert run is not None
    assert (stored.state, run.state) == (state, run_state)


def test_a_step_with_a_large_value_is_retried(store: MongoStore) -> None:
    evaluator = Evaluator(store)
    run_id = evaluator.submit(PROGRAM, "shop.Publish", {"text": LARGE})
    (task,) = store.claim_tasks(["Print"], 1)
    fail(evaluator, task)
    evaluator.retry_step(StepId(task.step_id))
    (again,) = store.claim_tasks(["Print"], 1)
    complete(evaluator, again)
    assert evaluator.result(run_id).outputs == {"pages": 7}


@pytest.mark.parametrize("megabytes", [17, 60])
def test_a_value_that_is_too_large_is_refused_with_what_to_do(
    store: MongoStore, megabytes: int
) -> None:
    """The server refuses what is a little too large; what is more the driver does not even send."""
    text = "x" * (megabytes * 1024 * 1024)
    with pytest.raises(StoreMisused, match=r"larger than 16 MB.*keep large values elsewhere"):
        Evaluator(store).submit(PROGRAM, "shop.Publish", {"text": text})
    with pytest.raises(StoreMisused, match=r"larger than 16 MB.*keep large values elsewhere"):
        store.save_log(LogDefinition("log", 0, "run", message=text))
