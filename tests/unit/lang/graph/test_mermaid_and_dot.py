"""The text formats: right in their own grammar, whatever the names are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from tests.unit.lang.graph.graphs import graphs
from tests.unit.lang.graph.hostile import hostile_graphs

import afl
from afl.lang.graph import (
    FORMATS,
    Cluster,
    ClusterKind,
    Edge,
    EdgeKind,
    Graph,
    Node,
    NodeKind,
    to_dot,
    to_mermaid,
    to_svg,
    workflow_graph,
)

PROGRAM = """
namespace shop
event facet Pay(sum: Double) => (id: String)
facet Note(text: String)
workflow Buy(sum: Double) => (id: String) andThen {
    paid = Pay(sum = $.sum) with afl.Retry(max = 2) catch { }
    noted = Note(text = paid.id)
    yield Buy(id = paid.id)
}
andThen when { case $.sum > 1 => { big = Note(text = "a") } case _ => { } }
"""

MANY = settings(max_examples=150, deadline=None)


@pytest.fixture
def graph() -> Graph:
    return workflow_graph(afl.compile_source(PROGRAM), "Buy")


def test_the_formats_by_name() -> None:
    assert dict(FORMATS) == {"svg": to_svg, "mermaid": to_mermaid, "dot": to_dot}


# Mermaid

_LABEL = r'"(?:[\w .,$=+×⚡·-]|#\d+;|<br/>)+"'
_MERMAID = {
    "subgraph": re.compile(rf"subgraph (?P<name>cluster_\d+) \[{_LABEL}\]"),
    "end": re.compile("end"),
    "edge": re.compile(r"(?P<source>\w+) (?:-->|-\.->) (?P<target>\w+)"),
    "class": re.compile(r"classDef \w+ (?:[a-z-]+:[#\w ]+,?)+"),
    "node": re.compile(rf"(?P<name>\w+)[\[({{>/]+{_LABEL}[\])}}/]+(?P<kind>:::\w+)?"),
}


def read_mermaid(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Names in the order of their declaration, and edges. Fails on any line it does not know."""
    first, *lines = text.removesuffix("\n").split("\n")
    assert first == "flowchart TD"
    names: list[str] = []
    edges: list[tuple[str, str]] = []
    depth = 0
    for line in lines:
        kind, match = next(
            (kind, match)
            for kind, pattern in _MERMAID.items()
            if (match := pattern.fullmatch(line.strip()))
        )
        depth += {"subgraph": 1, "end": -1}.get(kind, 0)
        assert depth >= 0
        if kind in ("node", "subgraph"):
            names.append(match["name"])
        if kind == "edge":
            assert match["source"] in names
            assert match["target"] in names
            edges.append((match["source"], match["target"]))
    assert depth == 0
    assert len(set(names)) == len(names)
    return names, edges


def test_mermaid_of_a_program(graph: Graph) -> None:
    assert to_mermaid(graph).splitlines()[:12] == [
        "flowchart TD",
        '    n0(["Buy<br/>sum"]):::input',
        '    n5(["result<br/>id"]):::output',
        '    subgraph cluster_0 ["andThen 1"]',
        '        n1[["⚡ paid<br/>Pay<br/>retry ×2 · catch"]]:::event',
        '        n2["noted<br/>Note"]:::facet',
        '        n3(["yield<br/>id"]):::yield',
        '        subgraph cluster_4 ["catch paid"]',
        '            blank_4["nothing"]',
        "        end",
        "    end",
        '    subgraph cluster_1 ["when"]',
    ]
    assert 'subgraph cluster_2 ["case $.sum #62; 1"]' in to_mermaid(graph)


def test_mermaid_has_solid_and_dotted_arrows(graph: Graph) -> None:
    text = to_mermaid(graph)
    assert "    n1 --> n2\n" in text
    assert "    n1 -.-> cluster_4\n" in text


@given(graphs() | hostile_graphs())
@MANY
def test_mermaid_declares_everything_once_before_its_use(graph: Graph) -> None:
    names, edges = read_mermaid(to_mermaid(graph))
    empty = sum(each.startswith("blank") for each in names)
    assert len(names) == len(graph.nodes) + len(graph.clusters) + empty
    assert len(edges) == len(graph.edges)


# Dot

_TOKEN = re.compile(r'\s+|(?P<token>"(?:[^"\\\n]|\\.)*"|->|[{}\[\]=;,]|\w+)')


def read_dot(text: str) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """Nodes in the order of their declaration, edges, and clusters, of the dot that we write."""
    tokens = _dot_tokens(text)
    assert tokens[0] == "digraph"
    nodes: list[str] = []
    edges: list[tuple[str, str]] = []
    clusters: list[str] = []
    at, depth = 2, 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        if token in "{}":
            depth += 1 if token == "{" else -1
            at += 1
        elif token == "subgraph":
            clusters.append(following)
            at += 2
        else:
            end = tokens.index(";", at)
            if following == "->":
                edges.append((token, tokens[at + 2]))
            elif following == "[" and token not in ("node", "edge", "graph"):
                nodes.append(token)
            assert tokens[at:end].count("[") == tokens[at:end].count("]") <= 1
            at = end + 1
    assert depth == 0
    return nodes, edges, clusters


def _dot_tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, text[at : at + 40]
        if match["token"]:
            tokens.append(match["token"])
        at = match.end()
    return tokens


def test_dot_of_a_program(graph: Graph) -> None:
    text = to_dot(graph)
    assert text.startswith('digraph "shop.Buy" {\n')
    assert r'label="paid\nPay\nevent · retry ×2 · catch"' in text
    assert r'label="case $.sum > 1"' in text
    # An edge to a cluster ends at a node in it and is cut at its border.
    assert "n1 -> blank_4 [style=dashed, lhead=cluster_4];" in text


def test_dot_escapes_what_ends_a_string_or_means_something_in_a_label() -> None:
    text = to_dot(Graph("g", (Node("k", 'a"b\\N\n\x00', NodeKind.FACET),)))
    assert r'label="a\"b\\N\n "' in text


@given(graphs() | hostile_graphs())
@MANY
def test_dot_declares_every_node_that_edges_join(graph: Graph) -> None:
    nodes, edges, clusters = read_dot(to_dot(graph))
    assert len(set(nodes)) == len(nodes)
    assert len([each for each in nodes if each.startswith("n")]) == len(graph.nodes)
    assert len(clusters) == len(graph.clusters)
    assert len(edges) == len(graph.edges)
    assert {end for pair in edges for end in pair} <= set(nodes)


# Both


@pytest.mark.parametrize("name", ["mermaid", "dot"])
def test_deep_clusters_need_no_stack(name: str) -> None:
    clusters = tuple(
        Cluster(f"c{i}", "deep", ClusterKind.BODY, f"c{i - 1}" if i else None) for i in range(2000)
    )
    nodes = (Node("a", "a", NodeKind.FACET), Node("b", "b", NodeKind.FACET, cluster="c1999"))
    edges = (Edge("a", "c0", EdgeKind.CONTROL),)
    assert "b" in FORMATS[name](Graph("deep", nodes, clusters, edges))


@pytest.mark.parametrize("name", FORMATS)
def test_text_can_always_be_written_to_a_file(name: str) -> None:
    graph = Graph("\ud800", (Node("\ud800", "\ud800", NodeKind.FACET, text="\ud800"),))
    assert FORMATS[name](graph).encode("utf-8")
