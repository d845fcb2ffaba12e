"""What is read along with tasks: all that their ends concern, and nothing that may be long."""

from __future__ import annotations

from afl.lang.compiler import compile_source
from afl.runtime.evaluator import Evaluator
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.postgres_store.steps import OF_TASKS
from afl.runtime.rows.steps import step_of

PROGRAM = compile_source(
    """namespace shop {
    event facet Pay(n: Long) => (n: Long)
    workflow Each(items: [Long]) => (n: [Long]) andThen foreach i in $.items {
        paid = Pay(n = i)
        yield Each(n = paid.n)
    }
}"""
)
PAY = ["shop.Pay"]


def test_the_end_of_a_round_does_not_read_what_all_rounds_are_about(store: PostgresStore) -> None:
    evaluator = Evaluator(store)
    run = evaluator.submit(PROGRAM, "shop.Each", {"items": [1, 2, 3]})
    root = store.get_workflow_root(run)
    assert root is not None
    first, second, third = store.claim_tasks(PAY, 3)
    assert root.id not in _around(store, first.uuid)
    assert root.id not in _around(store, first.uuid, second.uuid)
    # All of them end together, and the foreach with them.
    assert root.id in _around(store, first.uuid, second.uuid, third.uuid)
    for each in (first, second):
        evaluator.complete_task(each, {"n": 1})
    assert root.id in _around(store, third.uuid)


def _around(store: PostgresStore, *task_ids: str) -> set[str]:
    rows = store.database.read(lambda reader: reader.query_all(OF_TASKS, {"ids": list(task_ids)}))
    return {step_of(row).id for row in rows}
