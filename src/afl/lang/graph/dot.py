"""A workflow in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterable

from afl.lang.graph.elements import Cluster, Edge, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.outline import Outline

_STYLES: dict[NodeKind, str] = {
    NodeKind.EVENT: "shape=box, peripheries=2, color=darkorange3",
    NodeKind.FACET: "shape=box",
    NodeKind.WORKFLOW: "shape=folder",
    NodeKind.SCHEMA: "shape=cylinder",
    NodeKind.SCRIPT: "shape=note",
    NodeKind.YIELD: "shape=oval, color=teal",
    NodeKind.INPUT: "shape=oval, style=bold",
    NodeKind.OUTPUT: "shape=oval, style=bold",
    NodeKind.UNKNOWN: "shape=box, style=dashed",
}


def to_dot(graph: Graph) -> str:
    outline = Outline(graph)

    def node(each: Node) -> str:
        event = "event" if each.kind is NodeKind.EVENT else ""
        label = _quoted("\n".join(part for part in (each.label, each.summary, event) if part))
        tooltip = _quoted(each.text)
        return f"{outline.id(each.key)} [{_STYLES[each.kind]}, label={label}, tooltip={tooltip}];"

    def begin(cluster: Cluster) -> Iterable[str]:
        yield f"subgraph {outline.id(cluster.key)} {{"
        yield f"label={_quoted(cluster.title)};"

    lines = [f"digraph {_quoted(graph.name)} {{", "    compound=true;"]
    lines += outline.lines(node, begin, "}")
    lines += [f"    {_edge(each, outline)}" for each in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _edge(edge: Edge, outline: Outline) -> str:
    """Edges of dot join nodes; one to a cluster is cut at the cluster's border."""
    source, target = outline.first_node(edge.source), outline.first_node(edge.target)
    options = [] if edge.kind is EdgeKind.DATA else ["style=dashed"]
    if target != outline.id(edge.target):
        options.append(f"lhead={outline.id(edge.target)}")
    if source != outline.id(edge.source):
        options.append(f"ltail={outline.id(edge.source)}")
    return f"{source} -> {target}" + (f" [{', '.join(options)}];" if options else ";")


def _quoted(text: str) -> str:
    shown = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
