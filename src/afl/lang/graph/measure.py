"""How wide text will be, without a font at hand.

Widths are those of a wide sans-serif, in hundredths of the font size: the fonts that a reader has
are narrower, so text never runs out of its box.
"""

from __future__ import annotations

import unicodedata

_NARROW = dict.fromkeys("il|'.,:;!Ij", 33) | dict.fromkeys('ft()[]/\\r- "`', 40)
_WIDE = dict.fromkeys("mwMW@%", 98) | dict.fromkeys("ABCDEFGHKNOPQRSUVXYZ&+=<>#~×", 72)
_WIDTHS = _WIDE | _NARROW
_USUAL = 62

ELLIPSIS = "…"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """The width of a line of text, on the safe side."""
    total = sum(map(_char_width, text))
    return total * size / 100 * (1.08 if bold else 1.0)


def _char_width(char: str) -> int:
    known = _WIDTHS.get(char)
    if known is not None:
        return known
    if char.isascii():
        return _USUAL
    if unicodedata.combining(char):
        return 0
    return 104 if unicodedata.east_asian_width(char) in "WF" else 72


def shortened(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text if it fits, else as much of its beginning as fits with an ellipsis."""
    if text_width(text, size, bold=bold) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if text_width(text[:middle].rstrip() + ELLIPSIS, size, bold=bold) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + ELLIPSIS
