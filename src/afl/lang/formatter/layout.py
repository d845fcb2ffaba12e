"""From parts to text: which breaks become line ends, and how far lines are indented.

A group is broken if it, with what must follow it on the line, is wider than the line, or if a
comment or a text of several lines is in it. Widths come from running totals, so each group is
measured once, in constant time, however deep it lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from afl.lang.formatter.parts import Begin, Break, Kind, Note, Open, Part, Raw, Sign, Word
from afl.lang.scripts import indented

WIDTH = 100
INDENT = 4


def lay_out(parts: list[Part]) -> str:
    """The text; it ends with one line end unless it is empty."""
    text = _Printer(parts).print().rstrip("\n")
    return f"{text}\n" if text else ""


class _Frame(NamedTuple):
    broken: bool
    indent: int


@dataclass(slots=True)
class _Declared:
    """A declaration being printed: the place before it where an empty line may go."""

    slot: int | None
    line: int
    tall: bool


class _Measures:
    """Running totals over the parts, and for each place the next one of a kind."""

    def __init__(self, parts: list[Part]) -> None:
        count = len(parts)
        self.width = [0] * (count + 1)
        self.line_ends = [0] * (count + 1)
        for position, part in enumerate(parts):
            width, ends = _extent(part)
            self.width[position + 1] = self.width[position] + width
            self.line_ends[position + 1] = self.line_ends[position] + ends
        self.next_break = [count] * (count + 1)
        self.next_header = [count] * (count + 1)
        self.close = [0] * count
        self._look_ahead(parts)

    def _look_ahead(self, parts: list[Part]) -> None:
        closes: list[int] = []
        for position in range(len(parts) - 1, -1, -1):
            part = parts[position]
            is_break = isinstance(part, Break)
            is_header = part is Sign.HEADER_END
            self.next_break[position] = position if is_break else self.next_break[position + 1]
            self.next_header[position] = position if is_header else self.next_header[position + 1]
            if part is Sign.CLOSE:
                closes.append(position)
            elif isinstance(part, Open):
                self.close[position] = closes.pop()

    def fits(self, group: int, column: int) -> bool:
        """Whether the group that opens at this position can stay on its line."""
        close = self.close[group]
        header = self.next_header[group]
        # A group of clauses need only reach its first block: blocks have lines of their own.
        end = header if header < close else close
        if self.line_ends[end] > self.line_ends[group]:
            return False
        reach = end if header < close else self.next_break[close]
        return column + self.width[reach] - self.width[group] <= WIDTH


def _extent(part: Part) -> tuple[int, int]:
    """Width on one line, and whether there is more than one."""
    if isinstance(part, Break):
        return len(part.flat), 1 if part.notes or part.kind is Kind.HARD else 0
    if isinstance(part, Raw):
        return 0, 1
    text = part if isinstance(part, str) else part.text if isinstance(part, Word) else ""
    line, ends, _ = text.partition("\n")
    return len(line), len(ends)


class _Printer:
    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._measures = _Measures(parts)
        self._out: list[str] = []
        self._column = 0
        self._line = 0
        self._frames = [_Frame(True, 0), _Frame(True, 0)]
        self._declared: list[_Declared] = []
        #: Whether the last declaration on each level was tall.
        self._tall = [False]
        self._slot: int | None = None

    def print(self) -> str:
        for position, part in enumerate(self._parts):
            if isinstance(part, str):
                self._write(part)
            elif isinstance(part, Word):
                self._write(part.text)
            elif isinstance(part, Break):
                self._print_break(part)
            elif isinstance(part, Open):
                self._open(position, part)
            elif isinstance(part, Raw):
                self._print_raw(part)
            elif isinstance(part, Begin):
                self._begin(part)
            else:
                self._obey(part)
        return "".join(self._out)

    def _write(self, text: str) -> None:
        self._out.append(text)
        lines = text.count("\n")
        self._line += lines
        self._column = len(text) - text.rfind("\n") - 1 if lines else self._column + len(text)

    def _end_line(self, indent: int, blank: bool = False) -> None:
        if self._line or self._column:
            self._write("\n\n" if blank else "\n")
        self._write(" " * indent)

    # Groups

    def _open(self, position: int, part: Open) -> None:
        around = self._frames[-1]
        broken = around.broken if part.follows else not self._measures.fits(position, self._column)
        self._frames.append(_Frame(broken, around.indent + (part.indent if broken else 0)))

    def _obey(self, sign: Sign) -> None:
        if sign is Sign.INDENT:
            self._frames.append(_Frame(True, self._frames[-1].indent + INDENT))
        elif sign in (Sign.CLOSE, Sign.DEDENT):
            self._frames.pop()
        elif sign is Sign.END:
            self._end()

    # Lines

    def _print_break(self, place: Break) -> None:
        frame = self._frames[-1]
        if not place.notes:
            if place.kind is Kind.QUIET:
                return
            if place.kind is Kind.SOFT and not frame.broken:
                self._write(place.flat)
                return
        self._print_notes(place, frame.indent)
        self._end_line(self._frames[-2].indent if place.outer else frame.indent, place.blank)

    def _print_notes(self, place: Break, indent: int) -> None:
        needs_slot = place.between
        for note in place.notes:
            if note.behind:
                self._write("  " if self._column else "")
            else:
                self._hold_slot(needs_slot and not note.blank)
                needs_slot = False
                self._end_line(indent, note.blank)
            self._write(_aligned(note, self._column))
        self._hold_slot(needs_slot and not place.blank)

    def _hold_slot(self, needed: bool) -> None:
        if needed:
            self._slot = len(self._out)
            self._out.append("")

    def _print_raw(self, raw: Raw) -> None:
        indent = self._frames[-1].indent
        self._end_line(0)
        self._write(indented(raw.code, indent + INDENT))
        self._end_line(indent)
        self._write("}")

    # Empty lines between declarations

    def _begin(self, part: Begin) -> None:
        self._declared.append(_Declared(self._slot, self._line, part.tall))
        self._slot = None
        self._tall.append(False)

    def _end(self) -> None:
        """Only now is it known whether the declaration, or the one before it, took lines."""
        done = self._declared.pop()
        self._tall.pop()
        tall = done.tall or self._line > done.line
        if done.slot is not None and (tall or self._tall[-1]):
            self._out[done.slot] = "\n"
        self._tall[-1] = tall


def _aligned(note: Note, column: int) -> str:
    """The comment, beginning at `column`; lines after its first move along."""
    first, *rest = (line.rstrip() for line in note.text.split("\n"))
    if rest and all(line.lstrip().startswith("*") for line in rest):
        rest = [" " * (column + 1) + line.lstrip() for line in rest]
    elif note.column is not None and not note.behind:
        rest = [_shifted(line, column - note.column) for line in rest]
    return "\n".join([first, *rest])


def _shifted(line: str, by: int) -> str:
    text = line.lstrip()
    if not by or not text:
        return line
    space = line[: len(line) - len(text)].expandtabs(INDENT)
    return " " * max(0, len(space) + by) + text
