"""Finding the other syntax errors of a text that has one.

The text is cut into pieces that stand alone: one declaration each. Every piece is read by
itself; in a piece that fails, the statement at fault is blanked out and the piece is read again.
So each problem is found once, none is caused by another, and the cost grows with the text and
with the number of problems, not with their product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from afl.lang import codes, trivia
from afl.lang.ast import SourceLocation
from afl.lang.diagnostics import Diagnostic

if TYPE_CHECKING:
    from afl.lang.parser import Parsed

#: Beyond this many, the first ones are what people need to see.
MAX_PROBLEMS = 20

_LEXEME = re.compile(
    rf"(?P<opaque>{trivia.STRING}|{trivia.COMMENT}|{trivia.RAW}"
    # Here a keyword is a name.
    r"|\b(?:as|foreach)\s+[A-Za-z_]\w*)"
    # A declaration keyword followed by a name: no statement looks like that, but for `use in xs`.
    r"|(?P<declaration>(?<![\w.$])(?:event\s+facet|facet|workflow|schema|implicit|namespace|uses?)"
    r"\s+(?!(?:in|not|contains|startsWith|endsWith)\b)[A-Za-z_][\w.]*|\bnamespace(?=\s*\{))(?P<brace>\s*\{)?"
    r"|(?P<statement>(?<![\w.$])(?:yield\s+[A-Za-z_]|[A-Za-z_]\w*\s*=(?![=>])))"
    r"|(?P<open>#?\{|[(\[])|(?P<close>[)}\]])",
    re.DOTALL,
)
#: A piece is read without its surroundings, so what it says about them is not true.
_ABOUT_SURROUNDINGS = {codes.MISPLACED_USE.id, codes.MISPLACED_NAMESPACE.id}
#: After these, only the statement's own text is unreadable; after others nothing is certain.
_STATEMENT_LEVEL = {codes.SYNTAX.id, codes.CHARACTER.id}

Read = Callable[[str, str | None], "Parsed"]


class _Piece(NamedTuple):
    start: int
    end: int


def more_problems(text: str, source_id: str | None, first: Parsed, read: Read) -> list[Diagnostic]:
    """All problems of `text`, given the reading of it that failed."""
    if any(each.code == codes.NESTING.id for each in first.problems):
        return first.problems
    found: list[Diagnostic] = []
    for piece in _pieces(text):
        problems = _problems_of(text[piece.start : piece.end], source_id, read)
        found += [_moved(each, text, piece.start) for each in problems]
        if len(found) >= MAX_PROBLEMS:
            break
    # Every piece may be fine while the whole is not: a namespace that is never closed.
    return found[:MAX_PROBLEMS] if any(each.is_error for each in found) else first.problems


def _pieces(text: str) -> Iterator[_Piece]:
    """Declarations, and whatever stands between them. The braces of namespaces are left out."""
    begin = depth = 0
    in_namespace = False
    for match in _LEXEME.finditer(text):
        if match["declaration"]:
            yield _Piece(begin, match.start())
            begin, depth = match.start(), 1 if match["brace"] else 0
            if match["brace"] and match[0].startswith("namespace"):
                if match["declaration"] == "namespace":
                    yield _Piece(begin, match.end())  # Its name is missing.
                begin, depth, in_namespace = match.end(), 0, True
        elif match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
            if depth < 0 and in_namespace and match[0] == "}":
                yield _Piece(begin, match.start())
                begin, depth, in_namespace = match.end(), 0, False
    yield _Piece(begin, len(text))


def _problems_of(piece: str, source_id: str | None, read: Read) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    while len(found) < MAX_PROBLEMS:
        parsed = read(piece, source_id)
        found += [
            each
            for each in parsed.problems
            if each not in found and each.code not in _ABOUT_SURROUNDINGS
        ]
        blanked = None if parsed.tree else _without_statement(piece, parsed.problems[-1])
        if blanked is None:
            break
        piece = blanked
    return found


def _without_statement(piece: str, failure: Diagnostic) -> str | None:
    """The piece with the statement at fault blanked out, or None if there is no such."""
    if failure.code not in _STATEMENT_LEVEL or failure.location is None:
        return None
    extent = _statement_at(piece, _offset(piece, failure.location))
    if extent is None:
        return None
    blank = re.sub(r"[^\n]", " ", piece[extent.start : extent.end])
    blanked = piece[: extent.start] + blank + piece[extent.end :]
    return blanked if blanked != piece else None


def _statement_at(piece: str, offset: int) -> _Piece | None:
    """The innermost statement around `offset`, up to where the next can begin.

    The first one begins at the brace of its block. One that begins right at `offset` is where
    the parser gave up on the one before.
    """
    brackets: list[str] = []
    begun: list[_Begun] = []
    for match in _LEXEME.finditer(piece):
        past = match.start() >= offset
        if match["statement"] and brackets[-1:] == ["{"]:
            if past and begun and len(brackets) <= begun[-1].depth:
                return _Piece(begun[-1].start, match.start())
            if not past:
                begun.append(_Begun(match.start(), len(brackets)))
        elif match["open"]:
            brackets.append(match[0])
            if match[0] == "{" and not past:
                begun.append(_Begun(match.end(), len(brackets)))
        elif match["close"]:
            _close(brackets, match[0])
            while begun and len(brackets) < begun[-1].depth:
                closed = begun.pop()
                if past:
                    return _Piece(closed.start, match.start())
    return _Piece(begun[-1].start, len(piece)) if begun else None


class _Begun(NamedTuple):
    start: int
    #: How many brackets are open around it.
    depth: int


def _close(brackets: list[str], closer: str) -> None:
    """A brace ends every parenthesis that was left open inside it."""
    if closer == "}":
        while brackets and not brackets[-1].endswith("{"):
            brackets.pop()
    if brackets:
        brackets.pop()


def _offset(text: str, place: SourceLocation) -> int:
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1


def _moved(problem: Diagnostic, text: str, start: int) -> Diagnostic:
    """The problem with its place in the whole text instead of the piece at `start`."""
    place = problem.location
    if place is None:
        return problem
    lines = text.count("\n", 0, start)
    columns = start - (text.rfind("\n", 0, start) + 1)
    end_line, end_column = place.end_line, place.end_column
    moved = SourceLocation(
        place.line + lines,
        place.column + (columns if place.line == 1 else 0),
        end_line + lines if end_line else None,
        end_column + columns if end_column and end_line == 1 else end_column,
        place.source_id,
    )
    return Diagnostic(problem.code, problem.severity, problem.message, moved, problem.hint)
