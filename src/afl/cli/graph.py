"""`afl graph`: draw a workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from afl.cli.common import PROBLEMS, Library, Paths, settings, show_problems, write_out


def graph(
    context: typer.Context,
    paths: Paths,
    workflow: Annotated[
        str | None,
        typer.Option(
            "--workflow", metavar="NAME", help="Which one; may be left out if it is the only one."
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="svg, mermaid or dot.")
    ] = "svg",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
    library: Library = None,
) -> None:
    """Draw the steps of a workflow and what they wait for."""
    from afl.operations.programs import compile_paths, draw, write_text

    config = settings(context, language_library_paths=library or None).language
    result = compile_paths(paths, library_paths=config.library_paths)
    if result.program is None:
        show_problems(result.errors, result.registry.texts())
        raise typer.Exit(PROBLEMS)
    text = draw(result.program, workflow, format_)
    if output is None:
        write_out(text)
    else:
        write_text(output, text if text.endswith("\n") else text + "\n")
