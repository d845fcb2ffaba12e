"""A workflow as a mermaid flowchart, for pages that draw it themselves."""

from __future__ import annotations

from collections.abc import Iterable

from afl.lang.graph.elements import Cluster, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.outline import Outline

#: Opening and closing brackets of mermaid's shapes.
_SHAPES: dict[NodeKind, tuple[str, str]] = {
    NodeKind.EVENT: ("[[", "]]"),
    NodeKind.FACET: ("[", "]"),
    NodeKind.WORKFLOW: ("[/", "/]"),
    NodeKind.SCHEMA: ("[(", ")]"),
    NodeKind.SCRIPT: (">", "]"),
    NodeKind.YIELD: ("([", "])"),
    NodeKind.INPUT: ("([", "])"),
    NodeKind.OUTPUT: ("([", "])"),
    NodeKind.UNKNOWN: ("{{", "}}"),
}
_CLASSES = {
    NodeKind.EVENT: "fill:#fff4e6,stroke:#c2570c,color:#1f2937",
    NodeKind.YIELD: "fill:#e6f7f5,stroke:#0f766e,color:#1f2937",
    NodeKind.UNKNOWN: "stroke-dasharray:4 3",
}


def to_mermaid(graph: Graph) -> str:
    outline = Outline(graph)

    def node(each: Node) -> str:
        opening, closing = _SHAPES[each.kind]
        bolt = "⚡ " if each.kind is NodeKind.EVENT else ""
        label = _label(bolt + each.label, each.summary, *each.marks)
        return f'{outline.id(each.key)}{opening}"{label}"{closing}:::{each.kind.value}'

    def begin(cluster: Cluster) -> Iterable[str]:
        # Mermaid draws a subgraph only if something is in it.
        yield f'subgraph {outline.id(cluster.key)} ["{_label(cluster.title)}"]'

    lines = ["flowchart TD", *outline.lines(node, begin, "end")]
    for edge in graph.edges:
        source, target = outline.ends(edge)
        arrow = "-->" if edge.kind is EdgeKind.DATA else "-.->"
        lines.append(f"    {source} {arrow} {target}")
    lines += [f"    classDef {kind.value} {style}" for kind, style in _CLASSES.items()]
    return "\n".join(lines) + "\n"


def _label(*parts: str) -> str:
    """Lines of a label. Whatever could end it or be read as markup becomes an entity."""
    return "<br/>".join(_escape(each) for each in parts if each)


def _escape(text: str) -> str:
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in text)


_PLAIN = " .,_-:$=+⚡×"
