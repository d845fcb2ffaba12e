"""Problems of a program as values: code, sentence, place, hint, and how they are drawn.

A Diagnostic never travels alone: `ParseError` and `InvalidProgram` carry all that were found,
because people fix a file at once, not problem by problem.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from afl.errors import LanguageError
from afl.lang.ast import SourceLocation
from afl.lang.codes import Code, Severity

#: Longer source lines are cut around the caret when drawn.
DRAWN_WIDTH = 160


@dataclass(frozen=True)
class Diagnostic:
    """One problem. `str()` is one line without the file, as seen in logs."""

    code: str
    severity: Severity
    message: str
    location: SourceLocation | None = None
    hint: str | None = None

    @classmethod
    def of(
        cls,
        code: Code,
        message: str,
        location: SourceLocation | None = None,
        hint: str | None = None,
    ) -> Diagnostic:
        return cls(code.id, code.severity, message, location, hint)

    @property
    def line(self) -> int | None:
        return self.location.line if self.location else None

    @property
    def column(self) -> int | None:
        return self.location.column if self.location else None

    @property
    def source_id(self) -> str | None:
        return self.location.source_id if self.location else None

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def as_error(self) -> Diagnostic:
        """The same problem, as strict mode sees it."""
        return replace(self, severity=Severity.ERROR)

    def to_dict(self) -> dict[str, Any]:
        """For machines: `afl check --json`."""
        place = self.location or SourceLocation(1, 1)
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "hint": self.hint,
            "source": place.source_id,
            "line": place.line,
            "column": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        }

    def __str__(self) -> str:
        if self.location is None:
            return self.message
        return f"{self.message} at line {self.line}, column {self.column}"


class DiagnosedError(LanguageError):
    """AFL text was refused; `diagnostics` holds every problem that was found, in order."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(str(each) for each in self.diagnostics))


class ParseError(DiagnosedError):
    """The text is not AFL. Place and message are those of the first problem."""

    def __init__(
        self,
        message: str | Sequence[Diagnostic],
        line: int | None = None,
        column: int | None = None,
        source_id: str | None = None,
    ) -> None:
        if isinstance(message, str):
            place = SourceLocation(line or 1, column or 1, source_id=source_id)
            message = (Diagnostic("AFL101", Severity.ERROR, message, place),)
        super().__init__(message)

    @property
    def first(self) -> Diagnostic:
        return self.diagnostics[0]

    @property
    def message(self) -> str:
        return self.first.message

    @property
    def line(self) -> int | None:
        return self.first.line

    @property
    def column(self) -> int | None:
        return self.first.column

    @property
    def source_id(self) -> str | None:
        return self.first.source_id

    def __str__(self) -> str:
        place = f"[{self.source_id}] " if self.source_id else ""
        more = len(self.diagnostics) - 1
        return f"{place}{self.first}" + (f" (and {more} more)" if more else "")


class InvalidProgram(DiagnosedError):  # noqa: N818 - the noun is what callers catch
    """The text is AFL but the program breaks rules of the language."""


def suggest(name: str, known: Iterable[str]) -> str | None:
    """A "did you mean" hint when one of the known names is close to `name`."""
    candidates = sorted(set(known) - {name})
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    if not close:
        folded = {each.lower(): each for each in candidates}
        close = [folded[name.lower()]] if name.lower() in folded else []
    return f"did you mean '{close[0]}'?" if close else None


def by_place(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """In reading order; problems without a place come first."""

    def key(each: Diagnostic) -> tuple[str, int, int, str]:
        place = each.location or SourceLocation(0, 0)
        return (place.source_id or "", place.line, place.column, each.code)

    return sorted(diagnostics, key=key)


def display_name(source_id: str | None) -> str:
    """A source as people know it: files by their path, others by their id."""
    return (source_id or "<string>").removeprefix("file://")


def render(diagnostic: Diagnostic, texts: Mapping[str, str]) -> str:
    """Draw a problem as `file:line:col: error[CODE]: …` with the line, a caret and the hint.

    `texts` maps source ids to the texts they were read from; a missing one is not drawn.
    """
    place = diagnostic.location or SourceLocation(1, 1)
    name = display_name(place.source_id)
    lines = [
        f"{name}:{place.line}:{place.column}: "
        f"{diagnostic.severity.value}[{diagnostic.code}]: {diagnostic.message}"
    ]
    text = texts.get(place.source_id or "")
    if diagnostic.location is not None and text is not None:
        lines += _draw(text, place)
    if diagnostic.hint:
        lines.append(f"       hint: {diagnostic.hint}")
    return "\n".join(lines)


def _draw(text: str, place: SourceLocation) -> list[str]:
    rows = text.split("\n")
    if not 1 <= place.line <= len(rows):
        return []
    row = rows[place.line - 1].rstrip("\r").replace("\t", " ")
    start = min(place.column - 1, len(row))
    same_line = place.end_line == place.line and place.end_column is not None
    end = place.end_column - 1 if same_line and place.end_column else len(row)
    cut = max(0, start - DRAWN_WIDTH // 2) if len(row) > DRAWN_WIDTH else 0
    shown = ("…" if cut else "") + row[cut + bool(cut) : cut + DRAWN_WIDTH]
    width = max(1, min(end - start, DRAWN_WIDTH - (start - cut)))
    gutter = f"{place.line:>6}"
    return [
        f"{gutter} | {shown}",
        f"{'':>6} | {' ' * (start - cut)}{'^' * width}",
    ]
