"""A workflow as a mermaid flowchart, for pages that draw it themselves.

Labels are quoted, and every character that mermaid could take for its own becomes an entity.
"""

from __future__ import annotations

from collections.abc import Iterable

from afl.lang.graph.elements import Cluster, Edge, EdgeKind, Graph, Node, NodeKind
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
_CLASSES: dict[NodeKind, str] = {
    NodeKind.EVENT: "fill:#fff4e8,stroke:#c2570c,color:#0f1b2d",
    NodeKind.FACET: "fill:#ffffff,stroke:#5b6b82,color:#0f1b2d",
    NodeKind.WORKFLOW: "fill:#edf4ff,stroke:#2563c9,color:#0f1b2d",
    NodeKind.SCHEMA: "fill:#eefaf2,stroke:#1a7f45,color:#0f1b2d",
    NodeKind.SCRIPT: "fill:#f5f1fe,stroke:#6d42c7,color:#0f1b2d",
    NodeKind.YIELD: "fill:#ebf9f8,stroke:#0d7c7c,color:#0f1b2d",
    NodeKind.INPUT: "fill:#e9eef5,stroke:#33415a,color:#0f1b2d",
    NodeKind.OUTPUT: "fill:#e9eef5,stroke:#33415a,color:#0f1b2d",
    NodeKind.UNKNOWN: "fill:#fffdf3,stroke:#8a6d1f,color:#0f1b2d,stroke-dasharray:4 3",
}
#: What stands for itself in a label, beside letters and digits. No colon: `style: #35;` on one
#: line is not read as a label by every version.
_PLAIN = frozenset(" .,_-$=+×·⚡")


def to_mermaid(graph: Graph) -> str:
    outline = Outline(graph)

    def node(each: Node) -> str:
        opening, closing = _SHAPES[each.kind]
        bolt = "⚡ " if each.kind is NodeKind.EVENT else ""
        label = _label(bolt + each.label, each.summary, " · ".join(each.marks))
        return f"{outline.id(each.key)}{opening}{label}{closing}:::{each.kind}"

    def begin(cluster: Cluster) -> Iterable[str]:
        yield f"subgraph {outline.id(cluster.key)} [{_label(cluster.title)}]"

    def edge(each: Edge) -> str:
        arrow = "-->" if each.kind is EdgeKind.DATA else "-.->"
        return f"{outline.id(each.source)} {arrow} {outline.id(each.target)}"

    lines = ["flowchart TD"]
    lines += outline.lines(node, begin, lambda name: f'{name}["nothing"]', "end")
    lines += [f"    {edge(each)}" for each in graph.edges]
    used = {each.kind for each in graph.nodes}
    lines += [f"    classDef {kind} {style}" for kind, style in _CLASSES.items() if kind in used]
    return "\n".join(lines) + "\n"


def _label(*parts: str) -> str:
    """Lines of a label, in quotes. Mermaid takes no empty label."""
    return '"' + ("<br/>".join(_escaped(each) for each in parts if each) or " ") + '"'


def _escaped(text: str) -> str:
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in text)
