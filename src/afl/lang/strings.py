"""String literals: from their spelling to their value and back.

Only escapes are decoded; every other character, ASCII or not, stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from afl.lang.codes import ESCAPE, UNKNOWN_ESCAPE, Code

#: Called with a code, a message and the offset of the escape in the literal.
Report = Callable[[Code, str, int], None]

_SIMPLE = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0",
    '"': '"', "'": "'", "\\": "\\", "/": "/",
    # A backslash at the end of a line joins it with the next.
    "\n": "", "\r\n": "",
}  # fmt: skip
_WIDTH = {"x": 2, "u": 4, "U": 8}
_ESCAPE = re.compile(r"\\(\r\n|.)", re.DOTALL)
_HEX = re.compile(r"[0-9a-fA-F]+")


def decode(literal: str, report: Report) -> str:
    """The value of a quoted literal. Malformed escapes are reported and kept as written."""
    if "\\" not in literal:
        return literal[1:-1]
    parts: list[str] = []
    position, end = 1, len(literal) - 1
    while match := _ESCAPE.search(literal, position, end):
        parts.append(literal[position : match.start()])
        value, position = _decode_escape(literal, match, report)
        parts.append(value)
    parts.append(literal[position:end])
    return _join_surrogates("".join(parts), report)


def _decode_escape(literal: str, match: re.Match[str], report: Report) -> tuple[str, int]:
    letter = match[1]
    if letter in _SIMPLE:
        return _SIMPLE[letter], match.end()
    if letter not in _WIDTH:
        report(UNKNOWN_ESCAPE, f"Unknown escape '\\{letter}' in a string", match.start())
        return match[0], match.end()
    end = match.end() + _WIDTH[letter]
    digits = literal[match.end() : end]
    if len(digits) == _WIDTH[letter] and _HEX.fullmatch(digits) and int(digits, 16) < 0x110000:
        return chr(int(digits, 16)), end
    message = f"Malformed escape '\\{letter}': {_WIDTH[letter]} hexadecimal digits must follow"
    report(ESCAPE, message, match.start())
    return match[0], match.end()


def _join_surrogates(value: str, report: Report) -> str:
    """`\\ud83d\\ude00` is one character, as in JSON; half of a pair is none."""
    if not any("\ud800" <= char <= "\udfff" for char in value):
        return value
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        report(ESCAPE, "Malformed escape: half of a surrogate pair is no character", 0)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def quote(value: str) -> str:
    """A literal whose value is `value`. Text of several lines keeps its line ends."""
    lines_stay = value.count("\n") >= 2
    return '"' + "".join(_spell(char, lines_stay) for char in value) + '"'


_SPELLING = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _spell(char: str, lines_stay: bool) -> str:
    if char == "\n" and lines_stay:
        return char
    if char in _SPELLING:
        return _SPELLING[char]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
