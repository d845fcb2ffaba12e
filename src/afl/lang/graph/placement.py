"""Where everything stands from left to right.

Clusters are placed from the inside out: what is in a cluster finds its places first, by the arrows
between its own members; then the cluster is a stiff box among others. Members of a cluster stand
in one order, and each keeps a distance from what stands left of it in the same rows. So boxes
never overlap, and nothing foreign falls between the borders of a cluster.

Two things alternate: sorting by where the neighbours are (barycentres, which removes most
crossings), and moving towards them as far as the distances allow. The best order seen wins. There
is no randomness, and ties keep the order of the program.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from afl.lang.graph.plan import Kind, Plan
from afl.lang.graph.spacing import Distances, Pulls, Wishes, settle, straighten

#: Room between the sides of a cluster and what is in it.
PADDING = 16.0
#: Least distance between neighbours, by their kinds: leaf, line, cluster.
_DISTANCE = (
    (26.0, 18.0, 26.0),
    (18.0, 14.0, 18.0),
    (26.0, 18.0, 24.0),
)
#: A crossing costs as much as this length of arrows.
_CROSSING = 700.0
#: Moves while orders are compared, and in the end.
_FEW_MOVES, _MANY_MOVES = 14, 70
#: How many orders are tried at most, and how much work all of them may be.
_MOST_TURNS = 16
_WORK = 6_000
#: Lines over more rows than this are left out when crossings are counted.
_LONG = 60

#: Whose neighbours count in a turn. If both ends of an arrow look at each other all the time, they
#: may change places for ever.
_LOOKS = (frozenset({"up", "down"}), frozenset({"up"}), frozenset({"down"}))

Side = tuple[float, float]


@dataclass
class _Group:
    """The members of a cluster, or of the picture, in their present order."""

    members: list[int]
    #: Ends of arrows between different members: item and member at both ends, and the weight.
    links: list[tuple[int, int, int, int, float]] = field(default_factory=list)
    least_width: float = 0.0


_Groups = dict[int | None, _Group]


@dataclass
class _Places:
    """Middles of items, relative to the middle of what they are in, and their widths."""

    offset: list[float]
    width: list[float]


def place(plan: Plan) -> list[Side]:
    """The left and the right side of each item."""
    groups = _groups(plan)
    best = _best_orders(plan, groups)
    for number, members in best.items():
        groups[number].members = members
    moves = max(_FEW_MOVES, min(_MANY_MOVES, 10 * _WORK // len(plan.items)))
    places = _place_groups(plan, groups, moves)
    return [
        (middle - width / 2, middle + width / 2)
        for middle, width in zip(_absolute(plan, places), places.width, strict=True)
    ]


def _best_orders(plan: Plan, groups: _Groups) -> dict[int | None, list[int]]:
    best: dict[int | None, list[int]] = {}
    least = float("inf")
    for turn in range(max(3, min(_MOST_TURNS, _WORK // len(plan.items)))):
        middles = _absolute(plan, _place_groups(plan, groups, _FEW_MOVES))
        cost = _cost(plan, middles)
        if cost < least:
            least = cost
            best = {number: list(group.members) for number, group in groups.items()}
        _sort(plan, groups, middles, _LOOKS[turn % len(_LOOKS)])
    for number, members in best.items():
        groups[number].members = members
    _move_aside(plan, groups, least)
    return {number: group.members for number, group in groups.items()}


def _move_aside(plan: Plan, groups: _Groups, least: float) -> None:
    """Try what spans several rows at both ends of its group, where it separates nothing.

    Averages put a long line into the middle of things, although it could pass outside.
    """
    trials = _WORK // 2 // len(plan.items)
    tall = [
        (group, each)
        for group in groups.values()
        for each in group.members
        if plan.items[each].last > plan.items[each].first and not plan.keeps_order(each)
    ]
    for group, each in tall[: trials // 2]:
        rest = [other for other in group.members if other != each]
        for members in ([each, *rest], [*rest, each]):
            before, group.members = group.members, members
            cost = _cost(plan, _absolute(plan, _place_groups(plan, groups, _FEW_MOVES)))
            if cost < least - 1.0:
                least = cost
            else:
                group.members = before


def _place_groups(plan: Plan, groups: _Groups, moves: int) -> _Places:
    places = _Places([0.0] * len(plan.items), [each.width for each in plan.items])
    # Clusters come after those around them, so backwards is from the inside out.
    for key in reversed(plan.tree.clusters):
        number = plan.cluster[key]
        _place_group(plan, groups[number], number, places, moves)
    _place_group(plan, groups[None], None, places, moves)
    return places


# Groups


def _groups(plan: Plan) -> dict[int | None, _Group]:
    groups: _Groups = {None: _Group([])}
    groups.update({number: _Group([]) for number in plan.cluster.values()})
    for number, item in enumerate(plan.items):
        groups[_around(plan, number)].members.append(number)
        if item.kind is Kind.CLUSTER:
            groups[number].least_width = item.width
    for group in groups.values():
        group.members.sort(key=lambda each: _first(plan, each))
    for (one, other), weight in plan.links.items():
        common, here, there = _meeting(plan, one, other)
        if here != there:
            groups[common].links.append((one, here, other, there, weight))
    return groups


def _around(plan: Plan, number: int) -> int | None:
    container = plan.items[number].container
    return None if container is None else plan.cluster[container]


def _first(plan: Plan, number: int) -> int:
    item = plan.items[number]
    return min(plan.inside[item.key]) if item.kind is Kind.CLUSTER else number


def _meeting(plan: Plan, one: int, other: int) -> tuple[int | None, int, int]:
    """The innermost group that two items share, and the members of it that they are in."""
    ways = []
    for number in (one, other):
        way: list[int | None] = [number]
        while way[-1] is not None:
            way.append(_around(plan, way[-1]))
        ways.append(way[::-1])
    depth = 0
    while depth + 1 < min(map(len, ways)) and ways[0][depth + 1] == ways[1][depth + 1]:
        depth += 1
    ends = [way[min(depth + 1, len(way) - 1)] for way in ways]
    assert ends[0] is not None
    assert ends[1] is not None
    return ways[0][depth], ends[0], ends[1]


# Places inside one group


def _place_group(
    plan: Plan, group: _Group, number: int | None, places: _Places, moves: int
) -> None:
    members, width = group.members, places.width
    distances = _distances(plan, members, width)
    pulls = _pulls(plan, group, places)
    spots = settle(distances, pulls, moves)
    if moves > _FEW_MOVES:
        rows = [plan.items[each].first for each in members]
        straighten(spots, distances, rows, *_neighbours(plan, group, places))
    low = min(spot - width[each] / 2 for each, spot in zip(members, spots, strict=True))
    high = max(spot + width[each] / 2 for each, spot in zip(members, spots, strict=True))
    for each, spot in zip(members, spots, strict=True):
        places.offset[each] = spot - (low + high) / 2
    if number is not None:
        width[number] = max(group.least_width, high - low + 2 * PADDING)


def _pulls(plan: Plan, group: _Group, places: _Places) -> Pulls:
    position = {number: at for at, number in enumerate(group.members)}
    pulls: Pulls = [[] for _ in group.members]
    for one, here, other, there, weight in group.links:
        by = _within(plan, other, there, places) - _within(plan, one, here, places)
        pulls[position[here]].append((position[there], by, weight))
        pulls[position[there]].append((position[here], -by, weight))
    return pulls


def _neighbours(plan: Plan, group: _Group, places: _Places) -> tuple[Wishes, Wishes]:
    """For each member, those whose arrows come to it, and those that its arrows go to."""
    position = {number: at for at, number in enumerate(group.members)}
    above: Wishes = [[] for _ in group.members]
    below: Wishes = [[] for _ in group.members]
    for one, here, other, there, _ in group.links:
        by = _within(plan, other, there, places) - _within(plan, one, here, places)
        above[position[there]].append((position[here], -by))
        below[position[here]].append((position[there], by))
    return above, below


def _within(plan: Plan, number: int, member: int, places: _Places) -> float:
    """How far right of the middle of `member` something inside it stands."""
    return sum(places.offset[each] for each in _way(plan, number, member) if each != member)


def _way(plan: Plan, number: int, member: int) -> Iterator[int]:
    """An item, what it is in, and so on up to `member`."""
    yield number
    while number != member:
        container = plan.items[number].container
        assert container is not None
        number = plan.cluster[container]
        yield number


def _distances(plan: Plan, members: Sequence[int], width: Sequence[float]) -> Distances:
    """What must stand left and right of each member, and how far from middle to middle."""
    left: Wishes = [[] for _ in members]
    right: Wishes = [[] for _ in members]
    #: In each row, the position of what stands furthest right so far.
    skyline: list[int] = [-1] * plan.ranks.count
    for at, number in enumerate(members):
        item = plan.items[number]
        rows = slice(item.first, item.last + 1)
        for other in dict.fromkeys(skyline[rows]):
            if other >= 0:
                neighbour = members[other]
                gap = _DISTANCE[plan.items[neighbour].kind][item.kind]
                distance = gap + (width[neighbour] + width[number]) / 2
                left[at].append((other, distance))
                right[other].append((at, distance))
        skyline[rows] = [at] * (item.last - item.first + 1)
    return Distances(left, right)


def _absolute(plan: Plan, places: _Places) -> list[float]:
    """Middles in the picture. A cluster comes before what is in it."""
    middles = list(places.offset)
    for key in plan.tree.clusters:
        number = plan.cluster[key]
        around = _around(plan, number)
        if around is not None:
            middles[number] += middles[around]
    for number, item in enumerate(plan.items):
        if item.kind is not Kind.CLUSTER and item.container is not None:
            middles[number] += middles[plan.cluster[item.container]]
    return middles


# Orders


def _sort(plan: Plan, groups: _Groups, middles: list[float], looks: frozenset[str]) -> None:
    """Put each member where its neighbours outside of it are, on average."""
    weights: dict[int, float] = defaultdict(float)
    totals: dict[int, float] = defaultdict(float)
    for group in groups.values():
        for one, here, other, there, weight in group.links:
            for number, member, towards, way in (
                (one, here, other, "down"),
                (other, there, one, "up"),
            ):
                for each in _way(plan, number, member) if way in looks else ():
                    weights[each] += weight
                    totals[each] += weight * middles[towards]

    def wish(number: int) -> float:
        return totals[number] / weights[number] if weights[number] else middles[number]

    for group in groups.values():
        group.members.sort(key=wish)
        _restore_cases(plan, group)


def _restore_cases(plan: Plan, group: _Group) -> None:
    """Cases are read in the order of the program, the default last, so they never change places."""
    spots = [at for at, each in enumerate(group.members) if plan.keeps_order(each)]
    for at, each in zip(spots, sorted(group.members[at] for at in spots), strict=True):
        group.members[at] = each


def _cost(plan: Plan, middles: list[float]) -> float:
    length = 0.0
    gaps: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for (one, other), weight in plan.links.items():
        length += weight * abs(middles[one] - middles[other])
        gaps[plan.items[one].last].append((middles[one], middles[other]))
    for x, item in zip(middles, plan.items, strict=True):
        if item.kind is Kind.LINE and item.last - item.first < _LONG:
            for row in range(item.first, item.last):
                gaps[row].append((x, x))
    return length + _CROSSING * sum(map(_crossings, gaps.values()))


def _crossings(arrows: Iterable[tuple[float, float]]) -> int:
    """How many pairs of (x above, x below) stand in one order above and in the other below."""
    count = 0
    below: list[float] = []
    for _, end in sorted(arrows):
        at = bisect_right(below, end)
        count += len(below) - at
        below.insert(at, end)
    return count
