"""A place for everything in the picture: rows from the top, boxes side by side, arrows between.

- No two nodes overlap, and the box of a cluster holds exactly what is in the cluster.
- Arrows go down. Only one that closes a circle cannot, and programs have none.
- Arrows bend between rows, so they never run through a node.
- The same graph gives the same layout, in time about linear in its size. No program outside
  helps, and nothing here knows more about the look of a box than its size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from afl.lang.graph.elements import Cluster, Graph, Node, NodeKind
from afl.lang.graph.geometry import Box, Layout, Route
from afl.lang.graph.placement import PADDING, place
from afl.lang.graph.plan import Kind, make_plan
from afl.lang.graph.ranks import Ranks, assign_ranks
from afl.lang.graph.routes import Course, Extent, find_courses, route_arrows
from afl.lang.graph.rows import Rows, arrange_rows
from afl.lang.graph.tree import Tree

MARGIN = 24.0
#: Room for the caption of a cluster, and below its content.
CAPTION_HEIGHT = 36.0
FOOT_HEIGHT = 16.0
BLANK_SIZE = (84.0, 24.0)

Size = tuple[float, float]


def lay_out(
    graph: Graph, size: Callable[[Node], Size], caption: Callable[[Cluster], float]
) -> Layout:
    """Places for all of `graph`; `size` measures nodes, `caption` the titles of clusters."""
    tree = Tree(graph)
    if not tree.leaves:
        return Layout(2 * MARGIN, 2 * MARGIN, {}, {}, {}, ())
    sizes = {each.key: size(each) for each in graph.nodes} | dict.fromkeys(tree.blanks, BLANK_SIZE)
    ranks = assign_ranks(tree, _keys(graph, NodeKind.INPUT), _keys(graph, NodeKind.OUTPUT))
    captions = {each.key: caption(each) + 2 * PADDING for each in graph.clusters}
    plan = make_plan(tree, ranks, lambda key: sizes[key][0], captions.__getitem__)
    sides = place(plan)
    courses = find_courses(plan, sides)
    rows = arrange_rows(
        ranks,
        {key: height for key, (_, height) in sizes.items()},
        _bends(courses),
        (course[-1].first for course in courses),
    )
    extents = {
        item.key: side
        for item, side in zip(plan.items, sides, strict=True)
        if item.kind is not Kind.LINE
    }
    boxes = _boxes(tree, ranks, rows, extents, sizes)
    return _assembled(tree, boxes, route_arrows(plan, courses, rows, boxes))


def _keys(graph: Graph, kind: NodeKind) -> list[str]:
    return [each.key for each in graph.nodes if each.kind is kind and each.cluster is None]


def _bends(courses: list[Course]) -> Iterator[tuple[int, float]]:
    for course in courses:
        for above, below in itertools.pairwise(course):
            if above.last < below.first:
                yield above.last, abs(above.x - below.x)


def _boxes(
    tree: Tree, ranks: Ranks, rows: Rows, extents: dict[str, Extent], sizes: dict[str, Size]
) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    inside: dict[str, list[Box]] = {key: [] for key in tree.clusters}
    # From the inside out, because a cluster closes right around its content.
    for key in [*tree.leaves, *reversed(tree.clusters)]:
        left, right = extents[key]
        if key in tree.clusters:
            top = min(each.top for each in inside[key]) - CAPTION_HEIGHT
            bottom = max(each.bottom for each in inside[key]) + FOOT_HEIGHT
        else:
            row = ranks.leaf[key]
            top = (rows.top[row] + rows.bottom[row] - sizes[key][1]) / 2
            bottom = top + sizes[key][1]
        boxes[key] = Box(left, top, right, bottom)
        parent = tree.parent[key]
        if parent is not None:
            inside[parent].append(boxes[key])
    return boxes


def _assembled(tree: Tree, boxes: dict[str, Box], routes: tuple[Route, ...]) -> Layout:
    """Everything moved into the picture."""
    xs = [x for each in routes for x, _ in each.points]
    dx = MARGIN - min([each.left for each in boxes.values()] + xs)
    dy = MARGIN - min(each.top for each in boxes.values())
    moved = {key: box.moved(dx, dy) for key, box in boxes.items()}
    return Layout(
        max([each.right for each in moved.values()] + [x + dx for x in xs]) + MARGIN,
        max(each.bottom for each in moved.values()) + MARGIN,
        {key: moved[key] for key in tree.leaves if key not in tree.blanks},
        {key: moved[key] for key in tree.clusters},
        {cluster: moved[key] for key, cluster in tree.blanks.items()},
        tuple(Route(each.edge, tuple((x + dx, y + dy) for x, y in each.points)) for each in routes),
    )
