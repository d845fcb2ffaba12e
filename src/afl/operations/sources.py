"""The text of a program that is only known compiled, and where its statements stand in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from afl.lang.compiler import compile_input
from afl.lang.formatter import format_tree
from afl.lang.program import Program
from afl.lang.sources import CompilerInput, SourceEntry, TextOrigin


@dataclass(frozen=True)
class SourceLine:
    number: int
    text: str
    #: A statement that begins here has not come to its end.
    is_current: bool


@dataclass(frozen=True)
class SourceMap:
    """A program written out. Its statements have the same ids as the ones of the program: an id
    follows from the names that lead to it."""

    text: str
    #: First lines of statements, by their ids.
    lines: Mapping[str, int]

    def marked(self, statements: Iterable[str]) -> list[SourceLine]:
        """All lines, with those of the given statements marked."""
        current = {self.lines[each] for each in statements if each in self.lines}
        return [
            SourceLine(number, text, number in current)
            for number, text in enumerate(self.text.splitlines(), start=1)
        ]


def source_map(program: Program) -> SourceMap:
    text = format_tree(program.tree)
    # Read again: lines are those of the text that is shown, not of the files it came from.
    again = compile_input(CompilerInput([SourceEntry(text, TextOrigin("<program>"))]), [])
    lines = dict(_lines(again.program.to_dict())) if again.program is not None else {}
    return SourceMap(text, lines)


def _lines(node: Any) -> Iterator[tuple[str, int]]:
    if isinstance(node, Mapping):
        place = node.get("location")
        if "id" in node and isinstance(place, Mapping) and node.get("type") in _STATEMENTS:
            yield node["id"], place["line"]
        for each in node.values():
            yield from _lines(each)
    elif isinstance(node, list):
        for each in node:
            yield from _lines(each)


_STATEMENTS = ("StepStmt", "YieldStmt")
