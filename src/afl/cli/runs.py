"""`afl runs`: look at runs, and act on them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import (
    INTERRUPTED,
    PROBLEMS,
    Before,
    Json,
    Limit,
    Store,
    as_json,
    counted,
    engine_on,
    opened,
    tell_more,
    write_json,
    write_out,
)

if TYPE_CHECKING:
    from afl.operations.reading import LogLine, RunDetail, RunSummary, StepView
    from afl.operations.rest import Checked
    from afl.runtime.evaluator import Evaluator

app = typer.Typer(name="runs", help="Look at runs, and act on them.", no_args_is_help=True)

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the beginning of it.")]


# Looking


@app.command("list")
def list_(
    context: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="STATE", help="running, paused, completed, failed or cancelled."
        ),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="NAME", help="Runs of this workflow.")
    ] = None,
    find: Annotated[
        str | None,
        typer.Option(
            "--find", metavar="TEXT", help="Runs whose id or workflow begins with this text."
        ),
    ] = None,
    before: Before = None,
    limit: Limit = 50,
    store: Store = None,
    json: Json = False,
) -> None:
    """List runs, newest first."""
    from afl.operations import reading

    with opened(context, store) as found:
        page = reading.run_page(
            found, state=state, workflow=workflow, text=find, limit=limit, cursor=before
        )
    if json:
        write_json(page.runs)
    else:
        _show_runs(page.runs)
    tell_more(page.cursor)


def _show_runs(runs: Sequence[RunSummary]) -> None:
    from afl.cli.tables import clock_time, message_of, short, show_table, span

    columns = ("run", "workflow", "state", "started", "took", "error")
    rows = [
        (
            short(each.run),
            each.workflow,
            each.state,
            clock_time(each.started),
            span(each.duration_s),
            message_of(each.error),
        )
        for each in runs
    ]
    show_table(columns, rows, "There are no such runs.")


@app.command()
def show(
    context: typer.Context,
    run: RunId,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Lines of steps that are shown.")
    ] = 200,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show a run and its steps. With their states, inputs, outputs and errors."""
    from afl.operations import finding, reading, waiting

    with opened(context, store) as found:
        wanted = finding.find_run(found, run)
        detail = reading.detail(found, wanted)
        unserved = waiting.unserved_steps(found, wanted)
    if json:
        root = None if detail.root is None else _step(detail.root, unserved)
        rest = {"inputs": detail.inputs, "outputs": detail.outputs, "root": root}
        write_json({**asdict(detail.summary), **rest})
    else:
        _show_run(detail, unserved, limit)


def _step(step: StepView, unserved: Container[str]) -> dict[str, Any]:
    """A step for programs, with those inside it."""
    facts = {each.name: getattr(step, each.name) for each in fields(step) if each.name != "steps"}
    inside = [_step(each, unserved) for each in step.steps]
    return {**facts, "is_unserved": step.step in unserved, "steps": inside}


def _show_run(detail: RunDetail, unserved: Container[str], limit: int) -> None:
    from afl.cli.tables import clock_time, show_facts, span, tree_lines, values

    summary = detail.summary
    show_facts(
        {
            "run": summary.run,
            "workflow": summary.workflow,
            "state": summary.state,
            "started": clock_time(summary.started),
            "ended": clock_time(summary.ended),
            "took": span(summary.duration_s),
            "task list": summary.task_list,
            "key": summary.key or "",
            "error": str((summary.error or {}).get("message", "")),
            "inputs": values(detail.inputs),
            "outputs": values(detail.outputs),
        }
    )
    if detail.root is None:
        return
    steps = _inside(detail.root, 0)
    lines = tree_lines((depth, _line(step, step.step in unserved)) for depth, step in steps)
    write_out("\n".join(["", *lines[:limit]]))
    if len(lines) > limit:
        typer.echo(f"… {len(lines) - limit} more; --limit shows them, --json has all")


def _inside(step: StepView, depth: int) -> Iterator[tuple[int, StepView]]:
    """The steps inside one, with their depth. An only block is not shown: nobody has named it."""
    inner = step.steps
    if len(inner) == 1 and not inner[0].facet:
        inner = inner[0].steps
    for each in inner:
        yield depth, each
        yield from _inside(each, depth + 1)


def _line(step: StepView, is_unserved: bool) -> str:
    from afl.cli.tables import message_of, short, values

    parts = [f"{step.name}:", f"{step.state}, nobody serves it:" if is_unserved else step.state]
    parts += [step.facet] if step.facet else []
    parts += [f"({step.attempts} attempts)"] if step.attempts > 1 else []
    parts += [f"{values(step.inputs)} ->"] if step.inputs else []
    parts += [values(step.outputs)] if step.outputs else []
    if step.state == "failed" and step.facet:
        parts += [f"{message_of(step.error)} [{short(step.step)}]"]
    return " ".join(parts).removesuffix(" ->")


@app.command()
def check(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="Its id, or the beginning of it. [default: all open]"),
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Count again whether every open step has a task, or waits for steps that have one. Changes
    nothing; exits with 1 if something waits for ever."""
    from afl.operations import finding, rest

    with opened(context, store) as found:
        if run is None:
            checked = list(rest.check_open_runs(found))
        else:
            checked = [rest.check_run(found, finding.find_run(found, run).workflow_id)]
    wrong = [each for each in checked if each.problems]
    if json:
        write_json({"checked": len(checked), "problems": wrong})
    else:
        _show_checked(len(checked), wrong)
    if wrong:
        raise typer.Exit(PROBLEMS)


def _show_checked(number: int, wrong: Sequence[Checked]) -> None:
    for each in wrong:
        write_out("\n  ".join([f"Run {each.run}:", *each.problems]))
    typer.echo(f"{counted(number, 'run')} checked: {_verdict(len(wrong))}")


def _verdict(number: int) -> str:
    if not number:
        return "nothing waits for ever."
    return (
        f"{counted(number, 'run')} cannot go on. This is a defect of afl or of what else writes to "
        "the store: keep a copy of it for a report. `afl runs cancel` ends such a run."
    )


@app.command()
def logs(
    context: typer.Context,
    run: RunId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run is over.")
    ] = False,
    store: Store = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print the log of a run: what its workflow and its handlers wrote."""
    from afl.operations import finding, reading

    with opened(context, store) as found:
        reader = reading.LogReader(found, finding.find_run(found, run))
        try:
            for line in reader.follow() if follow else reader.news():
                write_out(as_json(line) if json else _log_line(line))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _log_line(line: LogLine) -> str:
    from afl.cli.tables import clock_time

    return f"{clock_time(line.time)}  {line.level:<7}  {line.message}"


# Acting


@app.command()
def cancel(context: typer.Context, run: RunId, store: Store = None, json: Json = False) -> None:
    """End a run now. Whoever works on its tasks loses them."""
    from afl.operations import runs

    _act(context, run, store, json, runs.cancel)


@app.command()
def pause(context: typer.Context, run: RunId, store: Store = None, json: Json = False) -> None:
    """Let nobody begin anything more of a run. What is being done is finished."""
    from afl.operations import runs

    _act(context, run, store, json, runs.pause)


@app.command()
def resume(context: typer.Context, run: RunId, store: Store = None, json: Json = False) -> None:
    """Let a paused run go on."""
    from afl.operations import runs

    _act(context, run, store, json, runs.unpause)


def _act(
    context: typer.Context,
    run: str,
    store: str | None,
    json: bool,
    act: Callable[[Evaluator, str], bool],
) -> None:
    """Do something to a run, and say how it stands."""
    from afl.operations import finding, runs

    with engine_on(context, store) as (found, engine):
        run_id = finding.find_run(found, run).workflow_id
        is_changed = act(engine, run_id)
        state = runs.status(found, run_id).state
    if json:
        write_json({"run": run_id, "state": state, "changed": is_changed})
    else:
        typer.echo(f"Run {run_id} is {state}." if is_changed else f"Run {run_id} stays {state}.")


@app.command()
def retry(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN|STEP", help="An id, or the beginning of it.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Try a failed step again, or all failed steps of a run. What failed because of them comes
    back, too."""
    from afl.errors import NotFound
    from afl.operations import finding, runs

    with engine_on(context, store) as (found, engine):
        try:
            run_id = finding.find_run(found, run).workflow_id
        except NotFound:
            task = finding.find_step_task(found, run)
            runs.retry(engine, task.step_id)
            report = runs.RetryReport((task.step_id,), {})
            run_id = task.workflow_id
        else:
            report = runs.retry_failed(found, engine, run_id)
    if json:
        write_json({"run": run_id, "retried": report.retried, "refused": report.refused})
    else:
        typer.echo(f"{counted(len(report.retried), 'step')} of run {run_id} will be tried again.")
        for reason in report.refused.values():
            typer.echo(f"Not tried again: {reason}", err=True)
    if not report.retried:
        raise typer.Exit(PROBLEMS)
