"""The one layout of AFL text, behind `afl fmt`.

- The tree of the formatted text equals the tree of the text it was made from.
- Formatting twice changes nothing more.
- Every comment is kept, once and in order; trailing blanks in it are not.

The formatter changes layout and spelling only. It never looks at what names mean, so programs
that break rules of the language can be formatted as long as they can be read.
"""

from __future__ import annotations

from afl.lang import ast
from afl.lang.formatter.comments import hang_comments
from afl.lang.formatter.layout import lay_out
from afl.lang.formatter.source import Source
from afl.lang.formatter.tree import parts_of
from afl.lang.parser import AFLParser

__all__ = ["format_source", "format_tree"]


def format_source(text: str, source_id: str | None = None) -> str:
    """`text` in canonical form. Raises ParseError if it is not AFL."""
    tree = AFLParser().parse(text, source_id=source_id)
    source = Source(text)
    return lay_out(hang_comments(parts_of(tree, source), source))


def format_tree(tree: ast.Program) -> str:
    """A text that reads back as `tree`. Comments are not in a tree, except docs."""
    return lay_out(parts_of(tree))
