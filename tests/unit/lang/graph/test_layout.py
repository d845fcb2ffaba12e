"""Where everything stands: laws that hold for any graph."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from afl.lang.graph import Cluster, ClusterKind, Edge, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.geometry import Box, Layout
from afl.lang.graph.layout import lay_out


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes in nested clusters, and edges that only go forward."""
    count = draw(st.integers(1, 14))
    depth = draw(st.integers(0, 3))
    clusters = [
        Cluster(f"c{i}", f"cluster {i}", ClusterKind.BLOCK, draw(_parent(i))) for i in range(depth)
    ]
    keys = [f"n{i}" for i in range(count)]
    homes = st.sampled_from([None, *(each.key for each in clusters)])
    nodes = [Node(key, key, NodeKind.FACET, cluster=draw(homes)) for key in keys]
    pairs = list(combinations(keys, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=25)) if pairs else []
    edges = [Edge(source, target, draw(st.sampled_from(EdgeKind))) for source, target in chosen]
    return Graph("g", tuple(nodes), tuple(clusters), tuple(edges))


def _parent(index: int) -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, *(f"c{i}" for i in range(index))])


def layout_of(graph: Graph) -> Layout:
    return lay_out(graph, lambda node: (60.0 + 7 * len(node.key), 40.0), lambda _: 80.0)


def overlap(a: Box, b: Box) -> bool:
    return a.left < b.right and b.left < a.right and a.top < b.bottom and b.top < a.bottom


def contains(outer: Box, inner: Box) -> bool:
    return (
        outer.left <= inner.left
        and inner.right <= outer.right
        and outer.top <= inner.top
        and inner.bottom <= outer.bottom
    )


def ancestors(graph: Graph, cluster: str | None) -> set[str]:
    parents = {each.key: each.parent for each in graph.clusters}
    found: set[str] = set()
    while cluster is not None:
        found.add(cluster)
        cluster = parents[cluster]
    return found


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_no_two_nodes_overlap(graph: Graph) -> None:
    boxes = layout_of(graph).nodes
    assert set(boxes) == {each.key for each in graph.nodes}
    assert not any(overlap(a, b) for a, b in combinations(boxes.values(), 2))


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_a_cluster_holds_its_own_nodes_and_no_others(graph: Graph) -> None:
    layout = layout_of(graph)
    for node in graph.nodes:
        mine = ancestors(graph, node.cluster)
        for key, box in layout.clusters.items():
            if key in mine:
                assert contains(box, layout.nodes[node.key])
            else:
                assert not overlap(box, layout.nodes[node.key])


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_every_arrow_goes_down_inside_the_picture(graph: Graph) -> None:
    layout = layout_of(graph)
    assert {each.edge for each in layout.routes} == set(graph.edges)
    for route in layout.routes:
        heights = [y for _, y in route.points]
        assert heights == sorted(heights)
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in route.points)


@given(graphs())
@settings(max_examples=30, deadline=None)
def test_the_same_graph_has_the_same_layout(graph: Graph) -> None:
    assert layout_of(graph) == layout_of(graph)


def test_nothing_is_laid_out_as_nothing() -> None:
    assert layout_of(Graph("empty")).nodes == {}
