"""The vocabulary between a syntax tree and its text: words, and places where a line may end.

`tree.py` turns a tree into a flat list of parts, `comments.py` hangs comments on it, `layout.py`
decides which breaks become line ends. The list is flat so that no pass needs recursion: programs
may be nested deeper than Python's stack.

A plain `str` is a part, too: a token with the spaces around it, whose place in the source is
found by looking for the next token like it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias


@dataclass(slots=True)
class Word:
    """A token. `at` is its offset in the source, if known."""

    text: str
    at: int | None = None
    #: The keyword of a declaration: a doc comment before it belongs to it.
    declares: bool = False


class Kind(Enum):
    #: A line end if its group is broken, else `flat`.
    SOFT = auto()
    #: Always a line end.
    HARD = auto()
    #: A line end only if a comment needs one: the inside of `{}`.
    QUIET = auto()


@dataclass(slots=True)
class Note:
    """A comment that has found its place: behind what stands on the line, or on its own line."""

    text: str
    behind: bool = False
    #: An empty line before it.
    blank: bool = False
    #: Where it began on its line in the source; None if it was not the first thing there.
    column: int | None = None


@dataclass(slots=True)
class Break:
    """A place where a line may end. A note on it makes it end there."""

    kind: Kind = Kind.SOFT
    flat: str = " "
    #: The next word closes the surrounding bracket and stands outside its indentation.
    outer: bool = False
    #: The word before opened the surrounding bracket: no empty line may follow.
    first: bool = False
    #: Separates two declarations.
    between: bool = False
    #: An empty line before the next word.
    blank: bool = False
    notes: list[Note] = field(default_factory=list)


@dataclass(slots=True)
class Open:
    """Starts a group: its soft breaks all become line ends, or none does."""

    indent: int = 4
    #: Broken exactly when the group around it is.
    follows: bool = False


@dataclass(slots=True)
class Raw:
    """The code of a script, between braces."""

    code: str


@dataclass(slots=True)
class Begin:
    """A declaration starts. `tall` ones keep an empty line around them though they fit a line."""

    tall: bool = False


class Sign(Enum):
    #: Ends the group of the last Open.
    CLOSE = auto()
    INDENT = auto()
    DEDENT = auto()
    #: The first block of a group of clauses was opened: so far the group must fit the line.
    HEADER_END = auto()
    #: Ends the declaration of the last Begin.
    END = auto()


Part: TypeAlias = str | Word | Break | Open | Raw | Begin | Sign
#: Parts, and nodes that are still to be taken apart.
Pieces: TypeAlias = list[Any]


def listing(opener: str, items: list[Pieces], closer: Part, pad: str = "") -> Pieces:
    """A bracketed list: on one line if it fits, else one item per line."""
    if not items:
        return [opener, closer]
    parts: Pieces = [opener, Open(), Break(flat=pad)]
    for position, item in enumerate(items):
        if position:
            parts += [",", Break()]
        parts += item
    return [*parts, Break(flat=pad, outer=True), Sign.CLOSE, closer]


def braces(opener: Part, lines: list[Pieces], closer: Part) -> Pieces:
    """A braced block: one item per line, `{}` if there is none."""
    parts: Pieces = [opener, Sign.HEADER_END, Sign.INDENT]
    for position, line in enumerate(lines):
        parts.append(Break(Kind.HARD, first=position == 0))
        parts += line
    last = Break(Kind.HARD, outer=True) if lines else Break(Kind.QUIET, outer=True, first=True)
    return [*parts, last, Sign.DEDENT, closer]
