"""`afl check`: say what is wrong with AFL programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from afl.cli.common import (
    PROBLEMS,
    Json,
    Library,
    Paths,
    Strict,
    counted,
    settings,
    show_problems,
    write_out,
)

if TYPE_CHECKING:
    from afl.lang.compiler import Compilation


def check(
    context: typer.Context,
    paths: Paths,
    library: Library = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Check AFL files together and show every problem with its place."""
    from afl.operations.programs import compile_paths

    config = settings(
        context, language_strict=strict or None, language_library_paths=library or None
    ).language
    result = compile_paths(paths, library_paths=config.library_paths, strict=config.strict)
    if json:
        write_out(_as_json(result))
    else:
        show_problems(result.diagnostics, result.registry.texts())
        if result.program is not None:
            sources = counted(len(result.registry.sources), "source")
            declarations = counted(len(result.program.declarations), "declaration")
            typer.echo(f"OK: {sources}, {declarations}")
    if result.program is None:
        raise typer.Exit(PROBLEMS)


def _as_json(result: Compilation) -> str:
    from json import dumps

    answer = {
        "ok": result.program is not None,
        "sources": list(result.registry.sources),
        "diagnostics": [each.to_dict() for each in result.diagnostics],
    }
    return dumps(answer, indent=2, ensure_ascii=False)
