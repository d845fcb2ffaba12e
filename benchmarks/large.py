"""Much to look at: a run with many steps, and a store with many runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from afl.operations.texts import compile_text
from afl.runtime.evaluator import Evaluator
from afl.runtime.sql_store import SqliteStore
from afl.runtime.types import StepId, WorkflowId

PROGRAM = """
namespace big

schema Item { n: Long }

event facet Do(n: Long) => (m: Long)

workflow Many(items: [Item]) => (all: [Long]) andThen foreach item in $.items {
    one = Do(n = item.n)
    two = Do(n = item.n)
    yield Many(all = one.m)
}

workflow Few(n: Long) => (m: Long) andThen {
    one = Do(n = $.n)
    yield Few(m = one.m)
}
"""


def large_run(evaluator: Evaluator, steps: int) -> str:
    """Each round has a block and two steps that wait for a handler."""
    program = compile_text(PROGRAM).require()
    items = [{"n": number} for number in range(-(-steps // 3))]
    return evaluator.submit(program, "big.Many", {"items": items})


def many_runs(path: Path, runs: int) -> None:
    """A store with so many runs of a step each, most of them over. Four are real, and the others
    copies of their rows: submitting them all would take minutes."""
    with closing(SqliteStore(f"sqlite:///{path}")) as store:
        _real_runs(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, ids in (("run", ("uuid", "workflow_id")), ("task", ("uuid", "workflow_id"))):
            _copy(connection, table, ids, runs // 4 - 1)


def _real_runs(store: SqliteStore) -> None:
    """Completed, failed, cancelled and running."""
    evaluator, program = Evaluator(store), compile_text(PROGRAM).require()
    done, failed, cancelled, _ = (evaluator.submit(program, "big.Few", {"n": 1}) for _ in range(4))
    evaluator.continue_step(_step_of(store, done), {"m": 1})
    evaluator.fail_step(_step_of(store, failed), "no luck")
    evaluator.cancel(WorkflowId(cancelled))


def _step_of(store: SqliteStore, run: str) -> StepId:
    (task,) = store.get_tasks_by_runner(run)
    return StepId(task.step_id)


def _copy(connection: sqlite3.Connection, table: str, ids: tuple[str, ...], times: int) -> None:
    columns = [each[1] for each in connection.execute(f"PRAGMA table_info({table})")]
    names = [f'"{each}"' for each in columns if each != "seq"]
    # The beginning of an id is what people search for: it differs from copy to copy.
    copied = [f"printf('%08x', n) || substr({each}, 9)" if each.strip('"') in ids else each
              for each in names]  # fmt: skip
    connection.execute(
        "WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?) "
        f"INSERT INTO {table} ({', '.join(names)}) "
        f"SELECT {', '.join(copied)} FROM {table}, copies WHERE seq <= 4",
        [times],
    )
