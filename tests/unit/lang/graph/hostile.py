"""Graphs with names that somebody chose to do harm."""

from __future__ import annotations

from hypothesis import strategies as st

from afl.lang.graph import Cluster, ClusterKind, Edge, EdgeKind, Graph, Node, NodeKind

_NASTY = [
    *("", " ", "end", "END", "subgraph", "graph", "node", "digraph", "style x fill:#fff;"),
    *("classDef", "click n0 call()", "%% no comment", "// comment", "/* */", "# include"),
    *('a"b', "'", "`", "`md`", "\\", '\\"', "\\N\\G\\l", "]]", "[[", ")}>", "{", "}", "|", ";"),
    *("--> n0", "n0 -> n1", "<b>&amp;</b>", "]]>", "<!--", "<script>alert(1)</script>", "#quot;"),
    *("</style>", "\n", "\r\n\t", "\u2028\u0085", "\x00\x1b\x7f", "\ud800", "\ufffe", "😀", "é日"),
]
names = st.sampled_from(_NASTY) | st.text(st.characters(), max_size=20)


@st.composite
def hostile_graphs(draw: st.DrawFn) -> Graph:
    """Two nodes, one of them in a cluster; an empty cluster; edges between all of them."""
    cluster, empty = (
        Cluster(f"{draw(names)} {i}", draw(names), draw(st.sampled_from(ClusterKind)))
        for i in range(2)
    )
    nodes = tuple(
        Node(
            f"{draw(names)} {draw(names)} node{i}",
            draw(names),
            draw(st.sampled_from(NodeKind)),
            draw(names),
            draw(names),
            draw(names),
            tuple(draw(st.lists(names, max_size=2))),
            home,
        )
        for i, home in enumerate((cluster.key, None))
    )
    edges = (
        Edge(nodes[0].key, nodes[1].key),
        Edge(nodes[1].key, empty.key, EdgeKind.CONTROL),
        Edge(cluster.key, empty.key),
    )
    return Graph(draw(names), nodes, (cluster, empty), edges)
