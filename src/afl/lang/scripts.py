"""The Python between the braces of a script: which lines of code it is, and where they stand.

The code loses the indentation that its lines share and the blanks at their ends; what a Python
string holds stays as it is written.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from afl.lang.trivia import PYTHON_LEXEME


class CodeLine(NamedTuple):
    text: str
    #: Where it begins between the braces: lines from the first, characters from that line's start.
    line: int
    column: int


def script_code(raw: str) -> str:
    """The code between the braces."""
    return "\n".join(each.text for each in code_lines(raw))


def code_lines(raw: str) -> list[CodeLine]:
    """The code between the braces, without blank lines at its edges."""
    text = raw.replace("\r\n", "\n")
    lines, inside = text.split("\n"), lines_in_strings(text)
    moved = _moved(lines, inside)
    found: list[CodeLine] = []
    for number, line in enumerate(lines):
        code = moved.get(number, line)
        column = len(line) - len(code)
        # The end of a line is part of a string if the next line is.
        found.append(CodeLine(code if number + 1 in inside else code.rstrip(), number, column))
    full = [number for number, each in enumerate(found) if each.text]
    return found[full[0] : full[-1] + 1] if full else []


def indented(code: str, by: int) -> str:
    """The code moved to the right, as it can stand between braces."""
    inside = lines_in_strings(code)
    return "\n".join(
        line if not line or number in inside else " " * by + line
        for number, line in enumerate(code.split("\n"))
    )


def lines_in_strings(code: str) -> set[int]:
    """Numbers, from 0, of the lines that begin inside a Python string."""
    found: set[int] = set()
    line = done = 0
    for match in PYTHON_LEXEME.finditer(code):
        ends = match[0].count("\n")
        if ends and match[0][0] in "\"'":
            line += code.count("\n", done, match.start())
            found.update(range(line + 1, line + ends + 1))
            line, done = line + ends, match.end()
    return found


def _moved(lines: list[str], inside: set[int]) -> dict[int, str]:
    """The lines that begin outside of strings, without the indentation that they share."""
    # Code that starts right behind the brace has no indentation to compare with.
    numbers = [number for number in range(1, len(lines)) if number not in inside]
    rest = textwrap.dedent("\n".join(lines[number] for number in numbers)).split("\n")
    if 1 not in inside and _opens_block(lines[0]) and not _is_indented(rest):
        rest = [f"    {line}" if line.strip() else line for line in rest]
    return {0: lines[0].lstrip(), **dict(zip(numbers, rest, strict=False))}


def _opens_block(first: str) -> bool:
    code = PYTHON_LEXEME.sub(lambda match: "" if match[0][0] == "#" else match[0], first)
    return code.rstrip().endswith(":")


def _is_indented(lines: list[str]) -> bool:
    return next((line for line in lines if line), "").startswith(" ")
