"""Clusters as a tree, and edges as they are drawn in it.

Every place in the picture is a leaf of this tree: a node, or a blank that keeps an empty cluster
open. The layout works on leaves and clusters and knows nothing of statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from afl.lang.graph.elements import Cluster, Edge, Graph


class Arrow(NamedTuple):
    """An edge with the leaves or clusters it is drawn between."""

    edge: Edge
    source: str
    target: str


class Tree:
    def __init__(self, graph: Graph) -> None:
        self.clusters: dict[str, Cluster] = {each.key: each for each in graph.clusters}
        self.parent: dict[str, str | None] = {each.key: each.cluster for each in graph.nodes}
        self.parent.update({each.key: each.parent for each in graph.clusters})
        self.blanks = self._add_blanks()
        #: Nodes and blanks, in the order of the graph.
        self.leaves = [each for each in self.parent if each not in self.clusters]
        self._pairs = {(each.source, each.target) for each in graph.edges}
        self._bodies = {each.owner: each.key for each in graph.clusters if each.owner}
        self.arrows = [self._arrow(each) for each in graph.edges if not self._is_implied(each)]

    def _add_blanks(self) -> dict[str, str]:
        """A leaf for each cluster that has nothing in it."""
        used = set(self.parent.values())
        blanks = {f"{key}/nothing": key for key in self.clusters if key not in used}
        self.parent.update(blanks)
        return blanks

    def _is_implied(self, edge: Edge) -> bool:
        """Whether something around the target waits for the source already."""
        return any((edge.source, each) in self._pairs for each in self.around(edge.target))

    def _arrow(self, edge: Edge) -> Arrow:
        """A step with a body is finished when its body is, so what waits for it starts there."""
        body = self._bodies.get(edge.source)
        if body is None or self.is_within(edge.target, body):
            return Arrow(edge, edge.source, edge.target)
        return Arrow(edge, body, edge.target)

    def around(self, key: str) -> Iterator[str]:
        """The clusters that `key` is in, from the inside out."""
        parent = self.parent[key]
        while parent is not None:
            yield parent
            parent = self.parent[parent]

    def is_within(self, key: str, cluster: str) -> bool:
        return key == cluster or cluster in self.around(key)

    def common(self, one: str, other: str) -> str | None:
        """The innermost cluster that both are in; None is the whole picture."""
        outer = set(self.around(one))
        return next((each for each in self.around(other) if each in outer), None)
