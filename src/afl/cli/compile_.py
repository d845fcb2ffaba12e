"""`afl compile`: write compiled JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from afl.cli.common import PROBLEMS, Library, Paths, Strict, settings, show_problems, write_out


def compile_(
    context: typer.Context,
    paths: Paths,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
    library: Library = None,
    strict: Strict = False,
    no_locations: Annotated[
        bool, typer.Option("--no-locations", help="Leave out lines and columns.")
    ] = False,
    include_provenance: Annotated[
        bool, typer.Option("--include-provenance", help="Say where each source came from.")
    ] = False,
    compact: Annotated[bool, typer.Option("--compact", help="JSON on one line.")] = False,
) -> None:
    """Compile AFL files together into one JSON program."""
    from afl.lang.emitter import JSONEmitter
    from afl.operations.programs import compile_paths, write_text

    config = settings(
        context, language_strict=strict or None, language_library_paths=library or None
    ).language
    result = compile_paths(paths, library_paths=config.library_paths, strict=config.strict)
    show_problems(result.diagnostics, result.registry.texts())
    if result.program is None:
        raise typer.Exit(PROBLEMS)
    emitter = JSONEmitter(
        include_locations=not no_locations,
        include_provenance=include_provenance,
        source_registry=result.registry,
        indent=None if compact else 2,
    )
    text = emitter.emit(result.program.tree) + "\n"
    if output is None:
        write_out(text)
    else:
        write_text(output, text)
