"""Pictures as text: well formed, whatever the names are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

SVG = "{http://www.w3.org/2000/svg}"

PROGRAM = """
namespace shop
event facet Pay(sum: Double) => (id: String)
facet Note(text: String)
workflow Buy(sum: Double, items: [String]) => (id: String)
    andThen {
        paid = Pay(sum = $.sum) with afl.Retry(max = 2)
        noted = Note(text = paid.id)
        yield Buy(id = paid.id)
    }
    andThen foreach item in $.items { each = Pay(sum = 1.0) }
    andThen when { case $.sum > 1 => { big = Note(text = "a") } case _ => { } }
    catch { sorry = Note(text = $.error) }
"""


@pytest.fixture
def graph() -> Graph:
    return workflow_graph(afl.compile_source(PROGRAM), "Buy")


def test_every_step_is_in_the_svg_once_with_its_kind(graph: Graph) -> None:
    root = ET.fromstring(to_svg(graph))
    groups = [each for each in root.iter(f"{SVG}g") if each.get("data-key")]
    keys = sorted(each.get("data-key") or "" for each in groups)
    assert keys == sorted(
        [each.key for each in graph.nodes] + [each.key for each in graph.clusters]
    )
    event = next(each for each in groups if each.get("data-key") == "andThen:0/step:paid")
    assert "event" in (event.get("class") or "").split()


def test_states_become_classes(graph: Graph) -> None:
    text = to_svg(graph, states={"andThen:0/step:paid": "state.EventTransmit"})
    groups = [
        each
        for each in ET.fromstring(text).iter(f"{SVG}g")
        if each.get("data-key") == "andThen:0/step:paid"
    ]
    assert any(word.startswith("state-") for word in (groups[0].get("class") or "").split())


def test_an_svg_needs_nothing_from_outside(graph: Graph) -> None:
    text = to_svg(graph).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"<script|href|url\(\s*[\"']?https?:|@import|\son\w+=", text)


def test_mermaid_declares_every_node_and_closes_every_cluster(graph: Graph) -> None:
    lines = [each.strip() for each in to_mermaid(graph).splitlines()]
    assert lines[0] == "flowchart TD"
    declared = {match[1] for each in lines if (match := re.match(r"(n\d+)[\[(>{]", each))}
    assert len(declared) == len(graph.nodes)
    opened = [each for each in lines if each.startswith("subgraph ")]
    assert len(opened) == len(graph.clusters) == lines.count("end")


def test_mermaid_names_what_the_steps_are(graph: Graph) -> None:
    text = to_mermaid(graph)
    assert '[["⚡ paid<br/>Pay<br/>retry ×2"]]:::event' in text
    assert "foreach item in $.items" in text


def test_dot_edges_join_declared_nodes(graph: Graph) -> None:
    text = to_dot(graph)
    declared = set(re.findall(r"^\s*(n\d+) \[", text, re.MULTILINE))
    ends = re.findall(r"^\s*(\S+) -> (\w+)", text, re.MULTILINE)
    assert len(declared) == len(graph.nodes)
    assert ends
    assert {end for pair in ends for end in pair} <= declared
    assert text.count("{") == text.count("}") == len(graph.clusters) + 1


hostile = st.text(min_size=1, max_size=30) | st.sampled_from(
    ["end", 'a"b', "]]", "<b>&amp;", "--> n0", "subgraph", "\n\r\t", "\x00\x1b", "\\", "}", "😀"]
)


def named(label: str, title: str, kind: NodeKind, cluster: ClusterKind) -> Graph:
    node = Node("a", label, kind, label, label, label, (label,), cluster="c")
    other = Node("b", label, kind)
    return Graph(label, (node, other), (Cluster("c", title, cluster),), (Edge("a", "b"),))


@given(hostile, hostile, st.sampled_from(NodeKind), st.sampled_from(ClusterKind))
@settings(max_examples=150, deadline=None)
def test_no_name_can_break_a_format(
    label: str, title: str, kind: NodeKind, cluster: ClusterKind
) -> None:
    graph, harmless = named(label, title, kind, cluster), named("a", "b", kind, cluster)
    ET.fromstring(to_svg(graph))
    for write in (to_mermaid, to_dot):
        text, expected = write(graph), write(harmless)
        assert len(text.splitlines()) == len(expected.splitlines())
        assert unescaped_quotes(text) == unescaped_quotes(expected)


def unescaped_quotes(text: str) -> int:
    return len(re.findall(r'(?<!\\)(?:\\\\)*"', text))


@pytest.mark.parametrize("name", FORMATS)
def test_a_thousand_steps_can_be_drawn(name: str) -> None:
    nodes = tuple(Node(f"n{i}", f"step {i}", NodeKind.EVENT) for i in range(1000))
    edges = tuple(Edge(f"n{i // 3}", f"n{i}", EdgeKind.DATA) for i in range(1, 1000))
    text = FORMATS[name](Graph("large", nodes, (), edges))
    assert "step 999" in text
