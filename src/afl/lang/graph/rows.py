"""How tall rows are, and how far apart: wide bends get more room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afl.lang.graph.ranks import Ranks

#: Heights of rows that hold only borders of clusters.
_TOP_HEIGHT = 20.0
_BOTTOM_HEIGHT = 8.0

_LEAST_GAP = 14.0
#: Room for an arrowhead.
_ARROW_GAP = 30.0
_WIDEST_GAP = 64.0
#: How much a gap grows with the width of the widest bend in it.
_GAP_PER_BEND = 0.09


@dataclass(frozen=True)
class Rows:
    top: list[float]
    bottom: list[float]


def arrange_rows(
    ranks: Ranks,
    heights: Mapping[str, float],
    bends: Iterable[tuple[int, float]],
    landings: Iterable[int],
) -> Rows:
    """`bends` are widths by the row above them; `landings` are rows in which arrows end."""
    tall = [0.0] * ranks.count
    for found, height in (
        [(ranks.leaf[key], height) for key, height in heights.items()]
        + [(row, _TOP_HEIGHT) for row in ranks.top.values()]
        + [(row, _BOTTOM_HEIGHT) for row in ranks.bottom.values()]
    ):
        tall[found] = max(tall[found], height)
    gaps = [_LEAST_GAP] * ranks.count
    for row in landings:
        # The first row has none above it, and the last gap is no harm there.
        gaps[row - 1] = max(gaps[row - 1], _ARROW_GAP)
    for row, width in bends:
        gaps[row] = max(gaps[row], min(_WIDEST_GAP, _ARROW_GAP + width * _GAP_PER_BEND))
    return _stacked(tall, gaps)


def _stacked(heights: list[float], gaps: list[float]) -> Rows:
    rows, y = Rows([], []), 0.0
    for height, gap in zip(heights, gaps, strict=True):
        rows.top.append(y)
        rows.bottom.append(y + height)
        y += height + gap
    return rows
