"""`afl store`: move everything from one database to another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.bars import progress_bar
from afl.cli.common import INTERRUPTED, PROBLEMS, Json, counted, require_there, settings, write_json

if TYPE_CHECKING:
    from rich.progress import Progress

    from afl.operations.copying import CopyReport, Watcher

app = typer.Typer(
    name="store", help="Move everything from one database to another.", no_args_is_help=True
)


@app.command()
def copy(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="sqlite:…, postgresql:… or mongodb:…")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="An empty database, or what a copy has left there.")
    ],
    json: Json = False,
) -> None:
    """Copy all that a store has to another one: runs at any point of their work, programs,
    handlers, turns and mailboxes. What was copied is read back and compared.

    Nobody may work on either store meanwhile. If it is interrupted, start it again.
    """
    from contextlib import closing

    from afl.bootstrap import open_store
    from afl.operations.copying import copy_all

    settings(context)
    require_there(source)
    with (
        closing(open_store(source)) as here,
        closing(open_store(target)) as there,
        _shown() as watcher,
        _ends_shown(),
    ):
        report = copy_all(here, source, there, target, watcher=watcher)
    if json:
        write_json(report)
    else:
        _show(report)


def _show(report: CopyReport) -> None:
    from afl.cli.tables import show_table

    rows = [
        (each.kind, str(each.records), str(each.written)) for each in report.parts if each.records
    ]
    show_table(("kind", "records", "written now"), rows, "There was nothing to copy.")
    for each in report.left:
        typer.echo(
            f"warning: {counted(each.left, each.kind)} stayed at the source: the destination "
            "keeps none",
            err=True,
        )


@contextmanager
def _ends_shown() -> Iterator[None]:
    from afl.operations.copying import Differs

    try:
        yield
    except Differs as problem:
        typer.echo(f"Error: {problem}", err=True)
        raise typer.Exit(PROBLEMS) from problem
    except KeyboardInterrupt:
        typer.echo("Interrupted. The same command goes on with it.", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _shown() -> Iterator[Watcher | None]:
    """A bar where stderr is a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with progress_bar(Console(stderr=True)) as bar:
        yield _Bars(bar)


class _Bars:
    """One for each kind of records, one after the other."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", visible=False)

    def began(self, kind: str, total: int) -> None:
        self._bar.reset(self._task, description=kind, total=total, visible=True)

    def went_on(self, records: int) -> None:
        self._bar.advance(self._task, records)
