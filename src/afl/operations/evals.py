"""Evaluating an agent in this process: what is asked for, how it goes on, what came of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from afl.agents.experiment import Experiment
from afl.errors import NotFound, UsageError
from afl.evals.dataset import Dataset
from afl.evals.evaluators import Evaluator
from afl.evals.loop import EvalLoop
from afl.evals.report import EvalReport, ExperimentComparison, compare
from afl.evals.requests import EvalRequest, EvalResult, eval_result_of, failed_result, read
from afl.evals.results import ResultStore
from afl.evals.submitting import requests_for, unfinished
from afl.loops.agent_loop import AgentLoop
from afl.mailbox.api import MAX_MESSAGES
from afl.mailbox.memory import InMemoryMailbox

# Baselines


@dataclass(frozen=True)
class Baseline:
    """What an evaluation is compared with."""

    name: str
    #: Empty if it is an experiment of the same evaluation, which has the results.
    report: EvalReport
    is_own: bool = False


def require_baseline(text: str, evaluation: Evaluation, results: ResultStore) -> Baseline:
    """What the evaluation can be compared with once it is complete. Raises NotFound, UsageError
    if it cannot be."""
    requests = requests_for(evaluation.dataset, evaluation.experiments)
    planned = EvalReport([failed_result(each, "not done yet") for each in requests])
    baseline = find_baseline(text, planned, results)
    comparisons(planned, baseline)
    return baseline


def find_baseline(text: str, report: EvalReport, results: ResultStore) -> Baseline:
    """An experiment of the report itself, a file that `afl eval --json` wrote, or the name of
    another evaluation. Raises NotFound, UsageError."""
    if _is_own(text, report.experiments):
        return Baseline(text, EvalReport(()), is_own=True)
    if Path(text).is_file():
        return Baseline(text, EvalReport(_read_results(Path(text))))
    kept = results.results(text)
    if not kept:
        raise NotFound(
            f"there is no baseline {text!r}: neither an experiment of this evaluation, nor a "
            "file, nor an evaluation in the store"
        )
    return Baseline(text, EvalReport(kept))


def _is_own(text: str, experiments: Sequence[str]) -> bool:
    # The only experiment has nothing to be compared with but what is elsewhere.
    return text in experiments and len(experiments) > 1


def _read_results(path: Path) -> list[EvalResult]:
    try:
        content = msgspec.json.decode(path.read_bytes())
        return [read(each) for each in content["results"]]
    except (OSError, KeyError, TypeError, msgspec.MsgspecError) as problem:
        raise UsageError(
            f"{path} is no baseline; write one with `afl eval --json`: {problem}"
        ) from None


def comparisons(report: EvalReport, baseline: Baseline) -> list[ExperimentComparison]:
    """Each experiment of the report with the baseline. A baseline of several experiments is
    compared by their names. Raises UsageError if that cannot be."""
    before = report.of_experiment(baseline.name) if baseline.is_own else baseline.report
    is_several = len(before.experiments) > 1
    return [
        compare(
            before.of_experiment(name) if is_several else before,
            each,
            baseline_name=baseline.name,
            treatment_name=name,
        )
        for name, each in report.by_experiment().items()
        if not (baseline.is_own and name == baseline.name)
    ]


# Evaluating


@dataclass(frozen=True)
class Evaluation:
    """What is to be found out. The same name is the same evaluation: it goes on."""

    name: str
    agent: AgentLoop[Any, Any]
    evaluator: Evaluator
    dataset: Dataset[Any, Any]
    experiments: Sequence[Experiment]
    concurrency: int = 8
    #: The longest time that a sample may go without a sign of progress, in whole seconds.
    patience_s: int = 300
    #: Whether samples that ended in an error are tried again.
    retry_errors: bool = False
    #: As results say it; empty if nobody needs to know.
    agent_name: str = ""
    evaluator_name: str = ""


class LocalEvaluation:
    """An evaluation in this process. Enter it, then ask for results until it `is_over`.

    What was kept before is not done again. `request_stop` lets the samples in hand be finished,
    `abort` gives them up; what has a result is kept either way.

    Raises UsageError if what was kept is of another agent or evaluator.
    """

    def __init__(self, evaluation: Evaluation, results: ResultStore) -> None:
        _require_same(evaluation, results.results(evaluation.name))
        self._results = results
        self._wanted = requests_for(evaluation.dataset, evaluation.experiments, evaluation.name)
        self._pending = unfinished(self._wanted, results, retry_errors=evaluation.retry_errors)
        self._patience_s = evaluation.patience_s
        self._requests: InMemoryMailbox[EvalRequest[Any, Any], EvalResult] = InMemoryMailbox(
            f"evaluation {evaluation.name}"
        )
        self._answers: InMemoryMailbox[EvalResult, Any] = InMemoryMailbox()
        self._loop = EvalLoop(
            loop=evaluation.agent,
            evaluator=evaluation.evaluator,
            requests=self._requests,
            responses=self._answers,
            results=results,
            concurrency=evaluation.concurrency,
            name=self._requests.name,
            agent_name=evaluation.agent_name,
            evaluator_name=evaluation.evaluator_name,
        )
        self._thread = threading.Thread(target=self._run, name="loop-worker-eval", daemon=True)
        self._problem: BaseException | None = None
        self._answered: set[str] = set()

    @property
    def total(self) -> int:
        return len(self._wanted)

    @property
    def done(self) -> int:
        """Samples with a result, of this time and before."""
        return self.total - len(self._pending) + len(self._answered)

    @property
    def in_flight(self) -> int:
        return self._loop.in_flight

    def __enter__(self) -> LocalEvaluation:
        for each in self._pending:
            self._requests.send(each)
        if self._pending:
            self._loop.expect_run()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abort()
        if self._thread.ident is not None:
            self._thread.join()

    def next_results(self, timeout: float) -> list[EvalResult]:
        """Those that came, after at most so many seconds. Raises what ended the loop."""
        messages = self._answers.receive(max_messages=MAX_MESSAGES, wait_time_seconds=timeout)
        found = [eval_result_of(each) for each in messages]
        for each in messages:
            each.acknowledge()
        self._answered |= {each.request_id for each in found}
        if len(self._answered) == len(self._pending):
            self.request_stop()
        if self._problem is not None:
            raise self._problem
        return found

    @property
    def is_over(self) -> bool:
        """Whether no results will come any more."""
        return not self._thread.is_alive() and not self._answers.approximate_count()

    @property
    def is_complete(self) -> bool:
        return self.done == self.total

    def request_stop(self) -> None:
        self._loop.request_stop()

    def abort(self) -> None:
        self._loop.request_stop()
        self._loop.checkpoint()

    def report(self) -> EvalReport:
        """What is known so far, in the order of the dataset."""
        name = self._wanted[0].evaluation_id
        assert name is not None, "all belong to one"
        kept = {each.request_id: each for each in self._results.results(name)}
        found = [kept[each.request_id] for each in self._wanted if each.request_id in kept]
        return EvalReport(found, self.total)

    def _run(self) -> None:
        try:
            self._loop.run(visibility_timeout=self._patience_s)
        except BaseException as problem:  # told by `next_results`
            self._problem = problem


def _require_same(evaluation: Evaluation, kept: Sequence[EvalResult]) -> None:
    for what, name, known in (
        ("agent", evaluation.agent_name, {each.agent for each in kept}),
        ("evaluator", evaluation.evaluator_name, {each.evaluator for each in kept}),
    ):
        others = sorted(known - {name, ""})
        if name and others:
            raise UsageError(
                f"the evaluation {evaluation.name!r} has results with the {what} {others[0]}: go "
                f"on with that one, or give another --name to evaluate with {name}"
            )
