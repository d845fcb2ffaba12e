from __future__ import annotations

import pytest

from afl.errors import UsageError
from afl.evals import EvalReport, EvalResult, Score, compare


def result(
    sample: str, value: float = 1.0, *, error: str | None = None, experiment: str = "a", ms: int = 0
) -> EvalResult:
    score = Score(0 if error else value, value > 0.5 and not error)
    return EvalResult(sample, experiment, score, ms, error, tokens=5)


def test_samples_without_a_score_have_not_passed() -> None:
    report = EvalReport([result("1"), result("2", 0.5), result("3", error="crashed"), result("4")])
    assert (report.total, report.successful, report.errors, report.passed) == (4, 3, 1, 2)
    assert report.pass_rate == 0.5
    assert report.error_rate == 0.25
    assert report.mean_score == 2.5 / 4
    assert [each.sample_id for each in report.failed_samples()] == ["2"]
    assert [each.sample_id for each in report.error_samples()] == ["3"]
    assert report.tokens == 20


def test_an_agent_that_only_crashes_passes_nothing() -> None:
    report = EvalReport([result("1", error="crashed")])
    assert (report.pass_rate, report.error_rate) == (0.0, 1.0)


def test_rates_have_intervals() -> None:
    report = EvalReport([result(str(n), error="no" if n < 2 else None) for n in range(10)])
    low, high = report.pass_rate_interval()
    assert 0.4 < low < 0.8 < high < 1
    low, high = report.error_rate_interval()
    assert 0 < low < 0.2 < high < 0.6


def test_a_report_of_nothing_is_all_zero() -> None:
    report = EvalReport([])
    assert (report.pass_rate, report.error_rate, report.mean_score) == (0, 0, 0)
    assert (report.mean_latency_ms, report.latency_ms(0.5)) == (0, 0)


def test_a_report_says_how_many_results_are_missing() -> None:
    assert EvalReport([result("1")], 3).missing == 2
    assert EvalReport([result("1")]).missing == 0


def test_latencies_are_those_of_samples_with_a_score() -> None:
    report = EvalReport(
        [result(str(n), ms=n * 10) for n in range(1, 11)] + [result("x", error="e", ms=90_000)]
    )
    assert report.mean_latency_ms == 55
    assert report.latency_ms(0.5) == 55
    assert 90 < report.latency_ms(0.95) <= 100
    assert EvalReport([result("1", ms=7)]).latency_ms(0.95) == 7


def test_experiments_are_told_apart() -> None:
    report = EvalReport(
        [result("1"), result("1", 0, experiment="b"), result("2"), result("2", experiment="b")]
    )
    assert report.experiments == ["a", "b"]
    assert report.pass_rate_by_experiment() == {"a": 1.0, "b": 0.5}
    assert report.mean_score_by_experiment() == {"a": 1.0, "b": 0.5}
    assert [len(each) for each in report.by_experiment().values()] == [2, 2]
    with pytest.raises(UsageError, match="'c', only of a, b"):
        report.of_experiment("c")


def test_a_comparison_says_what_got_better_and_what_worse() -> None:
    before = [result("1", 0), result("2"), result("3", 0), result("only here")]
    after = [result(each, experiment="b") for each in ("1", "3")] + [
        result("2", error="crashed", experiment="b")
    ]
    comparison = EvalReport(before + after).compare_experiments("a", "b")
    assert (comparison.improved, comparison.worsened) == (("1", "3"), ("2",))
    assert (comparison.samples, comparison.unpaired) == (3, 1)
    assert comparison.baseline_pass_rate == pytest.approx(1 / 3)
    assert comparison.treatment_pass_rate == pytest.approx(2 / 3)
    assert comparison.pass_rate_delta == pytest.approx(1 / 3)
    assert comparison.relative_improvement == pytest.approx(1.0)
    assert not comparison.is_significant()


def test_a_clear_difference_is_significant() -> None:
    before = EvalReport([result(str(n), 0) for n in range(10)])
    after = EvalReport([result(str(n)) for n in range(10)])
    comparison = compare(before, after)
    assert comparison.is_significant()
    assert not comparison.is_significant(alpha=0.001)
    assert comparison.relative_improvement is None


def test_different_samples_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="no samples in common"):
        compare(EvalReport([result("1")]), EvalReport([result("2")]))
