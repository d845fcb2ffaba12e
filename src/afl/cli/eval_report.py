"""What came of an evaluation, as tables and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from afl.cli.common import counted

if TYPE_CHECKING:
    from afl.evals.report import EvalReport, ExperimentComparison
    from afl.evals.significance import Interval

#: Samples that did not pass and have a line; the others are counted.
_SHOWN = 20


def show_report(name: str, report: EvalReport, found: list[ExperimentComparison]) -> None:
    typer.echo(f"evaluation {name}\n")
    _show_experiments(report)
    if found:
        typer.echo("")
        _show_comparisons(found)
    _show_unpassed(report)
    if report.missing:
        typer.echo(f"\n{counted(report.missing, 'sample')} of {report.expected} have no result yet")


def _show_experiments(report: EvalReport) -> None:
    from afl.cli.tables import show_table, span

    columns = (
        "experiment",
        "passed",
        "rate",
        "95% interval",
        "score",
        "errors",
        "median",
        "tokens",
    )
    rows = [
        (
            name,
            f"{each.passed} of {each.total}",
            f"{each.pass_rate:.1%}",
            _range(each.pass_rate_interval()),
            f"{each.mean_score:.2f}",
            str(each.errors),
            span(each.latency_ms(0.5) / 1000),
            str(each.tokens),
        )
        for name, each in report.by_experiment().items()
    ]
    show_table(columns, rows, "There are no results.")


def _show_comparisons(found: list[ExperimentComparison]) -> None:
    from afl.cli.tables import show_table

    columns = ("compared with", "experiment", "samples", "delta", "improved", "worsened", "p", "")
    rows = [
        (
            each.baseline_name,
            each.treatment_name,
            str(each.samples),
            f"{each.pass_rate_delta:+.1%}",
            str(len(each.improved)),
            str(len(each.worsened)),
            f"{each.p_value:.3f}",
            _verdict(each),
        )
        for each in found
    ]
    show_table(columns, rows, "")
    for each in found:
        if each.unpaired:
            alone = f"only {each.baseline_name} or only {each.treatment_name} has"
            typer.echo(f"Not compared: {counted(each.unpaired, 'sample')} that {alone}.")


def _verdict(comparison: ExperimentComparison) -> str:
    if not comparison.is_significant():
        return "may be chance"
    return "better" if comparison.pass_rate_delta > 0 else "worse"


def _show_unpassed(report: EvalReport) -> None:
    from afl.cli.tables import cut, show_table

    unpassed = [each for each in report if not each.passed]
    if not unpassed:
        return
    rows = [
        (
            each.sample_id,
            each.experiment_name,
            "failed" if each.success else "error",
            cut(each.error or each.score.reason),
        )
        for each in unpassed[:_SHOWN]
    ]
    typer.echo("")
    show_table(("sample", "experiment", "", "reason"), rows, "")
    if len(unpassed) > _SHOWN:
        typer.echo(f"and {len(unpassed) - _SHOWN} more; --json has them all")


def _range(interval: Interval) -> str:
    return f"{interval.low:.1%} - {interval.high:.1%}"


def json_of(
    name: str,
    dataset: str,
    agent: str,
    report: EvalReport,
    found: list[ExperimentComparison],
) -> dict[str, Any]:
    """`--baseline` reads the results of it."""
    return {
        "evaluation": name,
        "dataset": dataset,
        "agent": agent,
        "missing": report.missing,
        "experiments": [_numbers(name, each) for name, each in report.by_experiment().items()],
        "comparisons": [_comparison(each) for each in found],
        "results": list(report.results),
    }


def _numbers(name: str, report: EvalReport) -> dict[str, Any]:
    return {
        "name": name,
        "samples": report.total,
        "passed": report.passed,
        "pass_rate": report.pass_rate,
        "pass_rate_interval": report.pass_rate_interval(),
        "mean_score": report.mean_score,
        "errors": report.errors,
        "error_rate": report.error_rate,
        "error_rate_interval": report.error_rate_interval(),
        "latency_ms": {"p50": report.latency_ms(0.5), "p95": report.latency_ms(0.95)},
        "tokens": report.tokens,
    }


def _comparison(comparison: ExperimentComparison) -> dict[str, Any]:
    return {
        "baseline": comparison.baseline_name,
        "experiment": comparison.treatment_name,
        "samples": comparison.samples,
        "unpaired": comparison.unpaired,
        "baseline_pass_rate": comparison.baseline_pass_rate,
        "pass_rate": comparison.treatment_pass_rate,
        "pass_rate_delta": comparison.pass_rate_delta,
        "improved": comparison.improved,
        "worsened": comparison.worsened,
        "p_value": comparison.p_value,
        "is_significant": comparison.is_significant(),
    }
