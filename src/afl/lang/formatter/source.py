"""The text a tree was read from, cut into lexemes: where its tokens and comments stand.

The tree knows where its nodes are, but neither comments nor most punctuation. Lexemes do, and
they know what was on their lines. Only texts that parse come here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

from afl.lang import trivia
from afl.lang.ast import ASTNode, SourceLocation

_LEXEME = re.compile(
    rf"{trivia.STRING}|{trivia.RAW}|(?P<comment>{trivia.COMMENT})"
    r"|[A-Za-z_$][\w.]*|[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?"
    r"|\+\+|=>|[=!<>]=|&&|\|\||\#\{|[^\s\ufeff]",
    re.DOTALL,
)


@dataclass(slots=True)
class Lexeme:
    """A token or a comment."""

    start: int
    end: int
    text: str
    is_comment: bool
    #: Line ends since the lexeme before; 2 or more make an empty line.
    lines_before: int
    #: Nothing but comments follows on its line. Known for comments only.
    ends_line: bool = False

    @property
    def starts_line(self) -> bool:
        return self.lines_before > 0

    @property
    def is_line_comment(self) -> bool:
        return self.text.startswith("//")

    @property
    def fits_inline(self) -> bool:
        return not self.is_line_comment and "\n" not in self.text


class Source:
    """One text, its lexemes in order, and the places of tree nodes in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lexemes = _lexemes(trivia.mask_scripts(text))
        self._starts = [each.start for each in self.lexemes]
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def start(self, place: SourceLocation) -> int:
        return self._lines[place.line - 1] + place.column - 1

    def end(self, place: SourceLocation) -> int:
        assert place.end_line is not None
        assert place.end_column is not None
        return self._lines[place.end_line - 1] + place.end_column - 1

    def column(self, lexeme: Lexeme) -> int:
        """Width of the white space before a lexeme that starts its line."""
        line = self.text.rfind("\n", 0, lexeme.start) + 1
        return len(self.text[line : lexeme.start].replace("\ufeff", "").expandtabs(4))

    def within(self, node: ASTNode) -> list[Lexeme]:
        """The lexemes of a node."""
        assert node.location is not None
        first = bisect_left(self._starts, self.start(node.location))
        return self.lexemes[first : bisect_left(self._starts, self.end(node.location))]


class Places:
    """Where nodes stand in the source, and how they are spelled there. Without one: unknown."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def start(self, node: ASTNode) -> int | None:
        if self.source is None or node.location is None:
            return None
        return self.source.start(node.location)

    def last(self, node: ASTNode) -> int | None:
        """The offset of the last character."""
        if self.source is None or node.location is None:
            return None
        return self.source.end(node.location) - 1

    def text(self, node: ASTNode) -> str | None:
        if self.source is None or node.location is None:
            return None
        return self.source.text[self.source.start(node.location) : self.source.end(node.location)]


def _lexemes(masked: str) -> list[Lexeme]:
    found: list[Lexeme] = []
    end = skipped_lines = 0
    for match in _LEXEME.finditer(masked):
        lines = max(skipped_lines, masked.count("\n", end, match.start()))
        end = match.end()
        # `;` is never more than white space.
        skipped_lines = lines if match[0] == ";" else 0
        is_comment = match["comment"] is not None
        found.append(Lexeme(match.start(), end, match[0], is_comment, lines))
    if found:
        # What starts a file starts a line.
        found[0].lines_before = max(found[0].lines_before, 1)
    _mark_line_ends(found)
    return found


def _mark_line_ends(lexemes: list[Lexeme]) -> None:
    line_ends = True
    for each in reversed(lexemes):
        if each.is_comment:
            each.ends_line = line_ends
            line_ends = line_ends or "\n" in each.text
        elif each.text != ";":
            line_ends = False
        line_ends = line_ends or each.lines_before > 0
