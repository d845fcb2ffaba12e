"""What came of an evaluation, in numbers.

A sample without a score has not passed: an agent that crashes is not better than one that is
wrong. How many there are is the error rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

from afl.errors import UsageError
from afl.evals.requests import EvalResult
from afl.evals.significance import Interval, paired_p_value, wilson

#: Differences that chance makes less often than this are significant.
ALPHA = 0.05


@dataclass(frozen=True)
class EvalReport:
    """`expected` is how many results were asked for, if somebody knows."""

    results: Sequence[EvalResult]
    expected: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", tuple(self.results))

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[EvalResult]:
        return iter(self.results)

    @property
    def total(self) -> int:
        return len(self.results)

    @property
    def missing(self) -> int:
        """Results that were asked for and are not here."""
        return max((self.expected or 0) - self.total, 0)

    @property
    def successful(self) -> int:
        """Samples with a score."""
        return sum(each.success for each in self.results)

    @property
    def errors(self) -> int:
        """Samples without a score."""
        return self.total - self.successful

    @property
    def passed(self) -> int:
        return sum(each.passed for each in self.results)

    @property
    def pass_rate(self) -> float:
        return _share(self.passed, self.total)

    @property
    def error_rate(self) -> float:
        return _share(self.errors, self.total)

    @property
    def mean_score(self) -> float:
        """Of all samples; those without a score count 0."""
        return _share(sum(each.score.value for each in self.results if each.success), self.total)

    @property
    def mean_latency_ms(self) -> float:
        """Of samples with a score."""
        return _share(sum(self._latencies), len(self._latencies))

    def latency_ms(self, share: float) -> float:
        """So many of the samples with a score were as fast: 0.5 is the median."""
        found = sorted(self._latencies)
        if len(found) < 2:
            return float(found[0]) if found else 0.0
        cuts = quantiles(found, n=100, method="inclusive")
        return cuts[min(max(round(share * 100), 1), 99) - 1]

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.results)

    def pass_rate_interval(self, confidence: float = 0.95) -> Interval:
        """Where the pass rate of the agent lies, as far as these samples tell."""
        return wilson(self.passed, self.total, confidence)

    def error_rate_interval(self, confidence: float = 0.95) -> Interval:
        return wilson(self.errors, self.total, confidence)

    def failed_samples(self) -> list[EvalResult]:
        """Those with a score that did not pass."""
        return [each for each in self.results if each.success and not each.passed]

    def error_samples(self) -> list[EvalResult]:
        """Those without a score."""
        return [each for each in self.results if not each.success]

    # Experiments

    @property
    def experiments(self) -> list[str]:
        """Their names, in the order of their first results."""
        return list(dict.fromkeys(each.experiment_name for each in self.results))

    def by_experiment(self) -> dict[str, EvalReport]:
        return {name: self.of_experiment(name) for name in self.experiments}

    def of_experiment(self, name: str) -> EvalReport:
        """Raises UsageError if there are no results of it."""
        found = [each for each in self.results if each.experiment_name == name]
        if not found:
            raise UsageError(
                f"there are no results of the experiment {name!r}, only of "
                f"{', '.join(self.experiments) or 'none'}"
            )
        return EvalReport(found)

    def pass_rate_by_experiment(self) -> dict[str, float]:
        return {name: each.pass_rate for name, each in self.by_experiment().items()}

    def mean_score_by_experiment(self) -> dict[str, float]:
        return {name: each.mean_score for name, each in self.by_experiment().items()}

    def compare_experiments(self, baseline: str, treatment: str) -> ExperimentComparison:
        """Raises UsageError if they have no samples in common."""
        return compare(
            self.of_experiment(baseline),
            self.of_experiment(treatment),
            baseline_name=baseline,
            treatment_name=treatment,
        )

    @property
    def _latencies(self) -> list[int]:
        return [each.latency_ms for each in self.results if each.success]


@dataclass(frozen=True)
class ExperimentComparison:
    """Two experiments, or two evaluations, on the samples that both have."""

    baseline_name: str
    treatment_name: str
    #: That both have.
    samples: int
    baseline_pass_rate: float
    treatment_pass_rate: float
    #: Ids of samples that passed only with the treatment, and only with the baseline.
    improved: tuple[str, ...]
    worsened: tuple[str, ...]
    #: Samples that only one of them has.
    unpaired: int = 0

    @property
    def pass_rate_delta(self) -> float:
        return self.treatment_pass_rate - self.baseline_pass_rate

    @property
    def relative_improvement(self) -> float | None:
        """The delta as a share of the baseline; None if nothing passed there."""
        return self.pass_rate_delta / self.baseline_pass_rate if self.baseline_pass_rate else None

    @property
    def p_value(self) -> float:
        """How likely chance alone makes such a difference."""
        return paired_p_value(len(self.improved), len(self.worsened))

    def is_significant(self, alpha: float = ALPHA) -> bool:
        return self.p_value < alpha


def compare(
    baseline: EvalReport,
    treatment: EvalReport,
    *,
    baseline_name: str = "baseline",
    treatment_name: str = "treatment",
) -> ExperimentComparison:
    """Compare what became of the same samples. Raises UsageError if there are none."""
    before = {each.sample_id: each.passed for each in baseline}
    after = {each.sample_id: each.passed for each in treatment}
    common = [each for each in after if each in before]
    if not common:
        raise UsageError(f"{baseline_name} and {treatment_name} have no samples in common")
    return ExperimentComparison(
        baseline_name,
        treatment_name,
        len(common),
        _share(sum(before[each] for each in common), len(common)),
        _share(sum(after[each] for each in common), len(common)),
        tuple(each for each in common if after[each] and not before[each]),
        tuple(each for each in common if before[each] and not after[each]),
        len(before.keys() ^ after.keys()),
    )


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
