"""A workflow in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterable

from afl.lang.graph.elements import Cluster, ClusterKind, Edge, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.outline import Outline

_STYLES: dict[NodeKind, str] = {
    NodeKind.EVENT: 'peripheries=2, color="#c2570c", fillcolor="#fff4e8"',
    NodeKind.FACET: 'color="#5b6b82", fillcolor="#ffffff"',
    NodeKind.WORKFLOW: 'shape=folder, color="#2563c9", fillcolor="#edf4ff"',
    NodeKind.SCHEMA: 'shape=cylinder, color="#1a7f45", fillcolor="#eefaf2"',
    NodeKind.SCRIPT: 'shape=note, color="#6d42c7", fillcolor="#f5f1fe"',
    NodeKind.YIELD: 'shape=oval, color="#0d7c7c", fillcolor="#ebf9f8"',
    NodeKind.INPUT: 'shape=oval, color="#33415a", fillcolor="#e9eef5"',
    NodeKind.OUTPUT: 'shape=oval, color="#33415a", fillcolor="#e9eef5"',
    NodeKind.UNKNOWN: 'color="#8a6d1f", fillcolor="#fffdf3", style="filled,dashed"',
}


def to_dot(graph: Graph) -> str:
    outline = Outline(graph)

    def node(each: Node) -> str:
        event = "event" if each.kind is NodeKind.EVENT else ""
        words = " · ".join(part for part in (event, *each.marks) if part)
        label = _quoted("\n".join(part for part in (each.label, each.summary, words) if part))
        tooltip = _quoted(each.text or each.label)
        return f"{outline.id(each.key)} [{_STYLES[each.kind]}, label={label}, tooltip={tooltip}];"

    def begin(cluster: Cluster) -> Iterable[str]:
        colour = "#b4303c" if cluster.kind is ClusterKind.CATCH else "#a3b1c6"
        yield f"subgraph {outline.id(cluster.key)} {{"
        yield f'label={_quoted(cluster.title)}; labeljust=l; color="{colour}";'

    return "\n".join(
        [
            f"digraph {_quoted(graph.name)} {{",
            "    compound=true;",
            '    node [shape=box, style=filled, fontname="sans-serif"];',
            '    graph [fontname="sans-serif"];',
            '    edge [color="#64748b"];',
            *outline.lines(node, begin, '{} [shape=plaintext, label="nothing"];'.format, "}"),
            *(f"    {_edge(each, outline)}" for each in graph.edges),
            "}",
            "",
        ]
    )


def _edge(edge: Edge, outline: Outline) -> str:
    """Edges of dot join nodes; one of a cluster is cut at the cluster's border."""
    source, target = outline.anchor(edge.source), outline.anchor(edge.target)
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
