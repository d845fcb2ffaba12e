"""Results in PostgreSQL."""

from __future__ import annotations

import threading

from afl.db.migrations import Migration, history
from afl.db.postgres import Cursor, PostgresDatabase, migrate, open_postgres
from afl.evals.requests import EvalResult, read, written
from afl.evals.results import require_evaluation

MIGRATIONS = history(
    Migration(
        1,
        "results of evaluations",
        (
            """\
CREATE TABLE afl_eval_result (
    evaluation text NOT NULL,
    experiment text NOT NULL,
    sample text NOT NULL,
    request text NOT NULL,
    is_error boolean NOT NULL,
    result bytea NOT NULL,
    PRIMARY KEY (evaluation, experiment, sample)
)""",
        ),
    )
)

# That a score is final is said here, in the write itself: two processes may have the same sample.
_KEEP = """\
INSERT INTO afl_eval_result AS kept (evaluation, experiment, sample, request, is_error, result)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (evaluation, experiment, sample) DO UPDATE SET
    request = excluded.request, is_error = excluded.is_error, result = excluded.result
WHERE kept.is_error OR kept.request <> excluded.request"""
_FIND = """\
SELECT result FROM afl_eval_result WHERE evaluation = %s AND experiment = %s AND sample = %s"""
# Sorted as everywhere else, whatever the language of the database is.
_RESULTS = """\
SELECT result FROM afl_eval_result WHERE evaluation = %s
ORDER BY experiment COLLATE "C", sample COLLATE "C\""""
_EVALUATIONS = "SELECT DISTINCT evaluation FROM afl_eval_result"
_DISCARD = """\
WITH gone AS (DELETE FROM afl_eval_result WHERE evaluation = %s RETURNING 1)
SELECT count(*) FROM gone"""


class PostgresResults:
    """`database` is let go of when this is closed. Raises NewerSchema."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._database = database
        try:
            migrate(database, "evals", MIGRATIONS)
        except BaseException:
            database.close()
            raise

    def keep(self, result: EvalResult) -> EvalResult:
        key = (require_evaluation(result), result.experiment_name, result.sample_id)
        facts = (*key, result.request_id, not result.success, written(result))

        def change(cursor: Cursor) -> bytes:
            cursor.execute(_KEEP, facts)
            row = cursor.execute(_FIND, key).fetchone()
            assert row is not None, "it was just written"
            return bytes(row[0])

        return read(self._database.transact(change))

    def find(self, evaluation_id: str, experiment: str, sample: str) -> EvalResult | None:
        rows = self._database.query(_FIND, (evaluation_id, experiment, sample))
        return read(bytes(rows[0][0])) if rows else None

    def results(self, evaluation_id: str) -> list[EvalResult]:
        rows = self._database.query(_RESULTS, (evaluation_id,))
        return [read(bytes(row[0])) for row in rows]

    def evaluations(self) -> list[str]:
        return sorted(str(row[0]) for row in self._database.query(_EVALUATIONS))

    def discard(self, evaluation_id: str) -> int:
        return int(self._database.query(_DISCARD, (evaluation_id,))[0][0])

    def close(self) -> None:
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._database.close()


def open_results(url: str) -> PostgresResults:
    return PostgresResults(open_postgres(url))
