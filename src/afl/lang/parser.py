"""Text to syntax tree.

`parse_text` reads one text and returns its tree with what was noted on the way; `AFLParser` and
`parse` are the public faces, which raise `ParseError` with every problem of the text. Reading is
one pass; only a text with a syntax error is looked at again, piece by piece (see recovery.py),
to find the other ones.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from lark import Lark, Token
from lark.exceptions import UnexpectedInput
from lark.lexer import PatternStr

from afl.collector import collector_paused
from afl.lang import ast, codes, recovery, trivia
from afl.lang.ast import SourceLocation
from afl.lang.builder import Builder
from afl.lang.diagnostics import Diagnostic, ParseError, by_place
from afl.lang.limits import MAX_NESTING
from afl.lang.sources import CompilerInput, FileOrigin, SourceRegistry, read_file
from afl.lang.syntax_errors import explain

_OPENING = {"LPAR", "LBRACE", "LSQB", "MAP_OPEN"}
_CLOSING = {"RPAR", "RBRACE", "RSQB"}

#: What no UTF-8 file of text holds.
_NOT_TEXT = re.compile(r"[\0\ud800-\udfff]")
_ASSIGNED = re.compile(trivia.GAP + "=(?![=>])", re.DOTALL)


class Parsed(NamedTuple):
    """A tree and what was noted about its text. No tree means: errors are among the notes."""

    tree: ast.Program | None
    problems: list[Diagnostic]

    @property
    def errors(self) -> list[Diagnostic]:
        return [each for each in self.problems if each.is_error]


def parse_text(text: str, source_id: str | None = None) -> Parsed:
    """Read one text; problems are returned, never raised."""
    if found := _NOT_TEXT.search(text):
        return Parsed(None, [_not_text(text, found.start(), source_id)])
    try:
        masked = trivia.mask_scripts(text)
    except trivia.OpenScript as problem:
        return Parsed(None, [_open_script(text, problem.offset, source_id)])
    parsed = _reader().read(masked, source_id)
    if parsed.tree is None:
        return Parsed(None, recovery.more_problems(masked, source_id, parsed, _reader().read))
    return parsed


class AFLParser:
    """Parses texts and files; holds no state."""

    def parse(
        self, source: str, filename: str = "<string>", source_id: str | None = None
    ) -> ast.Program:
        """The tree of `source`. Raises ParseError with every problem of the text."""
        if source_id is None and filename != "<string>":
            source_id = filename
        parsed = parse_text(source, source_id)
        if parsed.errors or parsed.tree is None:
            raise ParseError(by_place(parsed.errors))
        return parsed.tree

    def parse_file(self, path: str | Path) -> ast.Program:
        """The tree of a file; its nodes carry `file://<path>` as source."""
        return self.parse(read_file(Path(path)), source_id=FileOrigin(str(path)).to_source_id())

    def parse_sources(self, compiler_input: CompilerInput) -> tuple[ast.Program, SourceRegistry]:
        """All given sources merged into one tree, and the registry to find them again."""
        registry = SourceRegistry.from_compiler_input(compiler_input)
        trees = [
            self.parse(each.text, source_id=each.source_id) for each in registry.sources.values()
        ]
        return ast.Program.merge(trees), registry


def parse(source: str, filename: str = "<string>") -> ast.Program:
    """The tree of `source`. Raises ParseError with every problem of the text."""
    return AFLParser().parse(source, filename)


class _Brackets:
    """Watches the tokens pass: counts nesting and remembers which brackets are open.

    A keyword right before `=` becomes a name on the way, because no keyword can stand there: the
    parser alone would take the step `catch = F()` for a catch of the step above it.
    """

    #: Looked for everywhere, so that a keyword is always a whole word: `facetF` is a name.
    always_accept = ("IDENT",)

    def __init__(self) -> None:
        self.open: list[Token] = []
        self.keywords: set[str] = set()
        self.text = ""

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        pending = self.open
        pending.clear()
        for token in stream:
            if token.type in self.keywords and _ASSIGNED.match(self.text, token.end_pos or 0):
                token.type = "IDENT"
            yield token
            # Only now it counts: a token that the parser refuses never gets here.
            kind = token.type
            if kind in _OPENING:
                pending.append(token)
                if len(pending) > MAX_NESTING:
                    raise _TooDeep(token)
            elif kind in _CLOSING:
                pending.pop()


class _TooDeep(Exception):  # noqa: N818 - carries a token to the reader below
    def __init__(self, token: Token) -> None:
        super().__init__(token)
        self.token = token


class _Reader:
    """The one lark parser of this process, with the builder it calls.

    Building its tables takes a tenth of a second, so there is one; reading is pure Python, which
    runs one thread at a time anyhow, so a lock costs nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._brackets = _Brackets()
        self._builder = Builder(self._brackets.open)
        self._lark = Lark(
            files("afl.lang").joinpath("grammar.lark").read_text("utf-8"),
            parser="lalr",
            start="program",
            transformer=self._builder,
            postlex=self._brackets,
            maybe_placeholders=True,
        )
        self._brackets.keywords = {
            each.name
            for each in self._lark.terminals
            if isinstance(each.pattern, PatternStr) and each.pattern.value.isidentifier()
        }

    def read(self, masked: str, source_id: str | None) -> Parsed:
        with self._lock, collector_paused():
            self._builder.begin(masked, source_id)
            self._brackets.text = masked
            try:
                tree: ast.Program = self._lark.parse(masked)  # type: ignore[assignment]
            except UnexpectedInput as problem:
                found = explain(problem, masked, self._brackets.open, source_id)
                return Parsed(None, [*self._builder.problems, found])
            except _TooDeep as problem:
                return Parsed(None, [_too_deep(problem.token, source_id)])
            return Parsed(tree, self._builder.problems)


@cache
def _reader() -> _Reader:
    return _Reader()


def _too_deep(token: Token, source_id: str | None) -> Diagnostic:
    message = f"More than {MAX_NESTING} brackets are open here"
    hint = "split the expression or block into steps or facets of their own"
    place = SourceLocation(
        token.line or 1, token.column or 1, token.end_line, token.end_column, source_id
    )
    return Diagnostic.of(codes.NESTING, message, place, hint)


def _not_text(text: str, offset: int, source_id: str | None) -> Diagnostic:
    what = "NUL bytes" if text[offset] == "\0" else "halves of surrogate pairs"
    place = _place(text, offset, source_id)
    return Diagnostic.of(codes.NOT_TEXT, f"This is not text: it contains {what}", place)


def _open_script(text: str, offset: int, source_id: str | None) -> Diagnostic:
    hint = "end it with `}`; braces in Python strings and comments do not count"
    place = _place(text, offset, source_id, len("script"))
    return Diagnostic.of(codes.OPEN_SCRIPT, "This script is not closed", place, hint)


def _place(text: str, offset: int, source_id: str | None, width: int = 1) -> SourceLocation:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    return SourceLocation(line, column, line, column + width, source_id)
