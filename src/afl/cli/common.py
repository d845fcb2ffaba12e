"""What commands share: exit codes, settings, and how problems are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from afl.config import Config
    from afl.lang.diagnostics import Diagnostic

#: All is well.
OK = 0
#: The AFL program has problems; they are on stderr.
PROBLEMS = 1
#: The request was wrong: a missing file, an unknown option, a bad setting.
WRONG_USE = 2

Paths = Annotated[
    list[str], typer.Argument(metavar="FILE|DIR", help="AFL files or folders; - is stdin.")
]
Library = Annotated[
    list[str] | None,
    typer.Option("--library", metavar="PATH", help="File or folder to find used namespaces in."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]


@dataclass(frozen=True)
class Flags:
    """What stood before the command's name."""

    file: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def settings(context: typer.Context, **given: Any) -> Config:
    """The settings of this command line; `log_level=…` is the flag for `log.level`."""
    from afl.config import load_config

    flags: Flags = context.obj or Flags()
    named = {name.replace("_", ".", 1): value for name, value in given.items()}
    config = load_config(flags={**flags.values, **named}, file=flags.file)
    for warning in config.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if config.origins.keys() & {"log.level", "log.format"}:
        _start_logging(config)
    return config


def _start_logging(config: Config) -> None:
    """Write telemetry to the log. Only for who asked: rendering it costs 0.2 s to import."""
    from afl import log, telemetry

    log.configure(config.log.level, config.log.format)
    logger = log.get_logger("afl")

    def write(event: telemetry.Event) -> None:
        facts = event.facts()
        del facts["at"]  # log lines have a time of their own
        getattr(logger, event.severity.value)(event.name, **facts)

    telemetry.subscribe(write)


def show_problems(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str]) -> None:
    """Draw each problem on stderr, and count them."""
    from afl.lang.diagnostics import render

    errors = warnings = 0
    for each in diagnostics:
        typer.echo(render(each, texts), err=True)
        errors, warnings = errors + each.is_error, warnings + (not each.is_error)
    if errors or warnings:
        typer.echo(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}", err=True)


def write_out(text: str) -> None:
    """Put text for machines on stdout: in UTF-8 whatever the terminal speaks, whole lines."""
    unfinished = bool(text) and not text.endswith("\n")
    typer.echo(text.encode("utf-8", "replace"), nl=unfinished)


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
