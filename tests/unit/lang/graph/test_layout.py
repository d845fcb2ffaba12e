"""Where everything stands: laws that hold for any graph."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given, settings
from tests.unit.lang.graph.graphs import ancestors, graphs

from afl.lang.graph import Cluster, ClusterKind, Edge, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.geometry import Box, Layout, Point
from afl.lang.graph.layout import lay_out

MANY = settings(max_examples=150, deadline=None)


def layout_of(graph: Graph) -> Layout:
    return lay_out(graph, lambda node: (60.0 + 7 * len(node.key), 40.0), lambda _: 80.0)


def chain(*keys: str, kind: NodeKind = NodeKind.FACET) -> Graph:
    nodes = tuple(Node(key, key, kind) for key in keys)
    return Graph("chain", nodes, (), tuple(Edge(*pair) for pair in pairwise(keys)))


# Boxes


@given(graphs())
@MANY
def test_no_two_nodes_overlap(graph: Graph) -> None:
    boxes = layout_of(graph).nodes
    assert set(boxes) == {each.key for each in graph.nodes}
    assert not any(one.overlaps(other) for one, other in combinations(boxes.values(), 2))


@given(graphs())
@MANY
def test_a_cluster_holds_its_own_nodes_and_touches_no_others(graph: Graph) -> None:
    layout = layout_of(graph)
    for node in graph.nodes:
        mine = ancestors(graph, node.cluster)
        for key, box in layout.clusters.items():
            if key in mine:
                assert box.contains(layout.nodes[node.key])
            else:
                assert not box.overlaps(layout.nodes[node.key])


@given(graphs())
@MANY
def test_clusters_are_nested_or_apart(graph: Graph) -> None:
    layout = layout_of(graph)
    for one, other in combinations(graph.clusters, 2):
        outer, inner = layout.clusters[one.key], layout.clusters[other.key]
        if one.key in ancestors(graph, other.key):
            assert outer.contains(inner)
        else:
            assert not outer.overlaps(inner)


@given(graphs())
@MANY
def test_every_empty_cluster_has_room_to_say_so(graph: Graph) -> None:
    layout = layout_of(graph)
    used = {each.cluster for each in graph.nodes} | {each.parent for each in graph.clusters}
    assert set(layout.blanks) == {each.key for each in graph.clusters} - used
    assert all(layout.clusters[key].contains(box) for key, box in layout.blanks.items())


@given(graphs())
@MANY
def test_everything_is_inside_the_picture(graph: Graph) -> None:
    layout = layout_of(graph)
    picture = Box(0, 0, layout.width, layout.height)
    assert all(picture.contains(each) for each in layout.nodes.values())
    assert all(picture.contains(each) for each in layout.clusters.values())
    assert all(picture.contains(Box(x, y, x, y)) for each in layout.routes for x, y in each.points)


# Arrows


@given(graphs())
@MANY
def test_every_arrow_goes_down_from_its_source_to_its_target(graph: Graph) -> None:
    layout = layout_of(graph)
    boxes = {**layout.nodes, **layout.clusters}
    for route in layout.routes:
        heights = [y for _, y in route.points]
        assert heights == sorted(heights)
        assert _touches(boxes[route.edge.source].bottom, boxes[route.edge.source], route.points[0])
        assert _touches(boxes[route.edge.target].top, boxes[route.edge.target], route.points[-1])


def _touches(height: float, box: Box, point: Point) -> bool:
    x, y = point
    return abs(y - height) < 0.01 and box.left <= x <= box.right


@given(graphs())
@MANY
def test_no_arrow_runs_through_a_node(graph: Graph) -> None:
    layout = layout_of(graph)
    for route in layout.routes:
        others = [box for key, box in layout.nodes.items() if key != route.edge.source]
        for (x, y), (next_x, next_y) in pairwise(route.points):
            # A bend stays between the heights of its ends, a straight piece on its x.
            way = Box(min(x, next_x), y + 0.01, max(x, next_x), next_y - 0.01)
            for box in others:
                if x == next_x:
                    assert not (box.left < x < box.right and way.top < box.bottom
                                and box.top < way.bottom)  # fmt: skip
                else:
                    assert not way.overlaps(box)


@given(graphs())
@MANY
def test_an_edge_is_drawn_unless_one_to_a_cluster_around_its_target_is(graph: Graph) -> None:
    drawn = {each.edge for each in layout_of(graph).routes}
    homes = {each.key: each.cluster for each in graph.nodes}
    homes.update({each.key: each.parent for each in graph.clusters})
    pairs = {(each.source, each.target) for each in graph.edges}
    for edge in graph.edges:
        implied = any((edge.source, key) in pairs for key in ancestors(graph, homes[edge.target]))
        assert (edge in drawn) is not implied


# Rows and columns


def test_a_chain_is_a_straight_column() -> None:
    layout = layout_of(chain("a", "bb", "ccc", "dddd"))
    middles = [each.middle for each in layout.nodes.values()]
    assert max(middles) - min(middles) < 0.5
    assert all(len(each.points) == 2 for each in layout.routes)


def test_parallel_steps_stand_side_by_side() -> None:
    nodes = tuple(Node(key, key, NodeKind.FACET) for key in "abcd")
    edges = tuple(Edge(*pair) for pair in ("ab", "ac", "bd", "cd"))
    boxes = layout_of(Graph("diamond", nodes, (), edges)).nodes
    assert boxes["b"].top == boxes["c"].top
    assert abs(boxes["a"].middle - boxes["d"].middle) < 0.5


def test_arrows_that_need_not_cross_do_not() -> None:
    nodes = tuple(Node(key, key, NodeKind.FACET) for key in ("a", "b", "x", "y"))
    edges = (Edge("a", "y"), Edge("b", "x"))
    boxes = layout_of(Graph("crossed", nodes, (), edges)).nodes
    assert (boxes["a"].middle < boxes["b"].middle) == (boxes["y"].middle < boxes["x"].middle)


def test_cases_stay_in_the_order_of_the_program() -> None:
    clusters = (
        Cluster("when", "when", ClusterKind.WHEN),
        *(Cluster(f"case{i}", "case", ClusterKind.CASE, "when") for i in range(4)),
    )
    nodes = (
        *(Node(f"n{i}", "n", NodeKind.FACET, cluster=f"case{i}") for i in range(4)),
        *(Node(f"far{i}", "far", NodeKind.FACET) for i in range(4)),
    )
    # These arrows would like the opposite order.
    edges = tuple(Edge(f"n{i}", f"far{3 - i}") for i in range(4))
    boxes = layout_of(Graph("cases", nodes, clusters, edges)).clusters
    lefts = [boxes[f"case{i}"].left for i in range(4)]
    assert lefts == sorted(lefts)


def test_the_input_is_above_and_the_output_below_everything() -> None:
    nodes = (
        Node("input", "in", NodeKind.INPUT),
        Node("a", "a", NodeKind.FACET),
        Node("b", "b", NodeKind.FACET, cluster="catch"),
        Node("output", "out", NodeKind.OUTPUT),
    )
    catch = Cluster("catch", "catch", ClusterKind.CATCH)
    layout = layout_of(Graph("ends", nodes, (catch,), (Edge("input", "output"),)))
    inner = [layout.nodes["a"], layout.clusters["catch"]]
    assert all(layout.nodes["input"].bottom < each.top for each in inner)
    assert all(each.bottom < layout.nodes["output"].top for each in inner)


def test_who_reads_a_step_with_a_body_stands_below_the_body() -> None:
    nodes = (
        Node("step", "step", NodeKind.EVENT),
        Node("inner", "inner", NodeKind.FACET, cluster="body"),
        Node("reader", "reader", NodeKind.FACET),
    )
    body = Cluster("body", "body of step", ClusterKind.BODY, owner="step")
    edges = (Edge("step", "body", EdgeKind.CONTROL), Edge("step", "reader"))
    layout = layout_of(Graph("body", nodes, (body,), edges))
    assert layout.clusters["body"].bottom < layout.nodes["reader"].top
    route = next(each for each in layout.routes if each.edge == edges[1])
    assert abs(route.points[0][1] - layout.clusters["body"].bottom) < 0.01


# Limits


@given(graphs())
@settings(max_examples=30, deadline=None)
def test_the_same_graph_has_the_same_layout(graph: Graph) -> None:
    assert layout_of(graph) == layout_of(graph)


def test_circles_are_drawn_too() -> None:
    graph = chain("a", "b", "c", "a")
    inside = Cluster("c0", "c0", ClusterKind.BLOCK)
    looped = Graph(
        "circles",
        (Node("a", "a", NodeKind.FACET, cluster="c0"), *graph.nodes[1:3]),
        (inside,),
        (*graph.edges, Edge("c0", "a"), Edge("a", "c0"), Edge("b", "b"), Edge("c0", "c0")),
    )
    layout = layout_of(looped)
    assert not any(one.overlaps(other) for one, other in combinations(layout.nodes.values(), 2))


def test_deep_clusters_need_no_stack() -> None:
    depth = 260
    clusters = tuple(
        Cluster(f"c{i}", "deep", ClusterKind.BODY, f"c{i - 1}" if i else None) for i in range(depth)
    )
    nodes = (
        Node("a", "a", NodeKind.FACET),
        Node("b", "b", NodeKind.FACET, cluster=f"c{depth - 1}"),
    )
    layout = layout_of(Graph("deep", nodes, clusters, (Edge("a", "b"),)))
    assert all(each.contains(layout.nodes["b"]) for each in layout.clusters.values())


def test_nothing_is_laid_out_as_nothing() -> None:
    assert layout_of(Graph("empty")).nodes == {}
