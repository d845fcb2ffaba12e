"""`afl run`: do a workflow in this process, from its text to its result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import OK, PROBLEMS, Library, settings, show_problems, write_out

if TYPE_CHECKING:
    from afl.config import Config
    from afl.operations.own_run import Work
    from afl.runtime.entities import RunnerDefinition

#: Stopped from the keyboard; the run can go on.
INTERRUPTED = 130
#: Old runs that are removed on the way out: a few, so that nobody waits for it.
_PRUNED_ON_EXIT = 10


def run(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE|DIR", help="AFL files or folders; - is stdin."),
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option(
            "--workflow", metavar="NAME", help="Which one; may be left out if it is the only one."
        ),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=VALUE", help="An input; text as it is, other types as JSON."
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option("--inputs", metavar="JSON|@FILE", help="All inputs as a JSON object."),
    ] = None,
    handlers: Annotated[
        list[str] | None,
        typer.Option(
            "--handlers",
            metavar="MODULE|FILE",
            help="Where handlers are; without it, handlers.py beside the program.",
        ),
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Where the run is kept.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The same key again is the same run."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Go on with this run; start none."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="Handlers at the same time.")
    ] = 8,
    scripts: Annotated[
        bool, typer.Option("--scripts", help="Run the script blocks of the program.")
    ] = False,
    library: Library = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Run a workflow here, with its handlers, and print its outputs. A run that was interrupted
    goes on with --resume."""
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
    with redirect_stdout(sys.stderr):
        work, values = None, {}
        if paths:
            work = _prepared(config, paths, workflow, handlers or [])
            values = _inputs(work, input_ or [], inputs)
        request = _Request(config, work, values, key, resume or "", handlers or [], concurrency)
        record, outputs = _done(request)
    code = _report(record, outputs, json)
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
    from afl.operations.programs import compile_paths, only_workflow

    language = config.language
    result = compile_paths(paths, library_paths=language.library_paths, strict=language.strict)
    show_problems(result.diagnostics, result.registry.texts())
    if result.program is None:
        raise typer.Exit(PROBLEMS)
    program = result.program
    declared = program.workflow(workflow or only_workflow(program))
    return prepare(program, declared, handlers or usual_handlers(paths[0]))


def _inputs(work: Work, pairs: Sequence[str], inputs: str | None) -> dict[str, Any]:
    from afl.operations.inputs import check_inputs, parse_inputs

    values = parse_inputs(pairs, inputs, work.program, work.workflow)
    check_inputs(work.program, work.workflow, values)
    return values


def _done(request: _Request) -> tuple[RunnerDefinition, dict[str, Any]]:
    """Do the run as far as it goes; its record and its outputs."""
    from afl.bootstrap import evaluator, open_store
    from afl.cli.run_progress import progress_of, watch
    from afl.operations import own_run, runs
    from afl.operations.local_run import Options

    config, work = request.config, request.work
    with closing(open_store(config.store.url)) as store, progress_of() as display:
        engine = evaluator(store, config)
        run_id = request.resumed
        if work is not None:
            run_id = own_run.begin(engine, work, request.inputs, request.key)
        record = runs.status(store, run_id)
        if not record.is_over:
            work = work or own_run.stored_work(store, record, request.handlers)
            options = Options(request.concurrency, on_progress=display.told)
            watch(own_run.local_run(store, engine, work, record, options), display)
            record = runs.status(store, run_id)
        outputs = runs.outputs(engine, record)
        # Last: a short retention may end the time of this very run.
        runs.prune(store, config.retention.runs, limit=_PRUNED_ON_EXIT)
    if work is not None and not record.is_over:
        _tell_how_to_resume(config, work.sources, record)
    return record, outputs


def _tell_how_to_resume(config: Config, sources: Sequence[str], record: RunnerDefinition) -> None:
    from afl.log import redact

    if config.store.url.startswith("memory:"):
        typer.echo("Interrupted. The run was kept in memory and is lost.", err=True)
        return
    command = ["afl", "run", "--resume", record.workflow_id]
    # A URL with a password is not for the screen; the settings that gave it give it again.
    if config.origins.get("store.url", "").startswith("flag"):
        command += ["--store", str(redact(config.store.url))]
    for each in sources:
        command += ["--handlers", each]
    command += ["--scripts"] if config.scripts.enabled else []
    typer.echo(f"Interrupted. To go on: {shlex.join(command)}", err=True)


def _report(record: RunnerDefinition, outputs: dict[str, Any], as_json: bool) -> int:
    from afl.runtime.entities import RunnerState

    if as_json:
        write_out(_as_json(record, outputs))
    elif record.state == RunnerState.COMPLETED:
        write_out(_as_text(outputs))
    if record.state == RunnerState.FAILED:
        typer.echo(f"Run {record.workflow_id} failed: {_failure(record)}", err=True)
    if record.state == RunnerState.CANCELLED:
        typer.echo(f"Run {record.workflow_id} was cancelled.", err=True)
    if not record.is_over:
        return INTERRUPTED
    return OK if record.state == RunnerState.COMPLETED else PROBLEMS


def _as_json(record: RunnerDefinition, outputs: dict[str, Any]) -> str:
    from json import dumps

    answer = {
        "run": record.workflow_id,
        "status": record.state,
        "outputs": outputs,
        "error": record.error,
        "duration_s": record.duration / 1000 if record.is_over else None,
    }
    return dumps(answer, indent=2, ensure_ascii=False)


def _as_text(outputs: dict[str, Any]) -> str:
    from json import dumps

    width = max(map(len, outputs), default=0)
    lines = []
    for name, value in outputs.items():
        text = value if isinstance(value, str) else dumps(value, ensure_ascii=False)
        # Further lines stand below the first one.
        below = text.replace("\n", "\n" + " " * (width + 2))
        lines.append(f"{name:<{width}}  {below}".rstrip())
    return "\n".join(lines)


def _failure(record: RunnerDefinition) -> str:
    """Why a run failed, and where in the text."""
    from afl.lang.diagnostics import display_name

    error = record.error or {}
    message = str(error.get("message") or "for no recorded reason")
    if "line" not in error:
        return message
    place = f"{display_name(error.get('source'))}:{error['line']}:{error.get('column', 1)}"
    step = f"step {error['step']}: " if error.get("step") else ""
    return f"{place}: {step}{message}"
