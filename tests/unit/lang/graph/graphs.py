"""Graphs to test with: made up, but with every freedom that graphs of programs have."""

from __future__ import annotations

from itertools import combinations

from hypothesis import strategies as st

from afl.lang.graph import Cluster, ClusterKind, Edge, EdgeKind, Graph, Node, NodeKind

PARTS = [NodeKind.FACET, NodeKind.EVENT, NodeKind.WORKFLOW, NodeKind.YIELD]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes in nested clusters, some of them empty; edges go forward, also to and from clusters."""
    clusters = draw(_clusters())
    homes = st.sampled_from([None, *(each.key for each in clusters)])
    count = draw(st.integers(1, 14))
    nodes = [
        Node(f"n{i}", f"n{i}", draw(st.sampled_from(PARTS)), cluster=draw(homes))
        for i in range(count)
    ]
    plain = Graph("g", tuple(nodes), tuple(clusters))
    pairs = list(combinations((each.key for each in nodes), 2))
    pairs += [pair for each in clusters for pair in _around(plain, each.key)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=25)) if pairs else []
    edges = [Edge(source, target, draw(st.sampled_from(EdgeKind))) for source, target in chosen]
    return Graph("g", tuple(nodes), tuple(clusters), tuple(edges))


@st.composite
def _clusters(draw: st.DrawFn) -> list[Cluster]:
    clusters: list[Cluster] = []
    for index in range(draw(st.integers(0, 5))):
        parent = draw(st.sampled_from([None, *(each.key for each in clusters)]))
        kind = draw(st.sampled_from(ClusterKind))
        clusters.append(Cluster(f"c{index}", f"cluster {index}", kind, parent))
    return clusters


def _around(graph: Graph, cluster: str) -> list[tuple[str, str]]:
    """Edges that respect the order of nodes: into a cluster from before it, out of it to after."""
    numbers = [i for i, each in enumerate(graph.nodes) if cluster in ancestors(graph, each.cluster)]
    if not numbers:
        return []
    before = [(each.key, cluster) for each in graph.nodes[: min(numbers)]]
    return before + [(cluster, each.key) for each in graph.nodes[max(numbers) + 1 :]]


def ancestors(graph: Graph, cluster: str | None) -> set[str]:
    """A cluster and all that it is in."""
    parents = {each.key: each.parent for each in graph.clusters}
    found: set[str] = set()
    while cluster is not None:
        found.add(cluster)
        cluster = parents[cluster]
    return found
