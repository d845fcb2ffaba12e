"""Results in a SQLite file, which mailboxes and stores share."""

from __future__ import annotations

import os
import threading

from afl.db.migrations import Migration, history, migrate
from afl.db.sqlite import Transaction, open_database
from afl.evals.requests import EvalResult, read, written
from afl.evals.results import require_evaluation

MIGRATIONS = history(
    Migration(
        1,
        "results of evaluations",
        (
            """\
CREATE TABLE eval_result (
    evaluation TEXT NOT NULL,
    experiment TEXT NOT NULL,
    sample TEXT NOT NULL,
    request TEXT NOT NULL,
    is_error INTEGER NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (evaluation, experiment, sample)
) STRICT, WITHOUT ROWID""",
        ),
    )
)

# That a score is final is said here, in the write itself: two processes may have the same sample.
_KEEP = """\
INSERT INTO eval_result (evaluation, experiment, sample, request, is_error, result)
VALUES (:evaluation, :experiment, :sample, :request, :is_error, :result)
ON CONFLICT (evaluation, experiment, sample) DO UPDATE SET
    request = excluded.request, is_error = excluded.is_error, result = excluded.result
WHERE is_error OR request <> excluded.request"""
_FIND = "SELECT result FROM eval_result WHERE evaluation = ? AND experiment = ? AND sample = ?"
_RESULTS = "SELECT result FROM eval_result WHERE evaluation = ? ORDER BY experiment, sample"
_EVALUATIONS = "SELECT DISTINCT evaluation FROM eval_result ORDER BY evaluation"
_DISCARD = "DELETE FROM eval_result WHERE evaluation = ?"


class SqliteResults:
    """Raises what `afl.db.sqlite.open_database` raises, and NewerSchema."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._database = open_database(address)
        try:
            migrate(self._database, "evals", MIGRATIONS)
        except BaseException:
            self._database.close()
            raise

    def keep(self, result: EvalResult) -> EvalResult:
        key = (require_evaluation(result), result.experiment_name, result.sample_id)
        facts = {
            **dict(zip(("evaluation", "experiment", "sample"), key, strict=True)),
            "request": result.request_id,
            "is_error": int(not result.success),
            "result": written(result),
        }

        def change(tx: Transaction) -> bytes:
            tx.execute(_KEEP, facts)
            row = tx.query_one(_FIND, key)
            assert row is not None, "it was just written"
            return bytes(row[0])

        return read(self._database.write(change))

    def find(self, evaluation_id: str, experiment: str, sample: str) -> EvalResult | None:
        key = (evaluation_id, experiment, sample)
        row = self._database.read(lambda reader: reader.query_one(_FIND, key))
        return None if row is None else read(bytes(row[0]))

    def results(self, evaluation_id: str) -> list[EvalResult]:
        rows = self._database.read(lambda reader: reader.query_all(_RESULTS, (evaluation_id,)))
        return [read(bytes(row[0])) for row in rows]

    def evaluations(self) -> list[str]:
        rows = self._database.read(lambda reader: reader.query_all(_EVALUATIONS))
        return [str(row[0]) for row in rows]

    def discard(self, evaluation_id: str) -> int:
        return self._database.write(lambda tx: tx.execute(_DISCARD, (evaluation_id,)))

    def close(self) -> None:
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._database.close()


def open_results(url: str) -> SqliteResults:
    return SqliteResults(url)
