"""What the grammar cannot see: comments, and the raw text between the braces of a script.

`mask_scripts` runs before the lexer and swaps the outer braces of `script { … }` for two
private characters of the same width, so that every place in the masked text is the same place
in the original and Python's own braces, quotes and `//` need no meaning in AFL.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from afl.lang.ast import DocComment, DocEntry, frozen

#: Noncharacters: no text has a use for them.
RAW_OPEN, RAW_CLOSE = "\ufdd0", "\ufdd1"

#: How these look in masked text, for whoever scans it without the grammar.
STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
COMMENT = r"(?://[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)"
RAW = f"{RAW_OPEN}[^{RAW_CLOSE}]*{RAW_CLOSE}"

#: What may stand between two tokens. Possessive: a comment is never taken in part.
GAP = rf"(?:\s|{COMMENT})*+"

_SCRIPT_OR_OPAQUE = re.compile(
    rf"{STRING}|{COMMENT}"
    # Here `script` is a name and the brace belongs to something else.
    rf"|(?<![\w.$])(?:schema|namespace|foreach|in|as)\b{GAP}[\w.]+"
    rf"|\.{GAP}script\b"
    rf"|(?P<script>(?<![\w.$])script\b{GAP}(?:[A-Za-z_]\w*{GAP})?\{{)",
    re.DOTALL,
)
#: Python's strings and comments, and the braces outside of them.
PYTHON_LEXEME = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\''
    r'|"(?:[^"\\\n]|\\(?:\r\n|.))*"|\'(?:[^\'\\\n]|\\(?:\r\n|.))*\''
    r"|#[^\n]*|[{}]",
    re.DOTALL,
)
_COMMENT_OR_OPAQUE = re.compile(rf"{STRING}|{RAW}|(?P<comment>{COMMENT})", re.DOTALL)


class OpenScript(Exception):  # noqa: N818 - a fact about the text, caught by the parser
    """A `script {` at this offset has no end."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def mask_scripts(text: str) -> str:
    """`text` with the outer braces of raw scripts swapped for RAW_OPEN and RAW_CLOSE."""
    if "script" not in text:
        return text
    parts: list[str] = []
    done = position = 0
    while match := _SCRIPT_OR_OPAQUE.search(text, position):
        position = match.end()
        if match["script"]:
            close = script_end(text, position)
            if close is None:
                raise OpenScript(match.start())
            parts += [text[done : position - 1], RAW_OPEN, text[position:close], RAW_CLOSE]
            done = position = close + 1
    parts.append(text[done:])
    return "".join(parts)


def script_end(text: str, start: int) -> int | None:
    """Offset of the brace that closes a script whose code begins at `start`."""
    depth = 0
    for match in PYTHON_LEXEME.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            if depth == 0:
                return match.start()
            depth -= 1
    return None


_OPAQUE = re.compile(rf"{STRING}|{RAW}|{COMMENT}", re.DOTALL)


def code_only(text: str) -> str:
    """`text` with its strings, comments and scripts blanked out; every place stays."""
    try:
        text = mask_scripts(text)
    except OpenScript as problem:
        text = text[: problem.offset]
    return _OPAQUE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


class Comment(NamedTuple):
    start: int
    end: int
    text: str

    @property
    def is_doc(self) -> bool:
        # Three stars are a banner, as other languages have it.
        return self.text.startswith("/**") and self.text[3] not in "*/"


def comments(masked: str) -> list[Comment]:
    """Every comment of a masked text, in order."""
    return [
        Comment(match.start(), match.end(), match[0])
        for match in _COMMENT_OR_OPAQUE.finditer(masked)
        if match["comment"]
    ]


_AFTER_DOC = re.compile(GAP, re.DOTALL)


def doc_comments(masked: str) -> dict[int, DocComment]:
    """Doc comments by the offset of the word that follows them."""
    if "/**" not in masked:
        return {}
    found: dict[int, DocComment] = {}
    for comment in comments(masked):
        if comment.is_doc:
            gap = _AFTER_DOC.match(masked, comment.end)
            found[gap.end() if gap else comment.end] = parse_doc(comment.text)
    return found


_TAG = re.compile(r"@(param|returns?)\s+([A-Za-z_]\w*)\s*(.*)", re.DOTALL)


def parse_doc(text: str) -> DocComment:
    """Take a `/** … */` comment apart: description first, then its tags."""
    body = text.removeprefix("/**").removesuffix("*/").rstrip("*")
    lines = [re.sub(r"^\s*\*? ?", "", line, count=1).rstrip() for line in body.split("\n")]
    sections: list[list[str]] = [[]]
    for line in lines:
        if re.match(r"\s*@(?:param|returns?)\b", line):
            sections.append([])
        sections[-1].append(line.strip() if len(sections) > 1 else line)
    params: list[DocEntry] = []
    returns: list[DocEntry] = []
    for section in sections[1:]:
        tag = _TAG.match(" ".join(part for part in section if part))
        if tag:
            (params if tag[1] == "param" else returns).append(DocEntry(tag[2], tag[3].strip()))
    return DocComment("\n".join(sections[0]).strip(), frozen(params), frozen(returns))
