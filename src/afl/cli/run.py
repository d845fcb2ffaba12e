"""`afl run`: do a workflow in this process, from its text to its result."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import (
    OK,
    Input,
    Inputs,
    Json,
    Key,
    Library,
    Store,
    Workflow,
    chosen_workflow,
    compiled,
    inputs_for,
    settings,
    store_flag,
    store_of,
)
from afl.cli.streams import output_aside

if TYPE_CHECKING:
    from afl.config import Config
    from afl.operations.own_run import Work
    from afl.runtime.entities import RunnerDefinition

#: Old runs that are removed on the way out: a few, so that nobody waits for it.
_PRUNED_ON_EXIT = 10


def run(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE|DIR", help="AFL files or folders; - is stdin."),
    ] = None,
    workflow: Workflow = None,
    input_: Input = None,
    inputs: Inputs = None,
    handlers: Annotated[
        list[str] | None,
        typer.Option(
            "--handlers",
            metavar="MODULE|FILE",
            help="Where handlers are; without it, handlers.py beside the program.",
        ),
    ] = None,
    store: Store = None,
    key: Key = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Go on with this run, named by its id or the beginning of it; start none.",
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="Handlers at the same time.")
    ] = 8,
    scripts: Annotated[
        bool, typer.Option("--scripts", help="Run the script blocks of the program.")
    ] = False,
    library: Library = None,
    json: Json = False,
) -> None:
    """Run a workflow here, with its handlers, and print its outputs. A run that was interrupted
    goes on with --resume."""
    from afl.cli.run_report import report
    from afl.errors import UsageError

    if resume is not None and any((paths, workflow, input_, inputs, key)):
        raise UsageError("--resume goes on with what the run began with: give no program or inputs")
    if resume is None and not paths:
        raise UsageError("name the AFL files of the program, or a run with --resume")
    config = settings(
        context,
        store_url=store,
        scripts_enabled=scripts or None,
        language_library_paths=library or None,
    )
    # What handlers print is not the result.
    with output_aside():
        work, values = None, {}
        if paths:
            work = _prepared(config, paths, workflow, handlers or [])
            values = inputs_for(work.program, work.workflow, input_ or [], inputs)
        request = _Request(config, work, values, key, resume or "", handlers or [], concurrency)
        record, outputs = _done(request)
    code = report(record, outputs, json)
    if code != OK:
        raise typer.Exit(code)


@dataclass(frozen=True)
class _Request:
    """What was asked for: `work` and its inputs, or a run to go on with."""

    config: Config
    work: Work | None
    inputs: dict[str, Any]
    key: str | None
    resumed: str
    handlers: Sequence[str]
    concurrency: int


def _prepared(
    config: Config, paths: Sequence[str], workflow: str | None, handlers: Sequence[str]
) -> Work:
    """Everything that can be wrong is found here, before anything starts."""
    from afl.operations.own_run import prepare, usual_handlers

    program = compiled(config, paths)
    declared = chosen_workflow(program, workflow)
    return prepare(program, declared, handlers or usual_handlers(paths[0]))


def _done(request: _Request) -> tuple[RunnerDefinition, dict[str, Any]]:
    """Do the run as far as it goes; its record and its outputs."""
    from afl.bootstrap import evaluator
    from afl.cli.run_progress import progress_of, watch
    from afl.operations import finding, own_run, runs
    from afl.operations.local_run import Options

    config, work = request.config, request.work
    with store_of(config) as store, progress_of() as display:
        engine = evaluator(store, config)
        if work is not None:
            run_id = own_run.begin(engine, work, request.inputs, request.key)
            record = runs.status(store, run_id)
        else:
            record = finding.find_run(store, request.resumed)
        if not record.is_over:
            work = work or own_run.stored_work(store, record, request.handlers)
            options = Options(request.concurrency, on_progress=display.told)
            watch(own_run.local_run(store, engine, work, record, options), display)
            record = runs.status(store, record.workflow_id)
        outputs = runs.outputs(engine, record)
        # Last: a short retention may end the time of this very run.
        runs.prune(store, config.retention.runs, limit=_PRUNED_ON_EXIT)
    if work is not None and not record.is_over:
        _tell_how_to_resume(config, work.sources, record)
    return record, outputs


def _tell_how_to_resume(config: Config, sources: Sequence[str], record: RunnerDefinition) -> None:
    if config.store.url.startswith("memory:"):
        typer.echo("Interrupted. The run was kept in memory and is lost.", err=True)
        return
    command = ["afl", "run", "--resume", record.workflow_id, *store_flag(config)]
    for each in sources:
        command += ["--handlers", each]
    command += ["--scripts"] if config.scripts.enabled else []
    typer.echo(f"Interrupted. To go on: {shlex.join(command)}", err=True)
