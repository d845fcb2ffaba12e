"""`afl eval`: find out how good an agent is, on the samples of a dataset."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import INTERRUPTED, OK, PROBLEMS, Json, settings
from afl.cli.streams import output_aside

if TYPE_CHECKING:
    from afl.evals.report import EvalReport, ExperimentComparison
    from afl.operations.evals import Evaluation


def eval_(
    context: typer.Context,
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="A file with one sample as JSON on each line.")
    ],
    agent: Annotated[
        str,
        typer.Option(
            "--agent", metavar="MODULE:LOOP", help="An AgentLoop, or a function that answers."
        ),
    ],
    evaluator: Annotated[
        str,
        typer.Option(
            "--evaluator",
            metavar="NAME",
            help="exact_match, contains, matches, or one of your own as MODULE:NAME.",
        ),
    ] = "exact_match",
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            "--experiment",
            metavar="NAME[,FLAG=VALUE…]",
            help="A variant of the agent to try; NAME@TAG names versions of prompts.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="The same name again is the same evaluation: it goes on."
        ),
    ] = None,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Try samples that ended in an error again.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="NAME|FILE",
            help="Compare with an experiment, another evaluation, or what --json has printed.",
        ),
    ] = None,
    min_pass_rate: Annotated[
        float | None,
        typer.Option(
            "--min-pass-rate",
            metavar="SHARE",
            min=0,
            max=1,
            help="Fail if an experiment passes fewer samples: 0.9 is nine of ten.",
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="Samples at the same time.")
    ] = 8,
    patience: Annotated[
        str,
        typer.Option(
            "--patience",
            metavar="DURATION",
            help="The longest time that a sample may go without a sign of progress.",
        ),
    ] = "5m",
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Where the results are kept.")
    ] = None,
    json: Json = False,
) -> None:
    """Let an agent do the samples of a dataset, and score it. Results are kept as they come: an
    evaluation that was interrupted goes on with --name."""
    from afl.ids import new_id

    url = store or settings(context).store.url
    request = _Request(dataset, agent, evaluator, experiment or [], name or new_id(), url)
    # What the agent prints is not the result.
    with output_aside():
        evaluation = _prepared(request, concurrency, patience, retry_errors)
        report, found, is_complete = _done(request, evaluation, baseline)
    _show(request, report, found, json)
    code = _code(report, is_complete, min_pass_rate)
    if not is_complete:
        _tell_how_to_go_on(request)
    if code != OK:
        raise typer.Exit(code)


@dataclass(frozen=True)
class _Request:
    """What was asked for, as it was written."""

    dataset: str
    agent: str
    evaluator: str
    experiments: list[str]
    name: str
    url: str


def _prepared(request: _Request, concurrency: int, patience: str, retry_errors: bool) -> Evaluation:
    """Everything that can be wrong is found here, before anything starts."""
    from afl.backoff import parse_duration
    from afl.operations import eval_names, evals

    agent = eval_names.load_agent(request.agent)
    return evals.Evaluation(
        request.name,
        agent,
        eval_names.load_evaluator(request.evaluator),
        eval_names.load_dataset(request.dataset, agent),
        eval_names.load_experiments(request.experiments, agent),
        concurrency,
        max(round(parse_duration(patience)), 1),
        retry_errors,
        request.agent,
        request.evaluator,
    )


def _done(
    request: _Request, evaluation: Evaluation, baseline: str | None
) -> tuple[EvalReport, list[ExperimentComparison], bool]:
    """Do it as far as it goes; what came of it, and whether that is all."""
    from afl.cli.eval_progress import progress_of, watch
    from afl.evals import open_results
    from afl.operations import evals

    with closing(open_results(request.url)) as results:
        local = evals.LocalEvaluation(evaluation, results)
        # What cannot be compared is better found before hours of work.
        before = None if baseline is None else evals.require_baseline(baseline, evaluation, results)
        # Whoever kills this process wants to know what to go on with.
        typer.echo(f"evaluation {request.name}", err=True)
        with progress_of(local) as display, local:
            watch(local, display)
        report = local.report()
        found: list[ExperimentComparison] = []
        if before is not None and local.is_complete:
            found = evals.comparisons(report, before)
        return report, found, local.is_complete


def _show(
    request: _Request, report: EvalReport, found: list[ExperimentComparison], as_json: bool
) -> None:
    from afl.cli.common import write_json
    from afl.cli.eval_report import json_of, show_report

    if as_json:
        write_json(json_of(request.name, request.dataset, request.agent, report, found))
    else:
        show_report(request.name, report, found)


def _code(report: EvalReport, is_complete: bool, min_pass_rate: float | None) -> int:
    if not is_complete:
        return INTERRUPTED
    low = {
        name: rate
        for name, rate in report.pass_rate_by_experiment().items()
        if min_pass_rate is not None and rate < min_pass_rate
    }
    for name, rate in low.items():
        typer.echo(f"{name}: {rate:.1%} passed, less than {min_pass_rate:.1%}", err=True)
    return PROBLEMS if low else OK


def _tell_how_to_go_on(request: _Request) -> None:
    if request.url.startswith("memory:"):
        typer.echo("Interrupted. The results were kept in memory and are lost.", err=True)
    else:
        typer.echo(
            f"Interrupted. To go on, give the same command with --name {shlex.quote(request.name)}",
            err=True,
        )
