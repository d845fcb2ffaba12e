"""Claims of many at once, by the clock of the server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.unit.runtime.postgres_store.conftest import Opened

from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import IterationChanges
from afl.runtime.postgres_store import PostgresStore
from afl.testing.contracts.store.exam import add_tasks, new_task

TASKS, WORKERS = 400, 8


def test_a_claim_that_is_younger_than_the_look_is_not_taken_over(
    store: PostgresStore, opened: Opened
) -> None:
    """Those who look for work in the same moment see the same tasks, and times differ a little."""
    store.commit(IterationChanges(created_tasks=[new_task() for _ in range(TASKS)]))

    def work(mine: PostgresStore) -> list[TaskDefinition]:
        taken: list[TaskDefinition] = []
        while len(store.get_pending_tasks()):
            taken += mine.claim_tasks(["Pay"], 3)
        return taken

    stores = [opened() for _ in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        claims = [each for taken in pool.map(work, stores) for each in taken]
    assert len(claims) == TASKS
    assert {each.fence for each in claims} == {1}


def test_two_tasks_of_a_step_are_not_claimed_by_two_at_once(
    store: PostgresStore, opened: Opened
) -> None:
    for number in range(50):
        add_tasks(store, *(new_task(step_id=f"step-{number}") for _ in range(4)))
    stores = [opened() for _ in range(4)]

    def work(mine: PostgresStore) -> list[str]:
        return [each.step_id for _ in range(30) for each in mine.claim_tasks(["Pay"], 2)]

    with ThreadPoolExecutor(4) as pool:
        steps = [each for taken in pool.map(work, stores) for each in taken]
    assert sorted(steps) == sorted({f"step-{number}" for number in range(50)})


def test_time_is_that_of_the_server(store: PostgresStore) -> None:
    row = store.database.query("SELECT extract(epoch FROM clock_timestamp()) * 1000")[0]
    assert abs(store.now_ms() - float(row[0])) < 60_000
    add_tasks(store, new_task())
    (task,) = store.claim_tasks(["Pay"], 1, lease_ms=1000)
    assert task.lease_expires == task.updated + 1000
    assert float(row[0]) - 1 <= task.updated <= store.now_ms()
