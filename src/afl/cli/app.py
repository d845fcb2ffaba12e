"""All commands put together, and the one place where errors become messages and exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from afl.cli import (
    check,
    compile_,
    config_show,
    dashboard,
    deploy,
    doctor,
    eval_,
    fmt,
    graph,
    handlers,
    mailbox,
    mcp,
    migrate,
    prune,
    runs,
    serve,
    servers,
    store,
    submit,
    tasks,
    turns,
    worker,
)
from afl.cli import run as run_
from afl.cli.common import OK, PROBLEMS, WRONG_USE, Flags, show_problems
from afl.errors import AflError

app = typer.Typer(
    name="afl",
    help="Compile and run AFL programs: durable workflows for AI agents.",
    no_args_is_help=True,
    # Plain help starts twice as fast as the decorated one.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("check")(check.check)
app.command("compile")(compile_.compile_)
app.command("fmt")(fmt.fmt)
app.command("graph")(graph.graph)
app.command("run")(run_.run)
app.command("submit")(submit.submit)
app.command("worker")(worker.worker)
app.command("serve")(serve.serve)
app.command("dashboard")(dashboard.dashboard)
app.add_typer(runs.app)
app.add_typer(tasks.app)
app.add_typer(handlers.app)
app.add_typer(servers.app)
app.command("eval")(eval_.eval_)
app.add_typer(mailbox.app)
app.add_typer(turns.app)
app.command("mcp")(mcp.mcp)
app.command("prune")(prune.prune)
app.command("migrate")(migrate.migrate)
app.add_typer(store.app)
app.command("deploy")(deploy.deploy)
app.command("doctor")(doctor.doctor)
app.add_typer(config_show.app)


def _version(wanted: bool) -> None:
    if wanted:
        from afl import __version__

        typer.echo(f"afl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings file, instead of ./afl.toml."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", help="debug, info, warning or error.")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", help="auto, json or console.")
    ] = None,
    _show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    context.obj = Flags(config, {"log.level": log_level, "log.format": log_format})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        # Standalone, typer shows its own errors and ends quietly when a reader of the output
        # leaves; it answers by raising SystemExit, always.
        typer.main.get_command(app).main(args=None if argv is None else list(argv), prog_name="afl")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    except AflError as problem:
        return _failed(problem)
    return OK


def _failed(problem: AflError) -> int:
    diagnostics = getattr(problem, "diagnostics", None)
    if diagnostics is not None:
        show_problems(diagnostics, {})
        return PROBLEMS
    typer.echo(f"Error: {problem}", err=True)
    return WRONG_USE
