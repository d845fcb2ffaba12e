"""Results that are kept: what lets an evaluation go on where it was interrupted."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any, Protocol

from afl.db.drivers import driver_wanted
from afl.errors import ConfigurationError, UsageError
from afl.evals.requests import EvalResult
from afl.log import redact

_BACKENDS = {
    "sqlite": "afl.evals.sqlite_results",
    "postgresql": "afl.evals.postgres_results",
    "postgres": "afl.evals.postgres_results",
    "redis": "afl.evals.redis_results",
    "rediss": "afl.evals.redis_results",
}


class ResultStore(Protocol):
    """Each sample of an evaluation has one result for each experiment. The first score stays; an
    error, and the result of a request with another id, give way to what comes later.

    Methods may be called from any thread. They raise StoreUnavailable, StoreClosed.
    """

    def keep(self, result: EvalResult) -> EvalResult:
        """What is kept from now on: this result, or the score that was there before."""

    def find(self, evaluation_id: str, experiment: str, sample: str) -> EvalResult | None: ...

    def results(self, evaluation_id: str) -> list[EvalResult]:
        """All of an evaluation, by experiment and sample; none if nobody has heard of it."""

    def evaluations(self) -> list[str]:
        """Ids of evaluations with results, sorted."""

    def discard(self, evaluation_id: str) -> int:
        """Delete the results of an evaluation; how many it were."""

    def close(self) -> None:
        """May be called again."""


def require_evaluation(result: EvalResult) -> str:
    """Raises UsageError for a result that belongs to no evaluation."""
    if result.evaluation_id is None:
        raise UsageError(
            f"the result of sample {result.sample_id!r} belongs to no evaluation and cannot be "
            "kept; give its request an evaluation_id"
        )
    return result.evaluation_id


def is_final(kept: EvalResult, result: EvalResult) -> bool:
    """Whether what is kept stays, although there is a new result."""
    return kept.success and kept.request_id == result.request_id


class MemoryResults:
    """Kept as long as the process lives: for tests, and for who needs no going on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str, str], EvalResult] = {}

    def keep(self, result: EvalResult) -> EvalResult:
        key = (require_evaluation(result), result.experiment_name, result.sample_id)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or not is_final(kept, result):
                self._kept[key] = kept = result
            return kept

    def find(self, evaluation_id: str, experiment: str, sample: str) -> EvalResult | None:
        with self._lock:
            return self._kept.get((evaluation_id, experiment, sample))

    def results(self, evaluation_id: str) -> list[EvalResult]:
        with self._lock:
            return [self._kept[key] for key in sorted(self._kept) if key[0] == evaluation_id]

    def evaluations(self) -> list[str]:
        with self._lock:
            return sorted({key[0] for key in self._kept})

    def discard(self, evaluation_id: str) -> int:
        with self._lock:
            keys = [key for key in self._kept if key[0] == evaluation_id]
            for key in keys:
                del self._kept[key]
            return len(keys)

    def close(self) -> None: ...


def open_results(url: str) -> ResultStore:
    """The results at a URL, beside the mailboxes and runs that are there.

    Raises ConfigurationError for a URL that names no place, or if its driver is not installed;
    StoreUnavailable if the place cannot be reached.
    """
    if url.lower().startswith("memory:"):
        return MemoryResults()
    results: ResultStore = _backend(url).open_results(url)
    return results


def _backend(url: str) -> Any:
    module = _BACKENDS.get(url.partition(":")[0].lower()) if ":" in url else None
    if module is None:
        raise ConfigurationError(
            f"{redact(url)!r} is no place for results; expected memory:, sqlite:///path.db, "
            "postgresql://user@host/database or redis://host:6379/0"
        )
    with driver_wanted(url):
        return import_module(module)
