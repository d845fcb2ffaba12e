"""Programs that come as text, from somebody who has no files here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from afl.lang.compiler import Compilation, compile_input
from afl.lang.sources import CompilerInput, FolderLibrary, SourceEntry, TextOrigin

#: What the text is called in messages.
TEXT_NAME = "<source>"


def compile_text(
    text: str, *, library_paths: Sequence[str | Path] = (), strict: bool = False
) -> Compilation:
    """Compile one text; namespaces that it uses are found in the libraries."""
    libraries = [FolderLibrary([each]) for each in library_paths]
    source = SourceEntry(text, TextOrigin(TEXT_NAME))
    return compile_input(CompilerInput([source]), libraries, strict=strict)
