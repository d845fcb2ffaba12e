"""Boxes and the courses of arrows: what a layout is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from afl.lang.graph.elements import Edge

Point = tuple[float, float]


class Box(NamedTuple):
    """A rectangle; `x` grows to the right and `y` downwards."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2

    def overlaps(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def contains(self, other: Box) -> bool:
        wide = self.left <= other.left and other.right <= self.right
        return wide and self.top <= other.top and other.bottom <= self.bottom

    def moved(self, dx: float, dy: float) -> Box:
        return Box(self.left + dx, self.top + dy, self.right + dx, self.bottom + dy)


@dataclass(frozen=True, slots=True)
class Route:
    """An arrow as corner points, first to last. Between points of one x it runs straight down."""

    edge: Edge
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    nodes: Mapping[str, Box]
    clusters: Mapping[str, Box]
    #: Room for a remark in each cluster that holds nothing.
    blanks: Mapping[str, Box]
    routes: tuple[Route, ...]
