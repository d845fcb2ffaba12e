"""The order in which text formats write a graph: each cluster with what is in it.

Shared by the writers of mermaid and dot. Their own identifiers are numbers, because keys hold
signs that neither format takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from afl.lang.graph.elements import Cluster, Edge, Graph, Node


class Outline:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        keys = [each.key for each in graph.nodes]
        self._ids = {key: f"n{index}" for index, key in enumerate(keys)}
        self._cluster_keys = {each.key for each in graph.clusters}
        self._ids |= {each.key: f"cluster_{index}" for index, each in enumerate(graph.clusters)}
        self._nodes: dict[str | None, list[Node]] = {}
        self._clusters: dict[str | None, list[Cluster]] = {}
        for node in graph.nodes:
            self._nodes.setdefault(node.cluster, []).append(node)
        for cluster in graph.clusters:
            self._clusters.setdefault(cluster.parent, []).append(cluster)

    def id(self, key: str) -> str:
        return self._ids[key]

    def first_node(self, edge_end: str) -> str:
        """The node that stands for a key: itself, or the first one inside a cluster.

        An edge to a cluster that holds nothing has no end; it stays at the cluster's own id.
        """
        pending = [edge_end]
        while pending:
            key = pending.pop()
            if key not in self._cluster_keys:
                return self.id(key)
            inner = [each.key for each in self._nodes.get(key, [])]
            inner += [each.key for each in self._clusters.get(key, [])]
            pending.extend(reversed(inner))
        return self.id(edge_end)

    def lines(
        self,
        node: Callable[[Node], str],
        begin: Callable[[Cluster], Iterable[str]],
        end: str,
        indent: str = "    ",
    ) -> list[str]:
        """Every node inside its clusters. Worked off from a list: clusters nest deeply."""
        result: list[str] = []
        pending: list[tuple[int, Node | Cluster | str]] = self._inside(None, 1)
        while pending:
            depth, item = pending.pop()
            if isinstance(item, Node):
                result.append(indent * depth + node(item))
            elif isinstance(item, Cluster):
                head, *more = begin(item)
                result.append(indent * depth + head)
                result += [indent * (depth + 1) + each for each in more]
                pending.append((depth, end))
                pending.extend(self._inside(item.key, depth + 1))
            else:
                result.append(indent * depth + item)
        return result

    def _inside(self, key: str | None, depth: int) -> list[tuple[int, Node | Cluster | str]]:
        inner: list[Node | Cluster | str] = [
            *self._nodes.get(key, []),
            *self._clusters.get(key, []),
        ]
        return [(depth, each) for each in reversed(inner)]

    def ends(self, edge: Edge) -> tuple[str, str]:
        return self.id(edge.source), self.id(edge.target)
