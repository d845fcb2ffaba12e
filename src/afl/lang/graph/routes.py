"""The courses of arrows: first which x they have in which rows, then their corner points.

An arrow leaves the middle of a box and lands on top of another, beside the other arrows that land
there. It is straight wherever it is in a row, and bends only in the gaps between rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from afl.lang.graph.geometry import Box, Point, Route
from afl.lang.graph.plan import Plan
from afl.lang.graph.rows import Rows

#: Arrows that land on one box keep this distance.
_PORT_DISTANCE = 13.0
#: How near to the corner of a box an arrow may touch it.
_CORNER = 16.0
#: An arrow that misses the middle by no more stays straight and lands beside it.
_STRAIGHT = 12.0
#: Straight pieces at the ends of an arrow are not worth a corner if they are shorter.
_STUB = 14.0

#: A left and a right side.
Extent = tuple[float, float]


class Stop(NamedTuple):
    """An arrow's x in all rows from `first` to `last`."""

    x: float
    first: int
    last: int


#: The stops of an arrow, top down: where it leaves, the lines it follows, where it lands.
Course = tuple[Stop, ...]


def find_courses(plan: Plan, sides: list[Extent]) -> list[Course]:
    """For each arrow its course."""
    landings = _landings(plan, sides)
    courses = []
    for arrow, stretches, landing in zip(plan.tree.arrows, plan.stretches, landings, strict=True):
        out, into = plan.ranks.leaving(arrow.source), plan.ranks.entering(arrow.target)
        lines = [Stop(_middle(sides[each.item]), each.first, each.last) for each in stretches]
        following = lines[0].x if lines else landing
        start = _departure(plan, arrow.source, sides, following)
        courses.append((Stop(start, out, out), *lines, Stop(landing, into, into)))
    return courses


def find_points(course: Course, source: Box, target: Box, rows: Rows) -> list[Point]:
    start, *lines, end = course
    points = [(start.x, source.bottom)]
    if rows.bottom[start.last] - source.bottom > _STUB and end.first > start.last:
        points.append((start.x, rows.bottom[start.last]))
    for line in lines:
        points += [(line.x, rows.top[line.first]), (line.x, rows.bottom[line.last])]
    if target.top - rows.top[end.first] > _STUB and end.first > start.last:
        points.append((end.x, rows.top[end.first]))
    points.append((end.x, target.top))
    return _without_needless(points)


def route_arrows(
    plan: Plan, courses: list[Course], rows: Rows, boxes: Mapping[str, Box]
) -> tuple[Route, ...]:
    return tuple(
        Route(
            arrow.edge, tuple(find_points(course, boxes[arrow.source], boxes[arrow.target], rows))
        )
        for arrow, course in zip(plan.tree.arrows, courses, strict=True)
    )


# Ends


def _departure(plan: Plan, key: str, sides: list[Extent], following: float) -> float:
    if key in plan.leaf:
        return _near(_middle(sides[plan.leaf[key]]), following)
    left, right = sides[plan.cluster[key]]
    return _clamped(following, left + _CORNER, right - _CORNER)


def _landings(plan: Plan, sides: list[Extent]) -> list[float]:
    """Where each arrow lands on its target."""
    #: Arrows by target and by the item they come from: those of one line land together.
    ports: dict[str, dict[tuple[int, str], list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, (arrow, stretches) in enumerate(zip(plan.tree.arrows, plan.stretches, strict=True)):
        origin = stretches[-1].item if stretches else plan.number(arrow.source)
        ports[arrow.target][origin, arrow.edge.kind].append(number)
    landings = [0.0] * len(plan.tree.arrows)
    for target, arrivals in ports.items():
        ordered = sorted(arrivals, key=lambda each: _middle(sides[each[0]]))
        origins = [_middle(sides[each]) for each, _ in ordered]
        places = _ports(origins, sides[plan.number(target)], target in plan.leaf)
        for arrival, place in zip(ordered, places, strict=True):
            for number in arrivals[arrival]:
                landings[number] = place
    return landings


def _middle(side: Extent) -> float:
    return (side[0] + side[1]) / 2


def _ports(origins: list[float], extent: Extent, is_leaf: bool) -> list[float]:
    """Places on top of a box for arrows from `origins`, in their order."""
    middle = _middle(extent)
    reach = max(0.0, extent[1] - middle - _CORNER)
    if is_leaf and len(origins) == 1:
        return [_near(middle, origins[0])]
    if is_leaf:
        reach = min(reach, _PORT_DISTANCE * (len(origins) - 1))
    wanted = [_clamped(each, middle - reach, middle + reach) for each in origins]
    distance = min(_PORT_DISTANCE, 2 * reach / max(1, len(origins) - 1))
    return _apart(wanted, distance, middle - reach, middle + reach)


def _apart(wanted: list[float], distance: float, low: float, high: float) -> list[float]:
    """Near `wanted`, which is sorted, at least `distance` from each other."""
    last = len(wanted) - 1
    up = list(wanted)
    for at in range(1, len(up)):
        up[at] = max(up[at], up[at - 1] + distance)
    down = list(wanted)
    for at in range(last - 1, -1, -1):
        down[at] = min(down[at], down[at + 1] - distance)
    return [
        _clamped((one + other) / 2, low + at * distance, high - (last - at) * distance)
        for at, (one, other) in enumerate(zip(up, down, strict=True))
    ]


def _near(middle: float, other: float) -> float:
    return other if abs(other - middle) <= _STRAIGHT else middle


def _clamped(value: float, low: float, high: float) -> float:
    return (low + high) / 2 if low > high else max(low, min(high, value))


def _without_needless(points: list[Point]) -> list[Point]:
    """Without those on a straight way."""
    kept: list[Point] = []
    for point in points:
        if len(kept) > 1 and kept[-2][0] == kept[-1][0] == point[0]:
            kept.pop()
        kept.append(point)
    return kept
