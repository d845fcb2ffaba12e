"""The SVG: well formed, self-contained and complete, whatever the names are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from hypothesis import given, settings
from tests.unit.lang.graph.graphs import graphs
from tests.unit.lang.graph.hostile import hostile_graphs

import afl
from afl.lang.graph import Edge, Graph, Node, NodeKind, to_svg, workflow_graph
from afl.lang.graph.measure import text_width

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


def one(label: str, text: str = "") -> Graph:
    return Graph("g", (Node("key", label, NodeKind.EVENT, summary=label, text=text),))


def group(svg: str, key: str) -> ET.Element:
    groups = ET.fromstring(svg).iter(f"{SVG}g")
    return next(each for each in groups if each.get("data-key") == key)


def classes(element: ET.Element) -> list[str]:
    return (element.get("class") or "").split()


def texts(element: ET.Element) -> list[str]:
    return [each.text or "" for each in element.iter(f"{SVG}text")]


def test_every_node_and_cluster_is_there_once(graph: Graph) -> None:
    root = ET.fromstring(to_svg(graph))
    keys = Counter(each.get("data-key") for each in root.iter(f"{SVG}g") if each.get("data-key"))
    expected = [each.key for each in graph.nodes] + [each.key for each in graph.clusters]
    assert keys == Counter(expected)


def test_a_node_shows_name_target_and_marks_and_tells_the_rest(graph: Graph) -> None:
    found = group(to_svg(graph), "andThen:0/step:paid")
    assert classes(found) == ["node", "event"]
    assert texts(found) == ["paid", "Pay", "EVENT", "retry ×2"]
    title = found.find(f"{SVG}title")
    assert title is not None
    assert title.text == ("paid = Pay(sum = $.sum) with afl.Retry(max = 2)\nevent shop.Pay")


def test_only_event_facets_carry_the_tag(graph: Graph) -> None:
    root = ET.fromstring(to_svg(graph))
    tagged = {
        each.get("data-key") for each in root.iter(f"{SVG}g")
        if each.get("data-key") and "EVENT" in texts(each)
    }  # fmt: skip
    assert tagged == {each.key for each in graph.nodes if each.kind is NodeKind.EVENT}


def test_clusters_are_captioned(graph: Graph) -> None:
    shown = texts(ET.fromstring(to_svg(graph)))
    assert {"andThen 1", "foreach item in $.items", "when", "otherwise", "catch"} <= set(shown)
    # The default case does nothing, and says so.
    assert shown.count("nothing") == 1


def test_arrows_say_between_what_they_run(graph: Graph) -> None:
    paths = ET.fromstring(to_svg(graph)).iter(f"{SVG}path")
    ends = {(each.get("data-from"), each.get("data-to")) for each in paths if each.get("data-to")}
    assert ends == {(each.source, each.target) for each in graph.edges}


def test_states_become_classes_and_part_of_the_tooltip(graph: Graph) -> None:
    states = {"andThen:0/step:paid": "state.statement.Complete", "nowhere": "running"}
    svg = to_svg(graph, states=states)
    found = group(svg, "andThen:0/step:paid")
    assert classes(found) == ["node", "event", "state-state-statement-complete"]
    assert "state: state.statement.Complete" in ET.tostring(found, "unicode")
    assert classes(group(svg, "andThen:0/step:noted")) == ["node", "facet"]


def test_it_describes_itself_to_those_who_cannot_see_it(graph: Graph) -> None:
    root = ET.fromstring(to_svg(graph))
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.findtext(f"{SVG}title") == "shop.Buy"
    description = root.findtext(f"{SVG}desc") or ""
    assert "6 statements, 2 of them event facets" in description


def test_the_legend_explains_what_is_used_and_nothing_else(graph: Graph) -> None:
    root = ET.fromstring(to_svg(graph))
    legend = next(each for each in root.iter(f"{SVG}g") if classes(each) == ["legend"])
    assert texts(legend) == [
        "event facet: done by a handler",
        "facet",
        "yield",
        "reads",
        "starts",
    ]


def test_it_needs_nothing_from_outside_and_runs_nothing(graph: Graph) -> None:
    svg = to_svg(graph).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"<script|href|@import|\son\w+=|<foreignObject|https?:", svg)
    assert set(re.findall(r"url\((.*?)\)", svg)) <= {"#afl-head-data", "#afl-head-control"}


def test_colours_have_a_dark_side_and_a_plain_one(graph: Graph) -> None:
    style = ET.fromstring(to_svg(graph)).findtext(f"{SVG}style") or ""
    assert "prefers-color-scheme:dark" in style
    for name, value in re.findall(r"(fill|stroke):var\((--afl-[\w-]+)\)", style):
        # Readers without custom properties drop this and keep what stands before it.
        assert re.search(rf"{name}:#[0-9a-f]{{6}};{name}:var\({value}\)", style)
        assert style.count(f"{value}:#") == 2


def test_long_names_are_cut_and_stay_in_the_tooltip() -> None:
    name = "a_step_with_a_name_that_no_box_can_hold_" * 4
    found = group(to_svg(one(name, f"{name} = F()")), "key")
    label, summary, *_ = texts(found)
    assert label.endswith("…")
    assert name.startswith(label[:-1])
    assert len(summary) < len(name)
    assert name in (found.findtext(f"{SVG}title") or "")


@pytest.mark.parametrize(
    "name", ["x" * 12, "WWWWMMMM", "料理を作る", "e\u0301" * 9, "iiiiiiiiiiiiiiiiiii"]
)
def test_text_stays_in_its_box(name: str) -> None:
    found = group(to_svg(one(name)), "key")
    box = found.find(f"{SVG}rect")
    label = found.find(f"{SVG}text")
    assert box is not None
    assert label is not None
    end = float(label.get("x") or 0) + text_width(label.text or "", 13, bold=True)
    assert end <= float(box.get("width") or 0)


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_any_graph_is_well_formed(graph: Graph) -> None:
    assert ET.fromstring(to_svg(graph)).tag == f"{SVG}svg"
    assert "nan" not in to_svg(graph)


@given(hostile_graphs())
@settings(max_examples=150, deadline=None)
def test_no_name_can_break_it(graph: Graph) -> None:
    svg = to_svg(graph, states={each.key: each.label for each in graph.nodes})
    root = ET.fromstring(svg.encode("utf-8"))
    allowed = {"svg", "g", "rect", "path", "circle", "text", "title", "desc", "style", "defs"}
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= allowed | {"marker"}
    groups = [each for each in root.iter(f"{SVG}g") if "node" in classes(each)]
    assert len([each for each in groups if each.get("data-key") is not None]) == len(graph.nodes)


def test_an_empty_graph_is_a_picture_too() -> None:
    assert ET.fromstring(to_svg(Graph("empty"))).tag == f"{SVG}svg"


def test_a_thousand_steps_can_be_drawn() -> None:
    nodes = tuple(Node(f"n{i}", f"step {i}", NodeKind.EVENT) for i in range(1000))
    edges = tuple(Edge(f"n{i // 3}", f"n{i}") for i in range(1, 1000))
    assert "step 999" in to_svg(Graph("large", nodes, (), edges))
