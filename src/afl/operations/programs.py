"""Programs: compile, format and draw them.

Functions here take paths and settings and return values; they never print. Wrong requests raise
`UsageError`, wrong programs come back as diagnostics. The formatter and the graph are imported
where they are used: whoever checks a program should not wait for them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.lang.compiler import Compilation, compile_input
from afl.lang.diagnostics import Diagnostic, ParseError
from afl.lang.program import Program
from afl.lang.sources import (
    CompilerInput,
    FolderLibrary,
    SourceEntry,
    SourceRegistry,
    TextOrigin,
    decode,
    load_files,
)

#: The path that means "read the text from standard input".
STDIN = "-"


def compile_paths(
    paths: Sequence[str],
    *,
    library_paths: Sequence[str | Path] = (),
    strict: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> Compilation:
    """Compile files, folders and standard input as one program."""
    started = clock.monotonic()
    libraries = [_library(each) for each in library_paths]
    try:
        result = compile_input(CompilerInput(read_sources(paths)), libraries, strict=strict)
    except ParseError as problem:  # of a file that is no text at all
        found = list(problem.diagnostics)
        return Compilation(None, found, SourceRegistry(), is_unreadable=True)
    if result.program is not None:
        telemetry.emit(
            telemetry.ProgramCompiled(
                at=clock.now(),
                sources=len(result.registry.sources),
                declarations=len(result.program.declarations),
                duration_s=clock.monotonic() - started,
                warnings=len(result.warnings),
            )
        )
    return result


def _library(path: str | Path) -> FolderLibrary:
    """Libraries are read when needed, but one that is not there is a mistake at once."""
    if not Path(path).exists():
        raise UsageError(f"Library not found: {path}")
    return FolderLibrary([path])


def read_sources(paths: Sequence[str]) -> list[SourceEntry]:
    """The texts behind `paths`, each once. No paths means standard input."""
    entries: list[SourceEntry] = []
    if STDIN in paths or not paths:
        text = decode(sys.stdin.buffer.read(), "<stdin>")
        entries.append(SourceEntry(text, TextOrigin("<stdin>")))
    return entries + load_files([each for each in paths if each != STDIN])


# Formatting


@dataclass(frozen=True)
class Formatted:
    """One text before and after, or the problems that kept it from being read."""

    source_id: str
    before: str
    after: str
    problems: Sequence[Diagnostic] = ()

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def format_paths(paths: Sequence[str]) -> Iterator[tuple[SourceEntry, Formatted]]:
    """Format each text on its own. Nothing is written."""
    for entry in read_sources(paths):
        yield entry, _format(entry)


def _format(entry: SourceEntry) -> Formatted:
    from afl.lang.formatter import format_source

    try:
        after = format_source(entry.text, entry.source_id)
    except ParseError as problem:
        return Formatted(entry.source_id, entry.text, entry.text, problem.diagnostics)
    return Formatted(entry.source_id, entry.text, after)


def write_text(path: Path, text: str) -> None:
    """Put `text` into a file so that a crash leaves the old content or the new, never a mix."""
    try:
        if path.exists() and not path.is_file():
            # A pipe or a device, such as /dev/null, is written to and never replaced.
            path.write_bytes(text.encode("utf-8"))
        else:
            _replace(path.resolve(), text.encode("utf-8"))
    except OSError as problem:
        raise UsageError(f"Error writing output: {path}: {problem.strerror}") from None


def _replace(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp is private by default; the file keeps the rights it had, or gets usual ones.
        Path(name).chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o644)
        Path(name).replace(target)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise


# Drawing


def draw(program: Program, workflow: str | None, format_: str) -> str:
    """The graph of a workflow as text of the given format."""
    from afl.lang.graph import FORMATS, workflow_graph

    render = FORMATS.get(format_)
    if render is None:
        raise UsageError(f"unknown format '{format_}': use one of {', '.join(FORMATS)}")
    return render(workflow_graph(program, workflow or only_workflow(program)))


def only_workflow(program: Program) -> str:
    """The name of the workflow that needs no name. Raises UsageError if there is not just one."""
    names = list(program.workflows)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError("the program has no workflows")
    raise UsageError(f"say which workflow with --workflow: {', '.join(names)}")
