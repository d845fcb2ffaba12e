"""Workflows as pictures: `workflow_graph` says what is in one, `FORMATS` how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afl.lang.graph.dot import to_dot
from afl.lang.graph.elements import Cluster, ClusterKind, Edge, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.mermaid import to_mermaid
from afl.lang.graph.model import workflow_graph
from afl.lang.graph.svg import state_class, to_svg

FORMATS: Mapping[str, Callable[[Graph], str]] = {
    "svg": to_svg,
    "mermaid": to_mermaid,
    "dot": to_dot,
}

__all__ = [
    "FORMATS",
    "Cluster",
    "ClusterKind",
    "Edge",
    "EdgeKind",
    "Graph",
    "Node",
    "NodeKind",
    "state_class",
    "to_dot",
    "to_mermaid",
    "to_svg",
    "workflow_graph",
]
