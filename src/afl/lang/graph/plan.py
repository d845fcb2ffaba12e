"""What has to find a place from left to right: leaves, clusters, and lines.

An arrow over several rows is a line: it stands in a column of its own, so it never runs through a
box. Inside a cluster the line stays in it as long as the cluster goes on, so it leaves through the
lower border and enters through the upper one. Lines of one source, or of one target, are one line
with several ends: that keeps pictures narrow and the work linear.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from afl.lang.graph.elements import ClusterKind
from afl.lang.graph.ranks import Ranks
from afl.lang.graph.tree import Arrow, Tree

#: Room that a line takes in its column.
LINE_WIDTH = 2.0
#: How many leaves stand for a cluster when something pulls at it; more would pull no better.
_MOST_ENDS = 8
#: How much more than other arrows a step pulls its body below itself.
_BODY_PULL = 4.0


class Kind(IntEnum):
    LEAF = 0
    LINE = 1
    CLUSTER = 2


@dataclass(slots=True)
class Item:
    """Something that needs a place, in all rows from `first` to `last`."""

    kind: Kind
    key: str
    #: The cluster it stands in; None is the whole picture.
    container: str | None
    first: int
    last: int
    #: Of a cluster, the least width it may have.
    width: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of an arrow that runs along a line: an item, and the rows from and to."""

    item: int
    first: int
    last: int


@dataclass
class Plan:
    """Items by number, and what pulls at them."""

    tree: Tree
    ranks: Ranks
    items: list[Item] = field(default_factory=list)
    #: Numbers of leaves and of clusters by key.
    leaf: dict[str, int] = field(default_factory=dict)
    cluster: dict[str, int] = field(default_factory=dict)
    #: For each arrow, the lines it runs along, top down.
    stretches: list[tuple[Stretch, ...]] = field(default_factory=list)
    #: Pairs of items that want to stand above each other, with how much.
    links: dict[tuple[int, int], float] = field(default_factory=dict)
    #: Leaves by each cluster they are in, however deep.
    inside: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def keeps_order(self, number: int) -> bool:
        """Whether an item stays where the program has it, among others like it."""
        cluster = self.tree.clusters.get(self.items[number].key)
        is_cluster = self.items[number].kind is Kind.CLUSTER
        return is_cluster and cluster is not None and cluster.kind is ClusterKind.CASE

    def number(self, key: str) -> int:
        """The item of a leaf or a cluster."""
        return self.leaf[key] if key in self.leaf else self.cluster[key]


def make_plan(
    tree: Tree, ranks: Ranks, width: Callable[[str], float], caption: Callable[[str], float]
) -> Plan:
    """`width` measures leaves, `caption` what a cluster needs for its title."""
    plan = Plan(tree, ranks)
    for key in tree.leaves:
        row = ranks.leaf[key]
        item = Item(Kind.LEAF, key, tree.parent[key], row, row, width(key))
        plan.leaf[key] = _add(plan, item)
        for cluster in tree.around(key):
            plan.inside[cluster].append(plan.leaf[key])
    for key in tree.clusters:
        rows = ranks.top[key], ranks.bottom[key]
        item = Item(Kind.CLUSTER, key, tree.parent[key], *rows, caption(key))
        plan.cluster[key] = _add(plan, item)
    _add_lines(plan)
    _add_links(plan)
    return plan


def _add(plan: Plan, item: Item) -> int:
    plan.items.append(item)
    return len(plan.items) - 1


# Lines


def _add_lines(plan: Plan) -> None:
    bundles = _bundles(plan)
    numbers: dict[tuple[object, str | None], int] = {}
    for arrow, bundle in zip(plan.tree.arrows, bundles, strict=True):
        stretches = []
        for container, first, last in _course(plan, arrow):
            number = numbers.get((bundle, container))
            if number is None:
                item = Item(Kind.LINE, arrow.source, container, first, last, LINE_WIDTH)
                number = numbers[bundle, container] = _add(plan, item)
            item = plan.items[number]
            item.first, item.last = min(item.first, first), max(item.last, last)
            stretches.append(Stretch(number, first, last))
        plan.stretches.append(tuple(stretches))


def _bundles(plan: Plan) -> list[object]:
    """With which others each arrow shares a line: those of its source, or those of its target."""
    arrows = plan.tree.arrows
    long = [each for each in arrows if _length(plan, each) > 1]
    leaving = Counter((each.edge.kind, each.source) for each in long)
    entering = Counter((each.edge.kind, each.target) for each in long)
    bundles: list[object] = []
    for each in arrows:
        kind = each.edge.kind
        by_source = leaving[kind, each.source] >= entering[kind, each.target]
        bundles.append((kind, by_source, each.source if by_source else each.target))
    return bundles


def _length(plan: Plan, arrow: Arrow) -> int:
    return plan.ranks.entering(arrow.target) - plan.ranks.leaving(arrow.source)


def _course(plan: Plan, arrow: Arrow) -> Iterator[tuple[str | None, int, int]]:
    """The clusters that an arrow passes between its ends, each with the rows from and to."""
    tree, ranks = plan.tree, plan.ranks
    row, end = ranks.leaving(arrow.source) + 1, ranks.entering(arrow.target)
    common = tree.common(arrow.source, arrow.target)
    for cluster in _below(tree, arrow.source, common):
        last = min(ranks.bottom[cluster], end - 1)
        if row <= last:
            yield cluster, row, last
            row = last + 1
    inner: list[str | None] = [common, *reversed(list(_below(tree, arrow.target, common)))]
    for position, container in enumerate(inner):
        last = end - 1
        if position + 1 < len(inner):
            following = inner[position + 1]
            assert following is not None
            last = min(last, ranks.top[following] - 1)
        if row <= last:
            yield container, row, last
            row = last + 1


def _below(tree: Tree, key: str, common: str | None) -> Iterator[str]:
    for cluster in tree.around(key):
        if cluster == common:
            return
        yield cluster


# Links


def _add_links(plan: Plan) -> None:
    for arrow, stretches in zip(plan.tree.arrows, plan.stretches, strict=True):
        pull = _BODY_PULL if _is_body(plan, arrow) else 1.0
        stops = [_ends(plan, arrow.source, leaving=True)]
        stops += [[each.item] for each in stretches]
        stops.append(_ends(plan, arrow.target, leaving=False))
        for above, below in itertools.pairwise(stops):
            weight = pull / (len(above) * len(below))
            for pair in ((one, other) for one in above for other in below):
                plan.links[pair] = max(plan.links.get(pair, 0.0), weight)


def _is_body(plan: Plan, arrow: Arrow) -> bool:
    cluster = plan.tree.clusters.get(arrow.target)
    return cluster is not None and cluster.owner == arrow.source


def _ends(plan: Plan, key: str, *, leaving: bool) -> list[int]:
    """The leaf itself; of a cluster, some leaves in its first or last row."""
    if key in plan.leaf:
        return [plan.leaf[key]]
    inside = plan.inside[key]
    rows = [plan.items[each].first for each in inside]
    row = max(rows) if leaving else min(rows)
    ends = [each for each, at in zip(inside, rows, strict=True) if at == row]
    return ends[:: 1 + len(ends) // _MOST_ENDS]
