"""The order in which text formats write a graph: each cluster with what is in it.

Shared by the writers of mermaid and dot. Their own identifiers are numbers, because keys hold
signs that neither format takes. A cluster that holds nothing gets a blank, so that both formats
draw it and edges can end at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from afl.lang.graph.elements import Cluster, Graph, Node


class Outline:
    def __init__(self, graph: Graph) -> None:
        self._ids = {each.key: f"n{index}" for index, each in enumerate(graph.nodes)}
        self._ids |= {each.key: f"cluster_{index}" for index, each in enumerate(graph.clusters)}
        self._inner: dict[str | None, list[Node | Cluster]] = {None: []}
        self._inner |= {each.key: [] for each in graph.clusters}
        for node in graph.nodes:
            self._inner[node.cluster].append(node)
        for cluster in graph.clusters:
            self._inner[cluster.parent].append(cluster)

    def id(self, key: str) -> str:
        return self._ids[key]

    def anchor(self, key: str) -> str:
        """The node that stands for a key: itself, or the first one inside a cluster."""
        while key in self._inner:
            inner = self._inner[key]
            if not inner:
                return self._blank(key)
            key = inner[0].key
        return self.id(key)

    def lines(
        self,
        node: Callable[[Node], str],
        begin: Callable[[Cluster], Iterable[str]],
        blank: Callable[[str], str],
        end: str,
    ) -> list[str]:
        """Every node inside its clusters. Worked off from a list: clusters nest deeply."""
        result: list[str] = []
        pending: list[tuple[int, Node | Cluster | str]]
        pending = [(1, each) for each in reversed(self._inner[None])]
        while pending:
            depth, item = pending.pop()
            if isinstance(item, str):
                result.append(_indented(depth, item))
            elif isinstance(item, Node):
                result.append(_indented(depth, node(item)))
            else:
                head, *more = begin(item)
                result.append(_indented(depth, head))
                result += [_indented(depth + 1, each) for each in more]
                inner: list[Node | Cluster | str] = [*self._inner[item.key]]
                inner = inner or [blank(self._blank(item.key))]
                pending.append((depth, end))
                pending += [(depth + 1, each) for each in reversed(inner)]
        return result

    def _blank(self, cluster: str) -> str:
        return self._ids[cluster].replace("cluster", "blank")


def _indented(depth: int, line: str) -> str:
    return "    " * depth + line
