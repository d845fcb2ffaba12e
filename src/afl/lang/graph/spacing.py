"""Numbers on a line that keep their distances, and still come as near to their wishes as they can.

Members are known by their position in an order. Whoever calls says how far apart they must be, and
what pulls at them; this knows nothing of graphs.
"""

from __future__ import annotations

from typing import NamedTuple

#: For each member: other members, and how far right of them something should be.
Wishes = list[list[tuple[int, float]]]
#: The same, with a weight.
Pulls = list[list[tuple[int, float, float]]]

_LONGEST_STEP, _SHORTEST_STEP = 0.8, 0.01
_ROUNDS = 3


class Distances(NamedTuple):
    """What must stand left and right of each member, and at least how far away."""

    left: Wishes
    right: Wishes


def settle(distances: Distances, pulls: Pulls, moves: int) -> list[float]:
    """Places near to where the pulls would have them."""
    shares = [_shares(each) for each in pulls]
    spots = _spread(distances, [0.0] * len(pulls))
    # Alone or unbound, there is nothing to move towards.
    for move in range(moves if any(pulls) else 0):
        # Steps get smaller: long ones push neighbours away and would leave holes behind.
        step = _LONGEST_STEP * (1 - move / moves) ** 2 + _SHORTEST_STEP
        spots = _spread(distances, _moved(spots, shares, step))
    return spots


def straighten(
    spots: list[float], distances: Distances, rows: list[int], above: Wishes, below: Wishes
) -> None:
    """Move members right below or above the middle one of their neighbours, pushing nobody."""
    downwards = sorted(range(len(spots)), key=rows.__getitem__)
    for order, wishes in ((downwards, above), (downwards[::-1], below)) * _ROUNDS:
        for at in order:
            if wishes[at]:
                wish = _median([spots[other] + by for other, by in wishes[at]])
                spots[at] = _held(wish, at, distances, spots)


def _shares(pulling: list[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """The same with weights that sum up to one."""
    total = sum(weight for _, _, weight in pulling)
    return [(at, by, weight / total) for at, by, weight in pulling]


def _moved(spots: list[float], shares: Pulls, step: float) -> list[float]:
    moved = list(spots)
    for at, pulling in enumerate(shares):
        if pulling:
            middle = 0.0
            for other, by, share in pulling:
                middle += share * (spots[other] + by)
            moved[at] += step * (middle - moved[at])
    return moved


def _spread(distances: Distances, wanted: list[float]) -> list[float]:
    """Near `wanted`, with all distances kept.

    Pushing everything to the right keeps them, pushing everything to the left does, and so does
    the middle of both, which favours neither side.
    """
    pushed, pulled = list(wanted), list(wanted)
    for at, neighbours in enumerate(distances.left):
        for other, distance in neighbours:
            if pushed[other] + distance > pushed[at]:
                pushed[at] = pushed[other] + distance
    for at in range(len(wanted) - 1, -1, -1):
        for other, distance in distances.right[at]:
            if pulled[other] - distance < pulled[at]:
                pulled[at] = pulled[other] - distance
    return [(one + other) / 2 for one, other in zip(pushed, pulled, strict=True)]


def _held(wish: float, at: int, distances: Distances, spots: list[float]) -> float:
    """The wish, or as near to it as the neighbours let."""
    for other, distance in distances.left[at]:
        wish = max(wish, spots[other] + distance)
    for other, distance in distances.right[at]:
        wish = min(wish, spots[other] - distance)
    return wish


def _median(values: list[float]) -> float:
    values.sort()
    half = len(values) // 2
    return (values[half] + values[~half]) / 2
