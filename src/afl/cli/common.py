"""What commands share: exit codes, settings, and how problems are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from afl.config import Config
    from afl.lang.diagnostics import Diagnostic
    from afl.lang.names import Declared
    from afl.lang.program import Program
    from afl.runtime.evaluator import Evaluator
    from afl.runtime.persistence import PersistenceAPI

#: All is well.
OK = 0
#: The AFL program has problems; they are on stderr.
PROBLEMS = 1
#: The request was wrong: a missing file, an unknown option, a bad setting.
WRONG_USE = 2
#: Stopped from the keyboard; the run can go on.
INTERRUPTED = 130

Paths = Annotated[
    list[str], typer.Argument(metavar="FILE|DIR", help="AFL files or folders; - is stdin.")
]
Library = Annotated[
    list[str] | None,
    typer.Option("--library", metavar="PATH", help="File or folder to find used namespaces in."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
Workflow = Annotated[
    str | None,
    typer.Option(
        "--workflow", metavar="NAME", help="Which one; may be left out if it is the only one."
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="NAME=VALUE", help="An input; text as it is, other types as JSON."
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option("--inputs", metavar="JSON|@FILE", help="All inputs as a JSON object."),
]
Key = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="The same key again is the same run.")
]
Store = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Where the runs are kept.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Before = Annotated[
    str | None,
    typer.Option("--before", metavar="CURSOR", help="Go on where an earlier page ended."),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The newest N.")]


@dataclass(frozen=True)
class Flags:
    """What stood before the command's name."""

    file: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def settings(context: typer.Context, **given: Any) -> Config:
    """The settings of this command line; `log_level=…` is the flag for `log.level`."""
    config = _load(context, given)
    # Only for who asked: rendering logs costs 0.2 s to import.
    if config.origins.keys() & {"log.level", "log.format"}:
        _start_logging(config)
    return config


def service_settings(context: typer.Context, **given: Any) -> Config:
    """The settings of a command that runs for long, and logs."""
    config = _load(context, given)
    _start_logging(config)
    return config


def _load(context: typer.Context, given: Mapping[str, Any]) -> Config:
    from afl.config import load_config

    flags: Flags = context.obj or Flags()
    named = {name.replace("_", ".", 1): value for name, value in given.items()}
    config = load_config(flags={**flags.values, **named}, file=flags.file)
    for warning in config.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return config


@contextmanager
def store_of(config: Config) -> Iterator[PersistenceAPI]:
    """The store of the settings, as long as the block runs."""
    from contextlib import closing

    from afl.bootstrap import open_store

    with closing(open_store(config.store.url)) as store:
        yield store


def store_flag(config: Config) -> list[str]:
    """The words that name the same store in another command line, if they were needed in this."""
    from afl.log import redact

    # A URL with a password is not for the screen; the settings that gave it give it again.
    is_flag = config.origins.get("store.url", "").startswith("flag")
    return ["--store", str(redact(config.store.url))] if is_flag else []


@contextmanager
def opened(context: typer.Context, url: str | None) -> Iterator[PersistenceAPI]:
    """The store of a command that looks at what is there."""
    config = settings(context, store_url=url)
    require_there(config.store.url)
    with store_of(config) as store:
        yield store


def require_there(url: str) -> None:
    """Raise UsageError for a database file that does not exist: a wrong name is no empty store."""
    from afl.db.sqlite.address import require_file

    if url.lower().startswith("sqlite:"):
        require_file(url)


@contextmanager
def engine_on(
    context: typer.Context, url: str | None
) -> Iterator[tuple[PersistenceAPI, Evaluator]]:
    """The store and the engine of a command that acts on runs."""
    from afl.bootstrap import evaluator

    config = settings(context, store_url=url)
    require_there(config.store.url)
    with store_of(config) as store:
        yield store, evaluator(store, config)


def _start_logging(config: Config) -> None:
    from afl import log
    from afl.bootstrap import log_events

    log.configure(config.log.level, config.log.format)
    log_events()


def show_problems(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str]) -> None:
    """Draw each problem on stderr, and count them."""
    from afl.lang.diagnostics import render

    errors = warnings = 0
    for each in diagnostics:
        typer.echo(render(each, texts), err=True)
        errors, warnings = errors + each.is_error, warnings + (not each.is_error)
    if errors or warnings:
        typer.echo(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}", err=True)


def compiled(config: Config, paths: Sequence[str]) -> Program:
    """The program of these files, after its problems were shown. Ends the command if it has
    errors."""
    from afl.operations.programs import compile_paths

    language = config.language
    result = compile_paths(paths, library_paths=language.library_paths, strict=language.strict)
    show_problems(result.diagnostics, result.registry.texts())
    if result.program is None:
        raise typer.Exit(PROBLEMS)
    return result.program


def chosen_workflow(program: Program, name: str | None) -> Declared:
    """The workflow of this name, or the only one."""
    from afl.operations.programs import only_workflow

    return program.workflow(name or only_workflow(program))


def inputs_for(
    program: Program, workflow: Declared, pairs: Sequence[str], inputs: str | None
) -> dict[str, Any]:
    """The inputs of a command line, checked."""
    from afl.operations.inputs import check_inputs, parse_inputs

    values = parse_inputs(pairs, inputs, program, workflow)
    check_inputs(program, workflow, values)
    return values


def write_json(value: object) -> None:
    """Put a record, or several, on stdout as JSON. Times are in ISO 8601, in UTC."""
    write_out(as_json(value, indent=2))


def as_json(value: object, indent: int | None = None) -> str:
    from json import dumps

    return dumps(value, indent=indent, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> object:
    from dataclasses import asdict, is_dataclass
    from datetime import datetime

    import msgspec

    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is no JSON")


def write_out(text: str) -> None:
    """Put text for machines on stdout: in UTF-8 whatever the terminal speaks, whole lines."""
    unfinished = bool(text) and not text.endswith("\n")
    typer.echo(text.encode("utf-8", "replace"), nl=unfinished)


def tell_more(cursor: str | None) -> None:
    """Say on stderr how to see what comes after a page, so that stdout is the page alone."""
    if cursor is not None:
        typer.echo(f"There are more: --before {cursor} goes on.", err=True)


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
