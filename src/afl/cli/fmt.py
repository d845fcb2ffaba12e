"""`afl fmt`: bring AFL files into the canonical layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import PROBLEMS, Paths, counted, show_problems, write_out

if TYPE_CHECKING:
    from afl.lang.sources import SourceEntry


def fmt(
    paths: Paths,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if a file would change.")
    ] = False,
) -> None:
    """Format AFL files in place. Standard input is formatted to standard output."""
    from afl.lang.diagnostics import display_name
    from afl.operations.programs import format_paths

    changed = broken = seen = 0
    for entry, result in format_paths(paths):
        seen += 1
        if result.problems:
            broken += 1
            show_problems(result.problems, {entry.source_id: entry.text})
        elif entry.source_id == "<stdin>" and not check:
            write_out(result.after)
        elif result.is_changed:
            changed += 1
            if not check:
                _write(entry, result.after)
            verb = "would change" if check else "formatted"
            typer.echo(f"{verb} {display_name(entry.source_id)}", err=True)
    if check and not (changed or broken):
        typer.echo(f"OK: {counted(seen, 'file')}")
    if broken or (check and changed):
        raise typer.Exit(PROBLEMS)


def _write(entry: SourceEntry, text: str) -> None:
    from afl.lang.diagnostics import display_name
    from afl.operations.programs import write_text

    write_text(Path(display_name(entry.source_id)), text)
